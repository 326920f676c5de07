#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A key for each device: one that is revoked is dropped by all and learns nothing more; keys change
without a restart."""
import json
import os
import signal
import sys
import time
import unittest

from fleet import Fleet

QUIET_SECONDS = 3


class Devices(Fleet):
    def path(self, name):
        return os.path.join(self.dir, name)

    def make_devices(self, root, *nodes):
        self.run_program("keygen", "--root", root)
        for i in nodes:
            self.run_program("keygen", "--root", root, "--device", f"n{i}", f"{root}.n{i}.key")

    def write(self, name, *parts):
        """A key file of the contents of others, put in the place of the one before."""
        text = ""
        for part in parts:
            with open(self.path(part), encoding="ascii") as f:
                text += f.read()
        with open(self.path("new"), "w", encoding="ascii") as f:
            f.write(text)
        os.chmod(self.path("new"), 0o600)
        os.replace(self.path("new"), self.path(name))

    def hang_up(self, i):
        self.processes[i].send_signal(signal.SIGHUP)

    def pulls(self, i):
        return len(self.events(i, "pull_done"))

    def until_pulls(self, *nodes):
        """Each of them pulls once more, from each of the others."""
        before = {i: len(self.events(i)) for i in nodes}
        for i in nodes:
            for k in nodes:
                if k != i:
                    self.until(f"n{i} pulls from n{k}", lambda i=i, k=k: any(
                        e["event"] == "pull_done" or e.get("kind") == "pull_done"
                        for e in self.events(i)[before[i]:] if e.get("peer") == f"n{k}"))

    def state(self, i, of):
        """How node i sees another, by its last table."""
        rows = self.events(i, "status")[-1]["members"]
        return next((m["state"] for m in rows if m["name"] == f"n{of}"), None)

    def revoke_one_of_four(self, link):
        self.make_devices("root", *range(4))
        for i in range(4):
            self.start(i, key=f"root.n{i}.key", link=link, period=1, step_seconds=0.02)
        self.until_pulls(0, 1, 2, 3)
        self.run_program("keygen", "--root", "root", "--revoke", "n3")
        self.write("root.n1.key.revoked", "root.revoked")
        self.hang_up(1)
        for i in range(3):
            self.until(f"n{i} knows", lambda i=i: self.events(i, "revoked"))
            self.assertEqual(self.events(i, "revoked")[-1]["devices"], 1)
            self.until(f"n{i} misses n3", lambda i=i: self.state(i, 3) in ("suspect", "dead"))
        pulled = self.pulls(3)
        time.sleep(QUIET_SECONDS)
        self.until_pulls(0, 1, 2)
        self.assertEqual(self.pulls(3), pulled)
        self.assertTrue(any("it is device n3, whose key is revoked" in e["text"]
                            for i in range(3) for e in self.events(i, "refused")))
        self.until("n3 is told", lambda: any(
            "revoked" in e["text"] for kind in ("warning", "refused") for e in self.events(3, kind)))
        # It is of no use to ask with that key, nor to start again; who starts again remembers.
        ask = ("status", f"127.0.0.1:{self.ports[0]}", "--link", link, "--run", "test", "--json",
               "--key")
        self.assertIn("no answer", self.run_program(*ask, "root.n3.key", "--timeout", "2",
                                                    status=1).stderr)
        members = json.loads(self.run_program(*ask, "root.n1.key", "--timeout",
                                              "60").stdout)["members"]
        self.assertEqual(members[0]["name"], "n0")
        self.stop(2)
        self.start(2, key="root.n2.key", link=link, period=1, step_seconds=0.02)
        self.until_pulls(0, 2)
        self.assertTrue(os.path.exists(self.path("root.n2.key.revoked")))
        self.assertEqual(self.pulls(3), pulled)
        self.stop(0, 1, 2, 3)

    def test_revoked_device_is_dropped_by_all_over_udp(self):
        self.revoke_one_of_four("udp")

    def test_revoked_device_is_dropped_by_all_over_tcp(self):
        self.revoke_one_of_four("tcp")

    def change(self, link, old, both, new):
        """All nodes pass from one key over two to the next, one after the other; pulls go on."""
        for i in range(3):
            self.write(f"k{i}", *old(i))
            self.start(i, key=f"k{i}", link=link, period=1, step_seconds=0.02)
        self.until_pulls(0, 1, 2)
        pids = [p.pid for p in self.processes.values()]
        for keys in both, new:
            for i in range(3):
                self.write(f"k{i}", *keys(i))
                loaded = len(self.events(i, "keys"))
                self.hang_up(i)
                self.until(f"n{i} loads", lambda i=i, n=loaded: len(self.events(i, "keys")) > n)
                self.until_pulls(0, 1, 2)
        self.assertEqual([p.pid for p in self.processes.values() if p.poll() is None], pids)
        self.write("k3", *old(0))
        self.start(3, key="k3", link=link, period=1, step_seconds=0.02)
        self.until_event(3, "step")
        self.until("the old key is refused", lambda: self.refuses_a_key(0, 1, 2, 3))
        self.assertEqual(self.pulls(3), 0)
        self.stop(0, 1, 2, 3)

    def test_run_key_changes_without_a_restart(self):
        self.run_program("keygen", "new.key")
        self.change("udp", lambda i: ["run.key"], lambda i: ["run.key", "new.key"],
                    lambda i: ["new.key"])

    def test_run_changes_from_its_key_to_devices_without_a_restart(self):
        self.make_devices("root", 0, 1, 2)
        self.change("tcp", lambda i: ["run.key"], lambda i: ["run.key", f"root.n{i}.key"],
                    lambda i: [f"root.n{i}.key"])

    def test_file_that_is_no_key_changes_nothing_and_is_told(self):
        self.write("k0", "run.key")
        self.start(0, key="k0", period=1, step_seconds=0.02)
        self.start(1, period=1, step_seconds=0.02)
        self.until_pulls(0, 1)
        with open(self.path("k0"), "w", encoding="ascii") as f:
            f.write("0123")
        self.hang_up(0)
        self.until("a warning", lambda: self.events(0, "warning"))
        self.assertIn("key k0: needs exactly 64 hex digits", self.events(0, "warning")[0]["text"])
        self.until_pulls(0, 1)
        self.stop(0, 1)

    def test_key_of_a_device_is_not_for_a_radio(self):
        self.make_devices("root", 0)
        said = self.run_program("node", "--name", "a", "--run", "r", "--model", "mlp", "--key",
                                "root.n0.key", "--link.radio", "udp:239.5.5.5:4499",
                                "--link.address", "1", status=None)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("is that of a device", said.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
