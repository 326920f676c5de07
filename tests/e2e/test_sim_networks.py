# SPDX-License-Identifier: Apache-2.0
"""A short real training on both networks of uwasa sim. test_sim_networks.py PROGRAM

8 nodes train an MLP on digits, in step, on a network where every exchange ends within a local step:
then what is mixed is as old on both networks, and these differ in time, which is known, and in whom a
pull is from. Where all average exactly nothing is left but rounding, and accuracy agrees within 0.2 points.
Under random pulls the two are runs of different draws: the mean of three seeds agrees within 2
points; runs of one network spread by 2.

(With steps of 10 ms a pull of 22 ms in events, 13 by formula, would be mixed a step later, half of
which step is lost: a point of accuracy this early in a training.)
"""
import json
import os
import subprocess
import sys
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
PARAMETERS = 101770
NODES, PERIOD, STEPS, STEP_SECONDS, LATENCY, RATE = 8, 10, 60, 0.05, 0.005, 1e9
ROUNDS = STEPS // PERIOD


def simulate(*flags, batch=1):
    """Without `batch`, where nothing is asked of what is learned, steps are of one sample."""
    run = subprocess.run(
        [PROGRAM, "sim", "--model", "mlp", "--data", "digits", "--nodes", str(NODES), "--period",
         str(PERIOD), "--steps", str(STEPS), "--batch", str(batch), "--lr", "0.1", "--step-seconds",
         str(STEP_SECONDS), "--start-spread", "0", "--latency", str(LATENCY), "--bandwidth", str(int(RATE)),
         "--eval-samples", "20", "--json", "-", *flags],
        capture_output=True, text=True, timeout=120, check=False)
    return run, json.loads(run.stdout.splitlines()[-1]) if run.returncode == 0 else None


