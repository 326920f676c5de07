#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that share a channel: multicast in the place of a radio, pseudo terminals in that of a bus.

usage: test_radio.py PROGRAM PTY_HUB [-k CASE]
"""
import json
import os
import subprocess
import sys
import unittest

from fleet import Fleet

HUB = sys.argv[2]
SHARES = ["0,1,2,3,4", "5,6,7,8,9", "0,2,4,6,8", "1,3,5,7,9"]     # digits that each node sees


class Hub:
    """pty_hub, running; close() returns what it counted."""

    def __init__(self, n, *options):
        self.process = subprocess.Popen([HUB, str(n), *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.names = [self.process.stdout.readline().strip() for _ in range(n)]

    def close(self):
        if self.process.poll() is not None:
            return None
        return json.loads(self.process.communicate(timeout=30)[0])


class Radio(Fleet):
    def on_hub(self, n, *options):
        hub = Hub(n, *options)
        self.addCleanup(hub.close)
        if "" in hub.names:
            self.assertEqual(hub.process.wait(timeout=30), 77)
            self.skipTest("skipped: this machine has no pseudo terminals")
        return hub

    def with_all_digits(self, **recipe):
        """The test accuracy of one that trains as a node does, and has all the digits."""
        command = ["train", "--json", "all.jsonl"]
        for key, value in recipe.items():
            command += [f"--{key}", str(value)]
        self.run_program(*command)
        with open(os.path.join(self.dir, "all.jsonl"), encoding="utf-8") as f:
            return [json.loads(line) for line in f][-1]["test_accuracy"]

    def pulls_at_the_end(self, i):
        """How many came after the last step."""
        events = self.events(i)
        last = max(k for k, e in enumerate(events) if e["event"] == "step")
        return sum(e.get("kind") == "pull_done" for e in events[last:])

    def test_mlp_on_a_lossy_bus_ends_where_udp_does(self):
        """Half of the digits each, four nodes on a bus and four over UDP beside them. A slice of
        the model a round: in 10 steps, half a second, the bus carries half of it to each. On a busy
        machine it carries a third of that, for frames come late, and there are fewer rounds: what is
        learned then still depends little on their number, as the network is small and its slices
        are few."""
        text = self.run_program("models", "mlp").stdout
        with open(os.path.join(self.dir, "small.json"), "w", encoding="utf-8") as f:
            f.write(text.replace("128", "32"))
        recipe = {"model": "small.json", "steps": 800, "batch": 32, "lr": 0.2, "schedule": "cosine"}
        hub = self.on_hub(4, "--loss", "0.05", "--garbage", "0.00002", "--seed", "7")
        for i in range(8):
            udp = {"seeds": f"127.0.0.1:{self.ports[5 if i == 4 else 4]}"}
            bus = {"seeds": [], "listen": ":0", "link.bus": hub.names[i % 4], "mtu": 1280,
                   "link.address": i % 4, "link.baud": 4000000}
            self.start(i, **recipe, together=4, peer_schedule="matching", period=10, slices=2,
                       step_seconds=0.05, classes=SHARES[i % 4], consensus_rounds=10,
                       linger_seconds=20, final_eval_samples=0, **(bus if i < 4 else udp))
        done = [self.done(i) for i in range(8)]
        counted = hub.close()
        bus, udp = ([d["test_accuracy"] for d in done[k:k + 4]] for k in (0, 4))
        one = self.with_all_digits(**recipe)
        at_end = [self.pulls_at_the_end(i) for i in range(4)]
        print(f"bus {bus}, UDP {udp}, all digits {one}, pulls {[d['pulls_done'] for d in done]}, "
              f"at the end {at_end}, asked again {[d['chunks_again'] for d in done[:4]]}, {counted}")
        self.assertTrue(all(d["refused_corrupt"] == 0 for d in done))
        self.assertIn("training is done; mixing with others until it is done or nothing comes for 10 s",
                      self.text(0))
        self.assertIn("testing on ", self.text(0))
        self.assertGreater(counted["lost"], 100)
        self.assertGreater(counted["garbage"], 10)
        self.assertGreater(min(at_end), 10)         # ten models are 20 slices
        self.assertGreater(min(bus), sum(udp) / 4 - 0.02)
        self.assertGreater(min(bus + udp), one - 0.02)

    def test_multicast_joins_three_nodes_and_keeps_out_another_key(self):
        self.run_program("keygen", "other.key")
        for i in range(4):
            self.start(i, listen=":0", seeds=[], **{"link.radio": f"udp:239.255.85.87:{self.ports[7]}",
                                                     "link.address": 10 + i},
                       key="other.key" if i == 3 else "run.key", step_seconds=0.01)
        self.until("a sentence on the wrong key", lambda: any(
            "another key" in e["text"] for i in range(4) for e in self.events(i, "refused")))
        for i in range(3):
            self.until("pulls", lambda i=i: len(self.events(i, "pull_done")) >= 2)
        self.until("pulls from all three, and nobody else", lambda: {"n0", "n1", "n2"} == {
            e["peer"] for i in range(3) for e in self.events(i, "pull_done")})
        self.assertRegex(self.events(0, "pull_done")[0]["text"], r" bytes from .* in \d+\.\d{3} s$")
        done = self.stop(0, 1, 2, 3)
        self.assertEqual(done[3]["pulls_done"], 0)
        for i in range(4):
            self.assertEqual(done[i]["refused_run"], len(self.events(i, "refused")))

    def test_who_has_narrower_frames_than_others_says_so_where_it_matters(self):
        for i in range(4):
            exchange = "gossip" if i < 2 else "broadcast"
            self.start(i, listen=":0", seeds=[], step_seconds=0.01, exchange=exchange,
                       mtu=250 if i % 2 else 127,
                       **{"link.radio": f"udp:239.255.85.{87 + i // 2}:{self.ports[7]}",
                          "link.address": i})
        self.until("a narrower one that hears a part",
                   lambda: "received frames are longer than this device's mtu" in self.text(2))
        for i in range(2):
            self.until_event(i, "pull_done")        # pulls manage
        self.stop(0, 1, 2, 3)
        for i in (0, 1, 3):
            self.assertNotIn("device's mtu", self.text(i))
        self.assertEqual(self.text(2).count("device's mtu"), 1)
        self.assertEqual([len(self.events(2, kind)) for kind in ("warning", "refused")], [1, 0])

    def test_two_nodes_with_one_address_both_say_so(self):
        for i in range(2):
            self.start(i, listen=":0", seeds=[], step_seconds=0.01,
                       **{"link.radio": f"udp:239.255.85.88:{self.ports[7]}", "link.address": 9})
        for i in range(2):
            self.until("a sentence on the address", lambda i=i: any(
                e["text"].endswith("another device has this address, give each its own: 9")
                for e in self.events(i, "warning")))
        self.stop(0, 1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
