#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole nodes, as processes on loopback: what happens when one of them is killed, paused, given a
wrong key, a wrong model or a truncated checkpoint; whether four that lose every fifth datagram
learn as much as one that saw all data; what becomes of two cells when the link between them is cut.

usage: test_nodes.py PROGRAM [-k CASE]     environment: UWASA_MNIST_DIR, UWASA_PAUSE_SECONDS,
UWASA_CUT_SECONDS
"""
import json
import os
import signal
import sys
import time
import unittest

from fleet import Fleet, MNIST, SANITIZED

PAUSE_SECONDS = float(os.environ.get("UWASA_PAUSE_SECONDS", "13"))  # longer than "dead" takes
CUT_SECONDS = float(os.environ.get("UWASA_CUT_SECONDS", "15" if SANITIZED else "60"))


class Nodes(Fleet):
    def test_killed_node_is_missed_and_comes_back_from_its_checkpoint(self):
        for i in range(3):
            self.start(i, seconds=22, checkpoint=f"n{i}.safetensors", checkpoint_seconds=0.5)
        for i in (0, 1):
            self.until_event(i, "pull_done", "n2")
        self.until("a checkpoint",
                   lambda: os.path.exists(os.path.join(self.dir, "n2.safetensors")))
        self.processes[2].send_signal(signal.SIGKILL)
        self.assertEqual(self.wait(2), -signal.SIGKILL)
        for i in (0, 1):
            self.until_event(i, "suspect", "n2")
        step = max(e["step"] for e in self.events(0, "step"))
        self.until("n0 trains on", lambda: self.events(0, "step")[-1]["step"] > step)
        self.start(2, seconds=5, checkpoint="n2.safetensors")
        self.until("n2 goes on", lambda: "resuming from n2.safetensors" in self.text(2))
        self.until("n0 hears n2 again", lambda: any(
            e.get("peer") == "n2" and e.get("kind") in ("rejoined", "restarted")
            for e in self.events(0)))
        for i in range(3):
            self.assertGreater(self.done(i)["pulls_done"], 0)

    def test_paused_node_is_missed_and_rejoins_by_itself(self):
        for i in range(3):
            self.start(i, seconds=PAUSE_SECONDS + 14)
        self.until_event(0, "pull_done", "n1")
        self.processes[1].send_signal(signal.SIGSTOP)
        paused = time.monotonic()
        self.until_event(0, "suspect", "n1")
        step = self.events(0, "step")[-1]["step"]
        time.sleep(max(0.0, PAUSE_SECONDS - (time.monotonic() - paused)))
        self.assertGreater(self.events(0, "step")[-1]["step"], step)
        self.processes[1].send_signal(signal.SIGCONT)
        self.until_event(0, "rejoined", "n1")
        for i in range(3):
            self.done(i)

    def test_more_nodes_than_places_in_small_tables_all_average_and_are_told_once(self):
        nodes = range(8)
        for i in nodes:
            self.start(i, exchange="allreduce", members=5, step_seconds=0.02, consensus_seconds=1)
        self.until("all average", lambda: all(
            self.events(i, "status") and self.events(i, "status")[-1]["averages_done"] > 20
            for i in nodes))
        for done in self.stop(*nodes):
            self.assertGreater(done["step"], 200)
        for i in nodes:
            told = [e["text"] for e in self.events(i, "members_full")]
            self.assertEqual(len(told), 1)
            self.assertIn('the table of 5 members', told[0])

    def test_wrong_model_is_refused_with_a_sentence(self):
        self.start(0, seconds=8)
        self.start(1, seconds=8)
        self.start(2, seconds=6, model="lenet5")
        self.until("a sentence on the wrong model",
                   lambda: "trains another model" in self.text(2) + self.text(0))
        for i in range(3):
            self.done(i)
        self.assertEqual(self.events(2, "done")[-1]["pulls_done"], 0)
        self.assertGreater(self.events(0, "done")[-1]["pulls_done"], 0)

    def test_wrong_key_is_refused_with_a_sentence(self):
        self.run_program("keygen", "other.key")
        self.start(0, seconds=8)
        self.start(1, seconds=8)
        self.start(2, seconds=6, key="other.key")
        self.until("a sentence on the wrong key", lambda: self.refuses_a_key(0, 2))
        for i in range(3):
            self.done(i)
        self.assertEqual(self.events(2, "done")[-1]["pulled_bytes"], 0)
        self.assertGreater(self.events(0, "done")[-1]["pulls_done"], 0)

    def test_truncated_checkpoint_stops_the_node_with_a_sentence(self):
        self.start(0, steps=50, checkpoint="n0.safetensors")
        self.done(0)
        path = os.path.join(self.dir, "n0.safetensors")
        size = os.path.getsize(path)
        for cut in (0, 5, 100, size // 2, size - 1):
            with open(path, "rb+") as f:
                f.truncate(size)
                f.truncate(cut)
            self.start(1, steps=60, checkpoint="n0.safetensors")
            self.assertEqual(self.wait(1), 1, self.text(1))
            self.assertIn("n0.safetensors", self.text(1))
            os.remove(os.path.join(self.dir, "n1.err"))

    @unittest.skipUnless(MNIST, "skipped: no MNIST")
    @unittest.skipIf(SANITIZED, "skipped: ten minutes of arithmetic when sanitized")
    def test_four_nodes_with_a_fifth_lost_learn_like_one_that_saw_all(self):
        """Three epochs over everything against twelve over a quarter: the same number of steps, and
        time enough to shake hands."""
        one = self.run_program("train", "--model", "lenet5", "--data", f"mnist:{MNIST}", "--epochs",
                               "3", "--batch", "20", "--lr", "0.02", "--momentum", "0.9", "--json",
                               "-")
        alone = json.loads(one.stdout.splitlines()[-1])["test_accuracy"]
        for i in range(4):
            self.start(i, model="lenet5", data=f"mnist:{MNIST}", shard=f"{i}/4", batch=20,
                       epochs=12, period=10, momentum_rule="none", momentum=0.9,
                       final_eval_samples=0, consensus_seconds=20,
                       **{"emulate.loss": 0.2})
        for i in range(4):
            done = self.done(i)
            print(f"n{i}: {done['test_accuracy']:.4f}, one node: {alone:.4f}, pulls "
                  f"{done['pulls_done']}, cut {done['pulls_cut']}", flush=True)
            self.assertGreater(done["test_accuracy"], alone - 0.015)
            self.assertGreater(done["pulls_done"], 3)

    def learn_apart(self, *shuffle, until):
        """Two nodes with five digits each that share no model, until that holds of the last eval
        and status of both; their done events."""
        nodes = range(len(shuffle))
        for i in nodes:
            self.start(i, classes="0,1,2,3,4" if i == 0 else "5,6,7,8,9", shard="0/100",
                       shuffle=shuffle[i], shuffle_seconds=2, period=1000000000, eval_seconds=1,
                       eval_samples=500, momentum_rule="none", consensus_rounds=0,
                       consensus_seconds=0, lr=0.05)
        self.until("they learn", lambda: all(
            self.events(i, "eval") and self.events(i, "status") and
            until(self.events(i, "eval")[-1], self.events(i, "status")[-1]) for i in nodes))
        return self.stop(*nodes)

    def test_samples_that_are_lent_teach_what_a_node_has_no_data_of(self):
        for done in self.learn_apart(0.5, 0.5, until=lambda evaluation, status:
                                     evaluation["test_accuracy"] > 0.7 and
                                     status["samples_in"] > 300):
            print(f"{done['test_accuracy']:.4f}, samples in {done['samples_in']:.0f}, out "
                  f"{done['samples_out']:.0f}, {done['sample_bytes']:.0f} bytes", flush=True)
            self.assertGreater(done["test_accuracy"], 0.6)      # alone: 0.5 at most
            self.assertGreater(done["samples_in"], 300)
            self.assertGreaterEqual(done["sample_bytes"], 28 * 28 * 4 * done["samples_in"])

    def test_samples_that_are_not_lent_stay_where_they_are(self):
        for done in self.learn_apart(0.5, 0, until=lambda evaluation, status:
                                     evaluation["test_accuracy"] > 0.4 and
                                     status["step"] > 5000):
            self.assertGreater(done["test_accuracy"], 0.3)
            self.assertLess(done["test_accuracy"], 0.55)
            self.assertEqual(done["samples_in"], 0)
            self.assertEqual(done["samples_out"], 0)
            self.assertEqual(done["sample_bytes"], 0)

    def test_averaging_nodes_hold_the_same_weights_at_every_average(self):
        """A quarter of the digits each; at the end all show the same model."""
        for i in range(4):
            self.start(i, exchange="allreduce", cell_first=4, shard=f"{i}/4", steps=500,
                       lr=0.05)
        results = {(d["test_accuracy"], d["test_loss"])
                   for d in (self.done(i) for i in range(4))}
        self.assertEqual(len(results), 1, results)
        self.assertGreater(results.pop()[0], 0.8)
        for i in range(4):
            self.assertGreaterEqual(self.events(i, "done")[-1]["averages_done"], 30)

    def test_static_peers_learn_from_each_other_without_a_ping(self):
        """Half of the digits each; each lists the other one, which comes a little later."""
        for i in range(2):
            self.start(i, membership="static", seconds=8, consensus_seconds=1,
                       classes=",".join(str(5 * i + k) for k in range(5)))
        done = [self.done(i) for i in range(2)]
        for d in done:
            self.assertEqual(d["membership_bytes"], 0)
            self.assertGreater(d["pulls_done"], 20)
            self.assertGreater(d["test_accuracy"], 0.6)     # alone it has 0.5 at most

    def test_static_membership_refuses_what_it_is_not_for(self):
        self.start(0, membership="static", exchange="allreduce")
        self.assertEqual(self.wait(0), 2, self.text(0))
        self.assertIn('"exchange" must be gossip with static peers', self.text(0))

    def test_gossiping_nodes_that_end_together_end_with_one_model(self):
        """A third of the digits each, and one exact average at the end, after which nobody pulls."""
        for i in range(3):
            self.start(i, shard=f"{i}/3", seconds=6, consensus_seconds=30)
        done = [self.done(i) for i in range(3)]
        self.assertEqual([self.events(i, "averaged")[-1]["nodes"] for i in range(3)], [3] * 3)
        self.assertEqual(len({(d["test_accuracy"], d["test_loss"]) for d in done}), 1, done)

    def test_tracking_nodes_are_paired_over_a_link_that_loses_a_tenth(self):
        """A third of the digits each; one exact average at the end."""
        for i in range(3):
            self.start(i, momentum_rule="kgt", shard=f"{i}/3", steps=200, lr=0.05,
                       consensus_seconds=30, **{"emulate.loss": 0.1})
        for i in range(3):
            done = self.done(i)
            self.assertGreaterEqual(done["averages_done"], 5)
            self.assertEqual(done["pairs_half"], 0)
            self.assertLessEqual(done["pulls_done"], 1)     # of one who came late, to adopt
            self.assertGreater(done["test_accuracy"], 0.4)
            self.assertEqual(self.events(i, "retreat"), [])

    def test_averaging_node_killed_is_named_and_the_others_go_on(self):
        for i in range(3):
            self.start(i, exchange="allreduce", cell_first=3, period=1,
                       checkpoint=f"n{i}.safetensors")
        self.until("an average of three",
                   lambda: any(e["nodes"] == 3 for e in self.events(0, "averaged")))
        self.processes[2].send_signal(signal.SIGKILL)
        self.wait(2)
        self.until("an average of two", lambda: all(
            any(e["nodes"] == 2 for e in self.events(i, "averaged")) for i in (0, 1)))
        self.assertIn("n2", self.text(0) + self.text(1))
        self.stop(0, 1)                 # while they average
        for i in (0, 1):
            self.assertGreater(sum(map(len, self.weights(i).values())), 1000)

    GRADIENTS = {"exchange": "allreduce", "average": "gradients", "cell_first": 3,
                 "model": "lenet5", "momentum": 0.9}

    def test_gradient_nodes_take_the_same_steps(self):
        """A third of the digits each, and no average at the end: parameters and momentum are equal
        because all steps were."""
        undisturbed = False
        for attempt in range(3):    # a machine that stands still for seconds parts the group
            if undisturbed:
                break
            for i in range(3):
                self.start(i, **self.GRADIENTS, shard=f"{i}/3", steps=230, consensus_seconds=0,
                           consensus_rounds=0, checkpoint=f"n{i}.safetensors",
                           schedule="step:50:0.9", run=f"attempt{attempt}")
            done = [self.done(i) for i in range(3)]
            for i in range(3):
                self.assertGreater(done[i]["test_accuracy"], 0.85)
                self.assertEqual(self.events(i, "gradients")[0]["nodes"], 3)
                self.assertFalse(any("other parameters" in e["text"]
                                     for e in self.events(i, "gradients_cut")))
            undisturbed = all(len(self.events(i, "gradients")) == 1 for i in range(3))
            if not undisturbed:
                for i in range(3):
                    os.remove(os.path.join(self.dir, f"n{i}.safetensors"))
        self.assertTrue(undisturbed)
        weights = [self.weights(i, optimizer=True) for i in range(3)]
        self.assertEqual(weights[0], weights[1])
        self.assertEqual(weights[0], weights[2])
        self.assertEqual({d["averages_done"] for d in done}, {1})

    def test_gradient_node_killed_is_named_and_comes_back(self):
        keys = {**self.GRADIENTS, "seconds": 600, "eval_seconds": 1, "eval_samples": 500}
        for i in range(3):
            self.start(i, **keys)
        self.until("a group of three", lambda: all(
            any(e["nodes"] == 3 for e in self.events(i, "gradients")) for i in range(3)))
        time.sleep(2)
        self.processes[2].send_signal(signal.SIGKILL)
        self.wait(2)
        self.until("a group of two", lambda: all(
            any(e["nodes"] == 2 for e in self.events(i, "gradients")) for i in (0, 1)))
        self.assertTrue(any(e["peer"] == "n2" for e in self.events(0, "gradients_cut")))
        tests = [len(self.events(i, "eval")) for i in (0, 1)]
        self.start(2, **keys)
        self.until("a group of three again",
                   lambda: self.events(0, "gradients")[-1]["nodes"] == 3)
        tests.append(len(self.events(2, "eval")))
        self.until("all have learned", lambda: all(
            any(e["test_accuracy"] > 0.85 for e in self.events(i, "eval")[tests[i]:])
            for i in range(3)))
        self.stop(*range(3))

    def test_two_cells_cut_apart_go_on_and_meet_again(self):
        """Four nodes in each cell, 10 Mbit/s and 20 ms between the cells, each cell with half of
        the digits to learn from. Cut, each knows its half only; healed, both know all."""
        before = 20.0                   # seconds until the cut
        end = before + CUT_SECONDS + 30.0
        address = [f"127.0.0.1:{p}" for p in self.ports]
        opened = time.monotonic()
        for i in range(8):
            left = i < 4
            keys = {"exchange": "hierarchical", "cell": "left" if left else "right",
                    "classes": "0,1,2,3,4" if left else "5,6,7,8,9", "shard": f"{i % 4}/4",
                    "seconds": end - (time.monotonic() - opened), "eval_seconds": 2,
                    "eval_samples": 500, "lr": 0.02, "emulate.rate": 10000000,
                    "emulate.delay_ms": 20, "emulate.cut_seconds": CUT_SECONDS,
                    "emulate.cut_after": before - (time.monotonic() - opened)}
            self.start(i, **keys, **{"emulate.far": address[4:] if left else address[:4]})
        self.end = opened + end + 60.0
        time.sleep(max(0.0, opened + before + CUT_SECONDS - 1.0 - time.monotonic()))
        parted = [self.events(i, "eval")[-1]["test_accuracy"] for i in range(8)]
        steps = [self.events(i, "step")[-1]["step"] for i in range(8)]
        for cell in (range(4), range(4, 8)):
            self.assertTrue(any(self.events(i, "cell_alone") for i in cell))
        met = [len(self.events(i, "cells_meet")) for i in range(8)]
        done = [self.done(i) for i in range(8)]
        for cell in (range(4), range(4, 8)):
            self.assertTrue(any(len(self.events(i, "cells_meet")) > met[i] for i in cell))
        together = [d["test_accuracy"] for d in done]
        print("parted:", " ".join(f"{a:.3f}" for a in parted),
              " together:", " ".join(f"{a:.3f}" for a in together),
              " steps at the end of the cut:", steps, " at the end:", [d["step"] for d in done],
              f" {time.monotonic() - opened:.0f} s", flush=True)
        for i in range(8):
            self.assertGreater(done[i]["step"], steps[i])
            self.assertGreater(done[i]["averages_done"], 50)
            self.assertLess(parted[i], 0.7)
            self.assertGreater(together[i], 0.8)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
