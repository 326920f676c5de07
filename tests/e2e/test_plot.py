# SPDX-License-Identifier: Apache-2.0
"""tools/plot: its figures, its numbers, its errors. test_plot.py PROGRAM PLOT [-k Figures]"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree

import sim_runs

PLOT = os.path.abspath(sys.argv.pop(2))
PROGRAM = os.path.abspath(sys.argv.pop(1))
KINDS = ("accuracy-time", "accuracy-epochs", "accuracy-bytes", "spread", "consensus", "timeline",
         "bars")
GNUPLOT = shutil.which("gnuplot") is not None
RUNS = (("gossip", ("--exchange", "gossip", "--label", "gossip, T = 10")),
        ("average", ("--exchange", "allreduce", "--latency", "0.02")),
        ("pairs", ("--momentum-rule", "kgt", "--momentum", "0.5")))
CURVES = """{"event": "axes", "across": "nodes", "up": "speed-up"}
{"event": "point", "curve": "tree", "dashed": false, "x": 2, "y": 1.5}
{"event": "point", "curve": "tree", "dashed": false, "x": 4, "y": 2.5}
{"event": "point", "curve": "tree, no overlap", "dashed": true, "x": 2, "y": 1.25}
{"event": "mark", "label": "217x", "x": 4, "y": 2.25}
"""


class Plot(unittest.TestCase):
    """The runs that all tests look at, and the program."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        sim_runs.make_inputs(cls.folder)
        for name, flags in RUNS:
            run = sim_runs.simulate(PROGRAM, cls.folder, "--steps", "50", "--skew", "sorted",
                                    "--eval-steps", "10", "--timeline", "0.4", "--json",
                                    name + ".jsonl", *flags)
            assert run.returncode == 0, run.stderr

    def plot(self, *words, status=0, path=None):
        environment = dict(os.environ, **({"PATH": path} if path else {}))
        run = subprocess.run([sys.executable, PLOT, *words], cwd=self.folder, text=True,
                             capture_output=True, timeout=120, check=False, env=environment)
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertNotIn("Traceback", run.stderr)
        return run.stdout if status == 0 else run.stderr

    def events(self, name):
        return sim_runs.read_events(os.path.join(self.folder, name))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def rows(self, *words):
        """The table's rows, split where two spaces or more are."""
        return [re.split(r" {2,}", line) for line in self.plot(*words, "--print").splitlines()]


@unittest.skipUnless(GNUPLOT, "skipped: no gnuplot; tools/setup plot installs it")
class Figures(Plot):
    def test_every_kind_in_both_formats(self):
        for kind in KINDS:
            files = [name + ".jsonl" for name, _ in RUNS][:1 if kind == "timeline" else None]
            self.plot(kind, *files, "-o", "out.png", "--size", "640x400")
            with open(os.path.join(self.folder, "out.png"), "rb") as file:
                png = file.read()
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
            self.assertEqual(struct.unpack(">II", png[16:24]), (640, 400), kind)
            self.assertGreater(len(png), 4000, kind)        # more than an empty page
            self.plot(kind, *files, "-o", "out.svg", "--title", "A title of 'its' own")
            tree = xml.etree.ElementTree.parse(os.path.join(self.folder, "out.svg"))
            text = "".join(tree.getroot().itertext())
            self.assertIn("A title of 'its' own", text)
            self.assertIn("gossip, T = 10" if kind != "timeline" else "end of a local step", text)
            os.remove(os.path.join(self.folder, "out.svg"))

    def test_axes_have_units(self):
        for kind, wanted in (("accuracy-time", ("virtual time [s]", "[%]")),
                             ("accuracy-epochs", ("epochs",)), ("accuracy-bytes", ("[kB]",)),
                             ("consensus", ("norm of the mean model",)), ("bars", ("[%]",)),
                             ("spread", ("[s]", "[%]")), ("timeline", ("[s]", "node"))):
            self.plot(kind, "gossip.jsonl", "-o", "out.svg")
            with open(os.path.join(self.folder, "out.svg"), encoding="utf-8") as file:
                text = file.read()
            for words in wanted:
                self.assertIn(words, text, kind)

    def test_options_of_figures(self):
        for words in (("accuracy-bytes", "--log-x"), ("bars", "--log-x"), ("bars", "--target", "1"),
                      ("consensus", "--log-y"), ("accuracy-time", "--target", "0.5"),
                      ("spread", "--target", "0.5", "--log-x")):
            self.plot(*words, "gossip.jsonl", "average.jsonl", "-o", "out.png")
        self.plot("timeline", "pairs.jsonl", "--seconds", "0.1:0.2", "-o", "out.png")


    def test_curves_are_of_any_numbers(self):
        self.write("curves.jsonl", CURVES)
        self.plot("curves", "curves.jsonl", "-o", "out.svg", "--log-x")
        with open(os.path.join(self.folder, "out.svg"), encoding="utf-8") as file:
            text = file.read()
        for words in ("nodes", "speed-up", "tree", "tree, no overlap", "217x"):
            self.assertIn(words, text)