class Networks(unittest.TestCase):
    def both(self, *flags):
        runs = []
        for network in ("events", "formula"):
            run, done = simulate("--network", network, *flags, batch=20)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(done["steps"], STEPS)
            runs.append(done)
        return runs

    def agree(self, events, formula, points):
        for key in ("test_accuracy", "mean_model_accuracy"):
            self.assertLess(abs(events[key] - formula[key]), points / 100, (key, events, formula))

    def test_gossip(self):
        runs = [self.both("--exchange", "gossip", "--momentum-rule", "none", "--seed", seed,
                          "--eval-nodes", "4") for seed in "123"]
        means = [{key: sum(run[i][key] for run in runs) / len(runs)
                  for key in ("test_accuracy", "mean_model_accuracy")} for i in (0, 1)]
        self.agree(*means, 2)
        events, formula = runs[0]
        self.assertGreater(formula["test_accuracy"], 0.6)
        # The pull after the last step is waited for; what begins with 4 of its 25 chunks, as
        # test_sim_networks.c says, takes up to three round trips more in events.
        pull = 2 * LATENCY + 4 * PARAMETERS * 8 / RATE
        for done, most in ((events, 6 * LATENCY), (formula, 0)):
            after = done["virtual_seconds"] - STEPS * STEP_SECONDS
            self.assertTrue(pull <= after + 1e-6 and after <= pull + most + 0.003, done)
        self.assertEqual(events["pulls_done"], formula["pulls_done"])
        self.assertAlmostEqual(formula["bytes_sent"], NODES * ROUNDS * 4 * PARAMETERS, 0)
        self.assertLess(events["bytes_sent"], 1.05 * formula["bytes_sent"])

    def test_allreduce(self):
        events, formula = self.both("--exchange", "allreduce", "--algorithm", "ring")
        self.agree(events, formula, 0.2)
        average = 2 * (NODES - 1) * (LATENCY + 4 * PARAMETERS * 8 / RATE / NODES)
        training = STEPS * STEP_SECONDS
        self.assertAlmostEqual(formula["virtual_seconds"], training + ROUNDS * average, 4)
        ready_start_prepared_commit = 4 * LATENCY
        more = events["virtual_seconds"] - training - ROUNDS * (
            average + ready_start_prepared_commit)
        self.assertTrue(0 <= more + 1e-4 and more < ROUNDS * 0.001, more)
        for done in events, formula:
            self.assertEqual(done["averages_done"], NODES * ROUNDS)
            self.assertEqual(done["worst_accuracy"], done["best_accuracy"])

    def test_cells(self):
        events, formula = self.both("--exchange", "hierarchical", "--cell-nodes", "4",
                                    "--algorithm", "halving", "--eval-nodes", "4")
        self.agree(events, formula, 2)
        self.assertEqual(events["averages_done"], formula["averages_done"])

    def test_any_threads_give_the_same_run(self):
        told = []
        for threads in "12":
            _, done = simulate("--network", "formula", "--threads", threads, "--steps", "30",
                               "--eval-nodes", "4")
            told.append({key: done[key] for key in done if key != "seconds"})
        self.assertEqual(told[0], told[1])

    def test_sizes_and_latencies_are_the_studys(self):
        _, done = simulate("--network", "formula", "--exchange", "allreduce", "--steps", "10",
                           "--algorithm", "ring-study", "--model-bytes", "2100000",
                           "--eval-nodes", "1")
        average = 2 * (NODES - 1) * (LATENCY + 2100000 * 8 / RATE)
        self.assertAlmostEqual(done["virtual_seconds"], PERIOD * STEP_SECONDS + average, 5)
        _, done = simulate("--network", "formula", "--model-bytes", "2100000",
                           "--pull-latencies", "1", "--steps", "10", "--eval-nodes", "1")
        after = done["virtual_seconds"] - PERIOD * STEP_SECONDS
        self.assertTrue(LATENCY + 0.0168 <= after + 1e-6 and after < LATENCY + 0.0168 + 0.003)

    def test_who_waits_for_pulls_takes_their_time_too(self):
        _, done = simulate("--network", "formula", "--model-bytes", "2100000",
                           "--pull-latencies", "1", "--pull-waits", "--momentum-rule", "none",
                           "--steps", "30", "--consensus-rounds", "0", "--eval-nodes", "1")
        pull = LATENCY + 2100000 * 8 / RATE
        self.assertAlmostEqual(done["virtual_seconds"], 30 * STEP_SECONDS + 30 // PERIOD * pull, 5)
        self.assertEqual(done["pulls_done"], 30 // PERIOD * NODES)

    def test_more_nodes_average_than_a_node_has_room_for(self):
        _, done = simulate("--network", "formula", "--exchange", "allreduce", "--nodes", "100",
                           "--steps", "10", "--eval-nodes", "1")
        self.assertEqual(done["averages_done"], 100)

    def test_algorithms_of_the_literature_learn_in_spite_of_losses(self):
        for flags in (("push",), ("push-sum",), ("relay", "--lr", "0.5"),
                      ("gossip", "--schedule", "ring", "--pulls", "2", "--momentum-rule", "none")):
            _, done = simulate("--network", "formula", "--pull-waits", "--loss", "0.1", "--period",
                               "1", "--exchange", *flags, batch=20)
            self.assertGreater(done["test_accuracy"], 0.6, flags)
            self.assertGreater(done["pulls_cut"], 0)

    def test_models_are_tested_after_their_exchange_if_wanted(self):
        for flags in (("--exchange", "allreduce"),
                      ("--pull-waits", "--momentum-rule", "none"),
                      ("--network", "events", "--exchange", "allreduce", "--step-seconds", "0.5")):
            spread = {}
            for mixed in ((), ("--eval-mixed",)):
                run = subprocess.run(
                    [PROGRAM, "sim", "--model", "mlp", "--nodes", "2", "--network", "formula",
                     "--period", "5", "--steps", "11", "--step-seconds", "0.05", "--start-spread",
                     "0", "--skew", "sorted", "--eval-steps", "5", "--eval-epochs", "0", "--json",
                     "-", *flags, *mixed],
                    capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(run.returncode, 0, run.stderr)
                tests = [e for e in map(json.loads, run.stdout.splitlines())
                         if e["event"] == "eval"]
                self.assertEqual([e["steps"] for e in tests], [5, 10])
                spread[mixed] = [e["consensus_distance"] for e in tests]
            self.assertGreater(min(spread[()]), 0)
            self.assertLess(max(spread[("--eval-mixed",)]), 1e-6 * min(spread[()]))

    def test_what_one_network_does_not_have_is_said(self):
        for flags, said in (
                (("--model-bytes", "5"), "--model-bytes"),
                (("--pull-latencies", "1"), "--pull-latencies"),
                (("--pull-waits",), "--pull-waits: is for --network formula"),
                (("--network", "formula", "--pull-waits", "--momentum-rule", "kgt"), "in pairs"),
                (("--exchange", "push"), "--network formula"),
                (("--network", "formula", "--exchange", "relay", "--schedule", "ring"), "a tree"),
                (("--network", "formula", "--exchange", "push-sum", "--momentum-rule", "qg"),
                 "none"),
                (("--exchange", "allreduce", "--algorithm", "ring-study"), "ring-study"),
                (("--algorithm", "ring"), "exact averages"),
                (("--network", "formula", "--exchange", "auto"), "--exchange auto"),
                (("--network", "packets"), "events")):
            run, _ = simulate(*flags)
            self.assertEqual(run.returncode, 2, flags)
            self.assertIn(said, run.stderr)


if __name__ == "__main__":
    unittest.main()
