# SPDX-License-Identifier: Apache-2.0
"""What uwasa sim leaves behind: events, table, time line. test_sim_results.py PROGRAM"""
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import sim_runs

PROGRAM = os.path.abspath(sys.argv.pop(1))
SPREAD = ("worst_accuracy", "lower_quartile_accuracy", "upper_quartile_accuracy", "best_accuracy")


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        sim_runs.make_inputs(self.folder)

    def run_sim(self, *flags):
        run = sim_runs.simulate(PROGRAM, self.folder, "--json", "run.jsonl", *flags)
        self.assertEqual(run.returncode, 0, run.stderr)
        return sim_runs.read_events(os.path.join(self.folder, "run.jsonl"))

    def told(self, events):
        return [event for event in events if event["event"] in ("eval", "done")]

    def check(self, tests):
        """Every figure in its bounds, and nothing goes back."""
        for test in tests:
            order = [test[key] for key in SPREAD]
            self.assertEqual(order, sorted(order), test)
            self.assertTrue(0 <= order[0] and order[-1] <= 1, test)
            self.assertTrue(order[0] <= test["test_accuracy"] <= order[-1], test)
            self.assertTrue(0 <= test["mean_model_accuracy"] <= 1, test)
            self.assertGreater(test["test_loss"], 0)
            self.assertTrue(0 <= test["consensus_distance"] < 10, test)
        for before, after in zip(tests, tests[1:]):
            for key in ("virtual_seconds", "steps", "epochs", "bytes_sent"):
                self.assertLessEqual(before[key], after[key])

    def test_events_and_table_say_the_same(self):
        """25 steps of 10 ms an epoch, in step: tests at 0.1, 0.2, 0.25 (the end of an epoch), 0.3 s
        ..."""
        label = 'gossip, "the first"'
        events = self.run_sim("--epochs", "2", "--skew", "sorted", "--eval-seconds", "0.1",
                              "--start-spread", "0", "--per-node", "--csv", "run.csv", "--label",
                              label)
        tests = self.told(events)
        self.check(tests)
        self.assertEqual(events[0]["label"], label)
        times = [test["virtual_seconds"] for test in tests]
        for wanted, time in zip((0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.5), times, strict=True):
            self.assertTrue(wanted <= time <= wanted + 0.015, times)
        for test in tests:
            each = sorted(test["accuracies"])
            self.assertEqual(len(each), 4)
            self.assertAlmostEqual(sum(each) / 4, test["test_accuracy"], 12)
            self.assertAlmostEqual(each[0] + 0.75 * (each[1] - each[0]),
                                   test["lower_quartile_accuracy"], 12)
            self.assertAlmostEqual(each[2] + 0.25 * (each[3] - each[2]),
                                   test["upper_quartile_accuracy"], 12)
        with open(os.path.join(self.folder, "run.csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), len(tests))
        for row, test in zip(rows, tests):
            self.assertEqual(row.pop("label"), label)
            self.assertEqual(row.pop("nodes"), "4")
            for key, value in row.items():
                self.assertEqual(float(value), test[key], key)

    def test_steps_between_tests(self):
        events = self.run_sim("--steps", "50", "--eval-steps", "20")
        self.assertEqual([test["steps"] for test in self.told(events)], [20, 25, 40, 50])
        self.assertNotIn("accuracies", events[1])
        self.assertNotIn("label", events[0])

    def test_virtual_seconds_end_a_run(self):
        """With the first step that ends so late; alone, no number of steps does. The learning rate
        follows the clock then: a cosine over half of the time has halved where it ends."""
        in_step = ("--start-spread", "0")
        events = self.run_sim("--virtual-seconds", "0.505", "--eval-seconds", "0.25", *in_step)
        self.assertEqual(events[0]["steps"], 0)
        self.assertAlmostEqual(events[-1]["virtual_seconds"], 0.51)
        self.assertEqual(events[-1]["steps"], 50)       # of the slowest: one has ended its 51st
        for steps, done in (("10", 10), ("99", 19)):
            events = self.run_sim("--virtual-seconds", "0.2", "--steps", steps, *in_step)
            self.assertEqual(events[-1]["steps"], done)
        by_time = self.run_sim("--virtual-seconds", "0.4", "--lr-schedule", "cosine", *in_step)[-1]
        by_steps = self.run_sim("--steps", "40", "--lr-schedule", "cosine", *in_step)[-1]
        constant = self.run_sim("--virtual-seconds", "0.4", *in_step)[-1]
        self.assertAlmostEqual(by_time["test_loss"], by_steps["test_loss"], 2)
        self.assertNotAlmostEqual(by_time["test_loss"], constant["test_loss"], 3)

    def test_start_tells_every_option(self):
        with open(os.path.join(self.folder, "fleet.json"), "w", encoding="utf-8") as file:
            file.write('{"cells": {"nodes": 2}, "exchange": "hierarchical"}')
        start = self.run_sim("--steps", "2", "--config", "fleet.json")[0]
        self.assertEqual(start["event"], "start")
        self.assertEqual((start["config"], start["exchange"]), ("fleet.json", "hierarchical"))
        unsaid = {"json", "csv", "label", "threads", "epochs", "help", "per_node", "checkpoint",
                  "checkpoint_seconds", "resume", "devices", "dry_run", "scenario", "advise",
                  "advise_seconds", "advise_runs", "profile"}
        run = sim_runs.simulate(PROGRAM, self.folder, "--help")
        flags = {line.split()[0][2:].replace("-", "_") for line in run.stdout.splitlines()
                 if line.startswith("  --")}
        self.assertIn("bandwidth", flags)
        self.assertEqual(flags - unsaid - set(start), set())

    def test_exact_averages_leave_no_distance(self):
        """And what the nodes' models disagree about before is told as a share of the mean's norm."""
        tests = self.told(self.run_sim("--steps", "40", "--exchange", "allreduce", "--skew",
                                        "sorted", "--eval-steps", "15"))
        self.check(tests)
        self.assertGreater(tests[0]["consensus_distance"], 0.01)
        self.assertEqual(tests[-1]["consensus_distance"], 0)

    def test_an_average_under_way_is_not_tested(self):
        """A cell averages in place while another ends its step: what is tested is what was before.
        Half-made averages would be three times as far from the mean."""
        tests = self.told(self.run_sim(
            "--exchange", "hierarchical", "--nodes", "8", "--cell-nodes", "4", "--skew", "sorted",
            "--bandwidth", "100000", "--steps", "60", "--eval-steps", "1"))
        self.check(tests)
        self.assertEqual(len(tests), 60)
        self.assertLess(max(test["consensus_distance"] for test in tests), 0.2)

    def exchanges(self, kind, events, until):
        """Who talked when: inside the run, begun in time, between nodes that are there."""
        done = events[-1]
        found = [event for event in events if event["event"] == "exchange"]
        self.assertEqual(len(found), done["exchanges_told"])
        for event in found:
            self.assertEqual(event["kind"], kind)
            self.assertIn(event["node"], range(4))
            self.assertTrue(0 <= event["from_seconds"] <= event["to_seconds"] <=
                            done["virtual_seconds"], event)
            self.assertLessEqual(event["from_seconds"], until)
            self.assertTrue(event["ok"], event)
        return found

    def test_timeline_of_pulls(self):
        events = self.run_sim("--steps", "60", "--timeline", "0.3", "--start-spread", "0",
                              "--consensus-rounds", "0")
        pulls = self.exchanges("pull", events, 0.3)
        self.assertGreater(len(pulls), 4)
        for pull in pulls:
            self.assertIn(pull["peer"], set(range(4)) - {pull["node"]})
            self.assertEqual(pull["bytes"], 464)
        done = events[-1]
        self.assertGreater(done["exchanges_untold"], 0)
        self.assertEqual(done["exchanges_told"] + done["exchanges_untold"],
                         done["pulls_done"] + done["pulls_cut"])
        for node in range(4):
            steps = [event for event in events
                     if event["event"] == "step" and event["node"] == node]
            self.assertEqual([step["step"] for step in steps], list(range(1, 31)))
            for step in steps:
                self.assertAlmostEqual(step["virtual_seconds"], 0.01 * step["step"], 9)

    def beginnings(self, *flags):
        """The start event, and of 8 nodes (seconds of a step, seconds until the first one begins)."""
        events = self.run_sim("--nodes", "8", "--steps", "5", "--timeline", "99", *flags)
        ends = {(event["node"], event["step"]): event["virtual_seconds"] for event in events
                if event["event"] == "step"}
        steps = [ends[node, 2] - ends[node, 1] for node in range(8)]
        return events[0], [(step, ends[node, 1] - step) for node, step in enumerate(steps)]

    def test_devices_begin_within_a_step(self):
        """Each within one of its own, unless --start-spread says otherwise; the same draws."""
        draws = [begin / 3 for _, begin in self.beginnings("--start-spread", "3")[1]]
        self.assertTrue(-1e-9 <= min(draws) < 0.4 and 0.6 < max(draws) < 1, draws)
        for _, begin in self.beginnings("--start-spread", "0")[1]:
            self.assertAlmostEqual(begin, 0, 9)
        with open(os.path.join(self.folder, "slow.json"), "w", encoding="utf-8") as file:
            file.write('{"stragglers": {"share": 0.5, "factor": 7}}')
        for flags, longest in ((("--batch", "100", "--step-seconds", "0"), None), ((), 0.01),
                               (("--config", "slow.json"), 0.07)):
            start, nodes = self.beginnings(*flags)
            self.assertAlmostEqual(start["start_spread"], start["step_seconds"], 9)
            if longest:
                self.assertAlmostEqual(max(step for step, _ in nodes), longest, 9)
            for draw, (step, begin) in zip(draws, nodes):
                self.assertAlmostEqual(begin, draw * step, delta=2.1e-6, msg=flags)

    def test_timeline_of_averages(self):
        events = self.run_sim("--steps", "40", "--exchange", "allreduce", "--timeline", "1000")
        averages = self.exchanges("average", events, 1000)
        self.assertEqual(len(averages), 16)     # four a node
        self.assertEqual({event["nodes"] for event in averages}, {4})

    def test_timeline_of_pairs(self):
        events = self.run_sim("--steps", "45", "--momentum-rule", "kgt", "--momentum", "0.5",
                              "--timeline", "1000", "--consensus-rounds", "0")
        pairs = self.exchanges("pair", events, 1000)
        self.assertGreater(len(pairs), 4)
        for pair in pairs:
            self.assertIn(pair["peer"], set(range(4)) - {pair["node"]})
            others = [event for event in pairs if event["node"] == pair["peer"] and
                      event["peer"] == pair["node"] and
                      event["from_seconds"] <= pair["to_seconds"] and
                      pair["from_seconds"] <= event["to_seconds"]]
            self.assertTrue(others, pair)

    def test_table_that_cannot_be_written(self):
        for flag in ("nowhere/run.csv", "-"):
            run = sim_runs.simulate(PROGRAM, self.folder, "--steps", "2", "--csv", flag)
            self.assertEqual(run.returncode, 2 if flag == "-" else 1)
            self.assertIn(f"--csv {flag}: ", run.stderr)

    @unittest.skipIf(os.environ.get("UWASA_SANITIZED"), "skipped: sanitizers take memory")
    def test_memory_is_what_was_told_before(self):
        """About: of 200 nodes more than of 80, so that the rest of the program does not count;
        what a process takes begins with what Python had."""
        wide = {"name": "wide", "input": [2], "layers": [
            {"name": "fc1", "type": "dense", "out": 3000}, {"name": "relu", "type": "relu"},
            {"name": "fc2", "type": "dense", "out": 4}]}
        with open(os.path.join(self.folder, "wide.json"), "w", encoding="utf-8") as file:
            json.dump(wide, file)
        for flags in (("--exchange", "gossip"), ("--exchange", "gossip", "--momentum-rule", "kgt"),
                      ("--exchange", "hierarchical"), ("--network", "formula")):
            told, took = [], []
            for nodes in ("80", "200"):
                with open(os.path.join(self.folder, "err"), "w+", encoding="utf-8") as err:
                    run = subprocess.Popen(
                        [PROGRAM, "sim", "--model", "wide.json", "--data", "csv:four.csv",
                         "--nodes", nodes, "--steps", "20", "--batch", "2", "--threads", "1",
                         "--step-seconds", "0.1", "--eval-epochs", "0", "--eval-nodes", "1",
                         *flags], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=err)
                    _, status, usage = os.wait4(run.pid, 0)
                    run.returncode = os.waitstatus_to_exitcode(status)
                    err.seek(0)
                    text = err.read()
                self.assertEqual(run.returncode, 0, text)
                number, unit = re.search(r"memory: about ([\d.]+) (.iB) for the nodes", text).groups()
                told.append(float(number) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit])
                took.append(1024 * usage.ru_maxrss)
            ratio = (took[1] - took[0]) / (told[1] - told[0])
            self.assertLess(abs(ratio - 1), 0.25, (flags, told, took))

    def test_a_file_of_results_keeps_what_was_in_it_when_the_run_cannot_start(self):
        kept = os.path.join(self.folder, "kept")
        for status, *flags in ((1, "--json", "kept", "--csv", "nowhere/run.csv"),
                               (1, "--csv", "kept", "--json", "nowhere/run.jsonl"),
                               (2, "--csv", "kept", "--json", "kept"),
                               (1, "--advise", "--json", "kept", "--data", "csv:nowhere.csv")):
            with open(kept, "w", encoding="utf-8") as file:
                file.write("earlier results\n")
            run = sim_runs.simulate(PROGRAM, self.folder, "--steps", "2", *flags)
            self.assertEqual(run.returncode, status, run.stderr)
            with open(kept, encoding="utf-8") as file:
                self.assertEqual(file.read(), "earlier results\n", flags)
        self.run_sim("--steps", "2", "--csv", "kept")
        with open(kept, encoding="utf-8") as file:
            self.assertTrue(file.readline().startswith("label,"))


if __name__ == "__main__":
    unittest.main()