class Numbers(Plot):
    def test_curves_are_printed_and_their_errors_said(self):
        self.write("curves.jsonl", CURVES)
        self.assertEqual(self.rows("curves", "curves.jsonl"),
                         [["curve", "x", "y"], ["tree", "2", "1.5"], ["tree", "4", "2.5"],
                          ["tree, no overlap", "2", "1.25"]])
        for text, said in (('{"event": "point"}', "other lines"), ("x", "other lines"),
                           (CURVES.splitlines()[0], "no points"),
                           (CURVES.replace('"speed-up"', "1"), "other lines"),
                           (CURVES.replace('"tree"', "null"), "other lines"),
                           (CURVES.replace("1.5", "NaN"), "other lines")):
            self.write("faulty.jsonl", text)
            for out in (("--print",), ("-o", "faulty.svg")):
                self.assertIn(said, self.plot("curves", "faulty.jsonl", *out, status=1))
        self.assertIn("shows one FILE", self.plot("curves", "curves.jsonl", "gossip.jsonl",
                                                  "--print", status=2))

    def test_words_that_a_kind_would_leave_out_are_refused(self):
        self.write("curves.jsonl", CURVES)
        for words in (("curves", "--target", "0.5"), ("curves", "--label", "x"),
                      ("curves", "--seconds", "0:1"), ("consensus", "--target", "0.5"),
                      ("bars", "--seconds", "0:1"), ("accuracy-time", "--log-y")):
            file = "curves.jsonl" if words[0] == "curves" else "gossip.jsonl"
            self.assertIn(f"{words[1]}: is not for {words[0]}",
                          self.plot(*words, file, "--print", status=2))

    def test_numbers_are_those_of_the_events(self):
        tests = [event for event in self.events("average.jsonl")
                 if event["event"] in ("eval", "done")]
        rows = self.rows("accuracy-time", "average.jsonl")
        self.assertEqual(rows[0], ["run", "virtual_seconds", "test_accuracy"])
        self.assertEqual(len(rows) - 1, len(tests))
        for row, test in zip(rows[1:], tests):
            self.assertEqual(row[0], "average")             # the file's name: it has no label
            self.assertAlmostEqual(float(row[1]), test["virtual_seconds"], 4)
            self.assertAlmostEqual(float(row[2]), test["test_accuracy"], 5)
        rows = self.rows("spread", "average.jsonl")[1:]
        for row, test in zip(rows, tests):
            self.assertAlmostEqual(float(row[3]), test["lower_quartile_accuracy"], 5)
        rows = self.rows("timeline", "gossip.jsonl")[1:]
        pulls = [event for event in self.events("gossip.jsonl") if event["event"] == "exchange"]
        self.assertEqual([(int(row[1]), int(row[2])) for row in rows],
                         [(pull["node"], pull["peer"]) for pull in pulls])
        rows = self.rows("accuracy-bytes", "gossip.jsonl")
        self.assertAlmostEqual(float(rows[-1][1]) * 4 / self.events("gossip.jsonl")[-1]
                               ["bytes_sent"], 1, 4)

    def test_runs_are_told_apart(self):
        """By their label, by what differs, by --label; seeds of one label are one bar."""
        rows = self.rows("bars", "gossip.jsonl", "average.jsonl", "pairs.jsonl")
        self.assertEqual([row[0] for row in rows[1:]],
                         ["gossip, T = 10", "allreduce, random, qg, momentum 0.9, latency 0.02 s",
                          "gossip, matching, kgt, momentum 0.5, latency 0.005 s"])
        rows = self.rows("bars", "gossip.jsonl", "average.jsonl", "--label", "a", "--label", "b")
        self.assertEqual([row[0] for row in rows[1:]], ["a", "b"])
        rows = self.rows("bars", "gossip.jsonl", "average.jsonl", "--label", "a", "--label", "a")
        ends = sorted(100 * self.events(name)[-1]["test_accuracy"]
                      for name in ("gossip.jsonl", "average.jsonl"))
        self.assertEqual(rows[1][0], "a")
        for wanted, cell in zip((sum(ends) / 2, *ends), rows[1][1:]):
            self.assertAlmostEqual(float(cell), wanted, 3)
        self.assertIn("there are 2 runs and 1 label",
                      self.plot("bars", "gossip.jsonl", "average.jsonl", "--label", "a", "--print",
                                status=1))

    def test_target_is_when_it_was_reached(self):
        tests = [event for event in self.events("gossip.jsonl")
                 if event["event"] in ("eval", "done")]
        target = sorted(test["test_accuracy"] for test in tests)[2]
        first = next(test for test in tests if test["test_accuracy"] >= target)
        rows = self.rows("bars", "gossip.jsonl", "--target", repr(target))
        self.assertAlmostEqual(float(rows[1][1]), first["virtual_seconds"], 4)
        out = self.plot("accuracy-time", "gossip.jsonl", "--target", repr(target), "--print")
        self.assertIn(f"after {first['virtual_seconds']:.4g} s", out)
        self.write("short.jsonl", "".join(json.dumps(event) + "\n" for event in
                                          [self.events("gossip.jsonl")[0], tests[0]]))
        out = self.plot("accuracy-time", "short.jsonl", "--target", "1", "--print")
        self.assertIn(f"100 % not reached, best {100 * tests[0]['test_accuracy']:.2f} %", out)
        self.assertIn("not reached", self.rows("bars", "short.jsonl", "--target", "1")[1][1])

    def test_a_run_cut_anywhere_is_shown_up_to_there(self):
        with open(os.path.join(self.folder, "gossip.jsonl"), encoding="utf-8") as file:
            text = file.read()
        whole = self.rows("accuracy-time", "gossip.jsonl")
        first = text.index('{"event":"eval"')
        first = text.index("\n", first) + 1
        for cut in range(first, len(text), 997):
            self.write("cut.jsonl", text[:cut])
            rows = self.rows("accuracy-time", "cut.jsonl")
            self.assertEqual(rows[1][0], "gossip, T = 10 (stopped)")
            self.assertEqual([row[1:] for row in rows],
                             [row[1:] for row in whole[:len(rows)]])
            self.assertEqual(len(rows) - 1, text[:cut].count('"event":"eval"') -
                             (text[:cut].rfind('"event":"eval"') > text[:cut].rfind("\n")))
        self.write("cut.jsonl", text[:first // 2])
        self.assertIn("stopped before its first test",
                      self.plot("accuracy-time", "cut.jsonl", "--print", status=1))
        self.write("both.jsonl", text + text)               # two runs in one file
        self.assertEqual(len(self.rows("bars", "both.jsonl", "--label", "a", "--label", "b")), 3)

    def test_a_run_that_goes_on_is_one_run(self):
        """Stopped between two checkpoints, the last line cut: what was done again counts once."""
        with open(os.path.join(self.folder, "gossip.jsonl"), encoding="utf-8") as file:
            lines = file.read().splitlines(keepends=True)
        tests = [i for i, line in enumerate(lines) if line.startswith('{"event":"eval"')]
        since = json.loads(lines[tests[1]])["virtual_seconds"]
        again = json.dumps(dict(json.loads(lines[0]), resumed_at=since), separators=(",", ":"))
        for end in ("", "\n", lines[tests[3]][:40]):
            self.write("again.jsonl", "".join(lines[:tests[3]]) + end + again + "\n" +
                       "".join(lines[tests[1] + 1:]))
            self.assertEqual(self.rows("accuracy-time", "again.jsonl"),
                             self.rows("accuracy-time", "gossip.jsonl"))
        self.write("later.jsonl", again + "\n" + "".join(lines[tests[1] + 1:]))
        self.assertEqual(self.rows("accuracy-time", "later.jsonl")[1:],
                         self.rows("accuracy-time", "gossip.jsonl")[3:])

    def test_errors_are_sentences(self):
        self.write("not.jsonl", "step loss\n1 0.5\n")
        self.write("other.jsonl", json.dumps({"event": "start", "model": "mlp"}) + "\n")
        self.write("list.jsonl", "[1, 2]\n")
        self.write("empty.jsonl", "")
        self.write("middle.jsonl", json.dumps(self.events("gossip.jsonl")[0]) + "\n{\"ev\n{}\n")
        lines = [event for event in self.events("gossip.jsonl") if event["event"] != "exchange"]
        self.write("silent.jsonl", "".join(json.dumps(event) + "\n" for event in lines))
        for words, status, wanted in (
                (("accuracy-time", "nowhere.jsonl"), 1, "nowhere.jsonl: No such file"),
                (("accuracy-time", "not.jsonl"), 1, "not.jsonl:1: is not an event"),
                (("accuracy-time", "list.jsonl"), 1, "list.jsonl:1: is not an event"),
                (("accuracy-time", "other.jsonl"), 1, "another command"),
                (("accuracy-time", "empty.jsonl"), 1, "has no run in it"),
                (("accuracy-time", "middle.jsonl"), 1, "middle.jsonl:2: is not an event"),
                (("timeline", "silent.jsonl"), 1, "--timeline S"),
                (("timeline", "gossip.jsonl", "--seconds", "90:91"), 1, "between 90 and 91 s"),
                (("timeline", "gossip.jsonl", "pairs.jsonl"), 1, "shows one run"),
                (("pie", "gossip.jsonl"), 2, "pie"),
                (("bars", "gossip.jsonl", "--target", "95"), 2, "at most 1"),
                (("bars", "gossip.jsonl", "--size", "9x9"), 2, "WIDTHxHEIGHT")):
            err = self.plot(*words, "--print", status=status)
            self.assertIn(wanted, err)
            self.assertEqual(status == 1, len(err.splitlines()) == 1, err)
        self.assertIn("-o OUT.png or --print", self.plot("bars", "gossip.jsonl", status=2))
        self.assertIn(".png or .svg", self.plot("bars", "gossip.jsonl", "-o", "x.pdf", status=2))
        self.assertIn("no folder nowhere",
                      self.plot("bars", "gossip.jsonl", "-o", "nowhere/x.png", status=1))
        os.makedirs(os.path.join(self.folder, "folder.svg"), exist_ok=True)
        self.assertIn("cannot be written",
                      self.plot("bars", "gossip.jsonl", "-o", "folder.svg", status=1))

    def test_what_is_no_number_is_told_by_its_line(self):
        events = self.events("gossip.jsonl")
        first = {}                  # of each kind of event
        for i, event in enumerate(events):
            first.setdefault(event["event"], i)
        for kind, key, figure in (("start", "nodes", "bars"), ("step", "node", "timeline"),
                                  ("step", "virtual_seconds", "timeline"),
                                  ("exchange", "to_seconds", "timeline"),
                                  ("exchange", "peer", "timeline"), ("exchange", "ok", "timeline"),
                                  ("eval", "worst_accuracy", "spread"),
                                  ("done", "test_accuracy", "accuracy-time")):
            at = first[kind]
            for value in (None, "x", [1], 10 ** 400):
                self.write("odd.jsonl", "".join(
                    json.dumps(dict(event, **{key: value}) if i == at else event) + "\n"
                    for i, event in enumerate(events)))
                err = self.plot(figure, "odd.jsonl", "--print", status=1)
                self.assertIn(f"odd.jsonl:{at + 1}: is not an event", err)
                self.assertEqual(len(err.splitlines()), 1, err)

    def test_only_what_the_figure_reads_is_needed(self):
        """As tools/experiments/wide_area tells its curves."""
        sys.path.insert(0, os.path.join(os.path.dirname(PLOT), "experiments"))
        from wide_runs import Run, Test, Work, write_events
        curve = types.SimpleNamespace(run=Run("gossip", 10, 4), label="gossip, T = 10",
                                      seconds=[0.5, 1.5],
                                      tests=[Test(25, 0.25, 1000.0, 0.5), Test(50, 0.75, 2e3, 1.5)])
        write_events(os.path.join(self.folder, "wide.jsonl"), [curve],
                     Work("plane", "", "", 10, 0.1, 464, 50, 0.5))
        out = self.plot("accuracy-time", "wide.jsonl", "--target", "0.5", "--print")
        self.assertIn("after 1.5 s", out)
        rows = [["gossip, T = 10", "0.5", "0.25"], ["gossip, T = 10", "1.5", "0.75"]]
        self.assertEqual(self.rows("accuracy-time", "wide.jsonl")[1:], rows)
        for kind in ("spread", "consensus", "bars"):
            self.assertIn("wide.jsonl:2: is not an event",
                          self.plot(kind, "wide.jsonl", "--print", status=1))

    def test_one_test_is_said_to_make_no_curve(self):
        events = self.events("gossip.jsonl")
        self.write("single.jsonl", json.dumps(events[0]) + "\n" + json.dumps(events[-1]) + "\n")
        for kind, said in (("accuracy-time", True), ("spread", True), ("bars", False)):
            run = subprocess.run([sys.executable, PLOT, kind, "single.jsonl", "--print"], text=True,
                                 cwd=self.folder, capture_output=True, timeout=120, check=True)
            self.assertEqual("one test makes no curve" in run.stderr, said, run.stderr)

    def test_without_gnuplot_it_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as empty:
            err = self.plot("bars", "gossip.jsonl", "-o", "out.png", status=1, path=empty)
            self.assertIn("tools/setup plot", err)
            self.assertIn("gnuplot-nox", err)
            self.plot("bars", "gossip.jsonl", "--print", path=empty)

    def test_a_gnuplot_that_fails_is_told(self):
        """Before it has read all of the figure."""
        point = '{"event": "point", "curve": "a", "dashed": false, "x": %d, "y": 1}\n'
        self.write("many.jsonl", "".join(point % x for x in range(40000)))
        self.write("gnuplot", "#!/bin/sh\necho no room >&2\nexit 1\n")
        os.chmod(os.path.join(self.folder, "gnuplot"), 0o755)
        err = self.plot("curves", "many.jsonl", "-o", "out.png", status=1, path=self.folder)
        self.assertIn("gnuplot failed: no room", err)

    def test_a_reader_that_has_enough_is_no_error(self):
        read, write = os.pipe()
        os.close(read)
        run = subprocess.run([sys.executable, PLOT, "spread", "gossip.jsonl", "--print"],
                             cwd=self.folder, text=True, stdout=write, stderr=subprocess.PIPE,
                             timeout=120, check=False)
        os.close(write)
        self.assertEqual(run.stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
