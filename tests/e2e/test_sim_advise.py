# SPDX-License-Identifier: Apache-2.0
"""uwasa sim --advise: what it says is what runs show. test_sim_advise.py PROGRAM"""
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import sim_runs

PROGRAM = os.path.abspath(sys.argv.pop(1))
FLAGS = ("exchange", "period", "schedule", "momentum_rule")


class Advice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        sim_runs.make_inputs(self.folder)

    def simulate(self, *flags):
        return sim_runs.simulate(PROGRAM, self.folder, *flags)

    def advise(self, *flags, runs="6"):
        """Its events; the candidates in their order."""
        run = self.simulate("--advise", "--advise-runs", runs, "--skew", "sorted", "--steps", "200",
                            "--json", "-", *flags)
        self.assertEqual(run.returncode, 0, run.stderr)
        events = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual(events[0]["event"], "start")
        self.assertEqual(events[-1]["event"], "done")
        self.assertEqual({event["event"] for event in events[1:-1]}, {"candidate"})
        return events

    def told(self, *flags):
        """Events of a run with these flags only."""
        run = subprocess.run([PROGRAM, "sim", *flags, "--json", "-"], cwd=self.folder, text=True,
                             capture_output=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def advise_shortly(self, *flags):
        """Of runs that are shorter than the scenario: a budget of seconds that is one here."""
        for seconds in ("1", "5", "25", "80"):
            run = self.simulate("--advise", "--advise-seconds", seconds, "--steps", "2000000",
                                "--json", "-", *flags)
            if run.returncode == 0:
                break
            self.assertRegex(run.stderr, rf"--advise-seconds {seconds}: too few .* \d+ would do")
        self.assertEqual(run.returncode, 0, run.stderr)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def best_of(self, events, exchange):
        return next(event for event in events[1:-1] if event["exchange"] == exchange)

    def test_fields_and_ranks(self):
        events = self.advise("--nodes", "8")
        start, candidates, done = events[0], events[1:-1], events[-1]
        self.assertEqual((start["nodes"], start["virtual_seconds"]), (8, 2))
        self.assertEqual([c["rank"] for c in candidates], list(range(1, len(candidates) + 1)))
        self.assertEqual({c["exchange"] for c in candidates},
                         {"gossip", "allreduce", "hierarchical"})
        names = [tuple(c[key] for key in FLAGS) for c in candidates]
        self.assertEqual(len(set(names)), len(names))
        ran = [c for c in candidates if c["state"] == "ran"]
        self.assertGreater(len(ran), 10)
        self.assertEqual(candidates[:len(ran)], ran)
        ends = [c["virtual_seconds"] for c in ran]
        self.assertEqual(ends, sorted(ends, reverse=True))
        for c in ran:
            self.assertEqual(c["curve"][-1], [c["virtual_seconds"], c["test_accuracy"]])
            times = [point[0] for point in c["curve"]]
            self.assertEqual(times, sorted(times))
            self.assertTrue(all(0 <= point[1] <= 1 for point in c["curve"]))
            self.assertGreaterEqual(c["bytes_per_node"], 0)
            if "target_seconds" in c:
                self.assertLessEqual(c["target_seconds"], c["virtual_seconds"])
        for c in candidates[len(ran):]:
            self.assertNotIn("test_accuracy", c)
        for key in (*FLAGS, "test_accuracy", "bytes_per_node", "target_seconds"):
            self.assertEqual(done[key], ran[0][key])
        self.assertGreaterEqual(ran[0]["test_accuracy"], done["target_accuracy"])
        self.assertAlmostEqual(done["target_accuracy"],
                               0.98 * max(c["test_accuracy"] for c in ran if
                                          c["virtual_seconds"] == 2))
        same = [c for c in ran[1:] if c["virtual_seconds"] == 2]
        self.assertGreaterEqual(len(same), 1)
        for c in same:
            if "loses_seconds" in c:
                self.assertGreaterEqual(c["loses_seconds"], 0)
            else:
                self.assertGreaterEqual(c["loses_accuracy"], 0)
        self.assertFalse(done["stopped"])
        self.assertGreater(done["runs"], 12)

    def test_the_command_shows_what_was_expected(self):
        """Every test of the best candidate, by ordinary runs that end there."""
        done = (events := self.advise("--period", "5"))[-1]
        command = shlex.split(done["command"])
        self.assertEqual(command[:2], ["uwasa", "sim"])
        self.assertNotIn("--advise", command)
        for moment, accuracy in events[1]["curve"][5:]:
            run = subprocess.run(
                [PROGRAM, *command[1:], "--virtual-seconds", str(moment), "--eval-seconds",
                 repr(moment), "--eval-samples", "300", "--json", "-"],
                cwd=self.folder, capture_output=True, text=True, timeout=60, check=True)
            told = [json.loads(line) for line in run.stdout.splitlines()]
            there = [event for event in told if event["event"] in ("eval", "done") and
                     event["virtual_seconds"] >= moment - 1e-9]
            self.assertIn(accuracy, [event["test_accuracy"] for event in there], moment)

    def test_the_command_lasts_as_long_as_was_promised(self):
        """Among stragglers, whose steps end long after the others': a count of steps would not."""
        fleet = {"nodes": 8, "step": {"seconds": 0.01}, "skew": "sorted", "lr_schedule": "linear",
                 "stragglers": {"share": 0.25, "factor": 20}}
        for keys, flags in (({"steps": 40}, ()), ({"epochs": 3}, ("--steps", "40")),
                            ({}, ("--epochs=3",)), ({"epochs": 3, "virtual_seconds": 1}, ())):
            with open(os.path.join(self.folder, "slow.json"), "w", encoding="utf-8") as file:
                json.dump({"model": "plane.json", "data": "csv:four.csv", "batch": 10, **fleet,
                           **keys}, file)
            events = self.told("--scenario", "slow.json", "--advise", "--advise-runs", "4", "--lr",
                               "0.5", *flags)
            start, done = events[0], events[-1]
            self.assertEqual(start["virtual_seconds"], start["wanted_seconds"])
            self.assertEqual(done["virtual_seconds"], start["wanted_seconds"])
            ran = self.told(*shlex.split(done["command"])[2:], "--eval-seconds",
                            repr(done["virtual_seconds"]))
            test = next(event for event in ran if event["event"] == "eval" and
                        event["virtual_seconds"] >= done["virtual_seconds"])
            self.assertEqual(test["test_accuracy"], done["test_accuracy"], done["command"])
            self.assertAlmostEqual(ran[-1]["virtual_seconds"], done["virtual_seconds"], delta=0.3)

    def test_shorter_runs_have_the_learning_rates_of_the_whole(self):
        """Labels that are often wrong and a high rate: accuracy goes up and down all the time."""
        rng = random.Random(2)
        with open(os.path.join(self.folder, "noisy.csv"), "w", encoding="utf-8") as file:
            for _ in range(1200):
                x, y, label = rng.uniform(-1, 1), rng.uniform(-1, 1), rng.randrange(4)
                label = label if rng.random() < 0.5 else 2 * (x > 0) + (y > 0)
                file.write(f"{x:.4f},{y:.4f},{label}\n")
        events = self.advise_shortly("--data", "csv:noisy.csv", "--lr", "2", "--lr-schedule",
                                     "linear")
        start, done, curve = events[0], events[-1], events[1]["curve"]
        self.assertLess(start["virtual_seconds"], 0.5 * start["wanted_seconds"])
        self.assertGreater(len({accuracy for _, accuracy in curve}), 3, curve)
        for moment, accuracy in curve[-4:]:
            ran = self.told(*shlex.split(done["command"])[2:], "--eval-epochs", "0",
                            "--eval-seconds", repr(moment), "--until-accuracy", "1e-9",
                            "--eval-samples", str(start["eval_samples"]),   # fewer where it is slow
                            "--eval-nodes", str(start["eval_nodes"]))
            self.assertEqual(ran[-2]["event"], "eval")
            self.assertEqual(ran[-2]["test_accuracy"], accuracy, moment)

    def test_a_narrow_network_wants_few_exchanges(self):
        """A pull takes 0.4 s, an average 0.6: at every step an average would leave 2 %."""
        done = (events := self.advise("--bandwidth", "10000", "--steps", "1000"))[-1]
        self.assertGreaterEqual(done["period"], 10)
        waits = [c for c in events[1:-1] if c["exchange"] == "allreduce" and c["period"] == 1]
        self.assertEqual([c["state"] for c in waits], ["not run"])
        self.assertIn("would leave", waits[0]["why"])
        pulls = [c for c in events[1:-1] if c["exchange"] == "gossip" and c["period"] == 1]
        self.assertEqual({c["state"] for c in pulls}, {"not run"})

    def test_a_fast_network_wants_exact_averages_at_every_step(self):
        """Sorted data, and exchanges that cost nothing. Of pairs among four, two rounds are exact."""
        events = self.advise("--bandwidth", "0", "--latency", "0", "--nodes", "16",
                             "--momentum-rule", "none", runs="8")
        self.assertEqual((events[-1]["exchange"], events[-1]["period"]), ("allreduce", 1))
        gossip = self.best_of(events, "gossip")
        self.assertTrue(gossip.get("loses_seconds", 0) > 0 or gossip["loses_accuracy"] > 0)

    def test_the_same_again_whatever_computes(self):
        told = []
        for threads in ("1", "3"):
            events = self.advise("--threads", threads, "--nodes", "6")
            for event in events:
                event.pop("seconds", None)
            events[-1]["command"] = ""
            told.append(events)
        self.assertEqual(*told)

    def test_a_target_is_kept_or_said_to_be_out_of_reach(self):
        done = self.advise("--until-accuracy", "0.9")[-1]
        self.assertEqual(done["target_accuracy"], 0.9)
        self.assertGreaterEqual(done["test_accuracy"], 0.9)
        self.assertIn("what was asked for", done["advice"])
        done = self.advise("--until-accuracy", "1", "--lr", "0.00001")[-1]
        self.assertLess(done["target_accuracy"], 1)
        self.assertIn("No candidate came to the 100.0 %", done["advice"])

    def test_flags_fix_and_a_file_does_not(self):
        with open(os.path.join(self.folder, "fleet.json"), "w", encoding="utf-8") as file:
            json.dump({"exchange": "gossip", "schedule": "exponential", "period": 20,
                       "momentum_rule": "noloco", "cells": {"nodes": 2}}, file)
        events = self.advise("--scenario", "fleet.json")
        self.assertEqual({c["exchange"] for c in events[1:-1]},
                         {"gossip", "allreduce", "hierarchical", "auto"})
        for exchange in ("allreduce", "gossip"):     # the file's own keys are in nobody's way
            events = self.advise("--scenario", "fleet.json", "--exchange", exchange, "--period",
                                 "10", "--momentum-rule", "none", runs="4")
            self.assertEqual({(c["exchange"], c["period"], c["momentum_rule"])
                              for c in events[1:-1]}, {(exchange, 10, "none")})
            command = shlex.split(events[-1]["command"])
            run = subprocess.run([PROGRAM, *command[1:]], cwd=self.folder, capture_output=True,
                                 text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_what_people_read(self):
        run = self.simulate("--advise", "--advise-runs", "4", "--steps", "100")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"\AUse (gossip|allreduce), period \d+")
        self.assertRegex(run.stdout, r"\n    uwasa sim .*--exchange \w+ --period \d+")
        self.assertIn("Uncertain: this is one seed", " ".join(run.stdout.split()))
        self.assertRegex(run.stdout, r"\nexchange +period +schedule +rule +to [\d.]+ % ")
        paragraph = run.stdout.split("\n\n")[0].splitlines()
        self.assertLessEqual(max(map(len, paragraph)), 100)

    def test_a_budget_of_seconds_shortens_runs(self):
        events = self.advise_shortly()
        self.assertLess(events[0]["virtual_seconds"], events[0]["wanted_seconds"])
        self.assertIn("of the scenario's 2e+04 s", events[-1]["advice"])

    def test_wrong_use(self):
        for flags, words in ((["--advise-runs", "-1"], "--advise-runs -1"),
                             (["--advise-seconds", "0"], "--advise-seconds 0"),
                             (["--csv", "x.csv"], "--csv: is not for --advise"),
                             (["--checkpoint", "x"], "--checkpoint: is not for --advise"),
                             (["--timeline", "1"], "--timeline: is not for --advise"),
                             (["--per-node"], "--per-node: is not for --advise"),
                             (["--exchange", "gossip", "--momentum-rule", "slowmo"],
                              "--momentum-rule"),
                             (["--scenario", "nowhere.json"], "nowhere.json"),
                             (["--data", "csv:nowhere.csv"], "nowhere.csv"),
                             (["--json", "nowhere/x"], "--json nowhere/x")):
            run = self.simulate("--advise", *flags)
            self.assertIn(run.returncode, (1, 2), flags)
            self.assertEqual(run.returncode == 1, words in ("nowhere.csv", "--json nowhere/x"),
                             (flags, run.stderr))
            self.assertEqual(len(re.findall("(?m)^uwasa sim: ", run.stderr)), 1, run.stderr)
            self.assertIn(words, run.stderr)
            self.assertEqual(run.stdout, "")

    def test_runs_that_are_too_short_for_any_exchange(self):
        """Of a few that are long some still come to one."""
        events = self.advise("--period", "150", runs="4")
        self.assertEqual({c["virtual_seconds"] for c in events[1:-1] if c["state"] == "ran"}, {2})
        self.assertEqual(events[-1]["period"], 150)
        run = self.simulate("--advise", "--advise-runs", "4", "--steps", "200", "--period", "200")
        self.assertEqual(run.returncode, 1)
        self.assertIn("--period is too long", run.stderr)
        self.assertEqual(run.stdout, "")

    def test_a_budget_that_is_too_small_for_an_exchange(self):
        """A pull takes 400 of 600 virtual seconds, whatever the machine."""
        run = self.simulate("--advise", "--advise-seconds", "1", "--steps", "60000", "--nodes",
                            "60", "--exchange", "gossip", "--network", "formula", "--model-bytes",
                            "50000000", "--bandwidth", "1000000")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, r"--advise-seconds 1: too few for any run of this "
                                     r"scenario, about \d+ would do for short ones and \d+ for ")

    def test_what_would_do_counts_reading_too(self):
        """Of data that takes longer to read than the whole budget: what was spent did not do."""
        for rows in (4, 16, 64):
            with open(os.path.join(self.folder, "long.csv"), "w", encoding="utf-8") as file:
                for _ in range(rows):
                    file.write("1,1,0\n-1,1,1\n" * 500000)
            begin = time.monotonic()
            run = self.simulate("--data", "csv:long.csv", "--advise", "--advise-seconds", "1",
                                "--steps", "6000")
            took = time.monotonic() - begin
            if run.returncode != 0:
                break
        found = re.search(r"about (\d+) would do for short ones and (\d+) for whole", run.stderr)
        self.assertIsNotNone(found, run.stderr)
        self.assertTrue(took - 1 < int(found[1]) <= int(found[2]), (took, run.stderr))

    def test_candidates_that_fail_do_not_end_it(self):
        """All do at such a rate, but some only later: whoever is left is judged, else it is said."""
        run = self.simulate("--advise", "--advise-runs", "4", "--steps", "200", "--lr", "1e30")
        self.assertEqual(run.returncode, 1)
        self.assertIn("a lower --lr may help", run.stderr)

    def test_interrupt_tells_what_is_known(self):
        """Once a candidate has been screened: that is so when another one's turn is shown."""
        with subprocess.Popen(
                [PROGRAM, "sim", "--model", "plane.json", "--data", "csv:four.csv", "--nodes", "8",
                 "--step-seconds", "0.01", "--advise", "--advise-runs", "1000", "--steps", "60000",
                 "--batch", "10", "--json", "-"], cwd=self.folder, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            timer = threading.Timer(120, run.kill)
            timer.start()
            for line in run.stderr:
                if re.match(r"screening ([2-9]|\d\d)/|closer|to the end", line):
                    break
            run.send_signal(signal.SIGINT)
            out, err = run.communicate()
            timer.cancel()
        self.assertEqual(run.returncode, 0, err)
        done = json.loads(out.splitlines()[-1])
        self.assertTrue(done["stopped"])
        self.assertIn("stopped before its end", done["advice"])
        self.assertLess(done["virtual_seconds"], 600)


if __name__ == "__main__":
    unittest.main()
