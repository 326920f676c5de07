#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As many exchanges as nodes make in a day, in minutes: memory and open files do not grow. Three
nodes exchange after every step, a fourth one is killed and comes back all the time, and somebody
asks for the status.

usage: test_soak.py PROGRAM [-k CASE]     environment: UWASA_SOAK_SECONDS"""
import os
import signal
import sys
import time
import unittest

from fleet import Fleet

SECONDS = float(os.environ.get("UWASA_SOAK_SECONDS", "60"))
LIFE_SECONDS = 5                # of the node that is killed
WARM = 0.25                     # of the time, until memory is as large as it gets
LOOK_SECONDS = 1
RSS_MORE = 1.03                 # times as much as until then, at most, ...
RSS_MORE_KB = 2048              # ... and so much more
OPEN_MORE = 2                   # files, such as a connection that begins


class Soak(Fleet):
    def memory(self, i):
        """Resident kilobytes, and the number of open files."""
        pid = self.processes[i].pid
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        return rss, len(os.listdir(f"/proc/{pid}/fd"))

    def soak(self, counter, **keys):
        os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"
        self.end = time.monotonic() + SECONDS + 240
        keys = {"period": 1, "step_seconds": 0.005, "members": 8, "events_seconds": 1, **keys}
        for i in range(4):
            self.start(i, checkpoint=f"n{i}.safetensors", checkpoint_seconds=1, shard=f"{i}/4",
                       **keys)
        begin = reborn = looked = time.monotonic()
        early, late = ({i: (0, 0) for i in range(3)} for _ in range(2))
        while time.monotonic() - begin < SECONDS:
            time.sleep(0.2)
            now = time.monotonic()
            if now - reborn > LIFE_SECONDS:
                reborn = now
                self.processes[3].send_signal(signal.SIGKILL)
                self.wait(3)
                self.start(3, checkpoint="n3.safetensors", checkpoint_seconds=1, shard="3/4",
                           **keys)
            if now - looked > LOOK_SECONDS:
                looked = now
                self.run_program("status", f"127.0.0.1:{self.ports[0]}", "--link", keys["link"],
                                 "--run", "test", "--key", "run.key", "--json", status=0)
                for i in range(3):
                    seen = early if now - begin < WARM * SECONDS else late
                    seen[i] = tuple(map(max, seen[i], self.memory(i)))
        done = self.stop(0, 1, 2)
        print(f"{SECONDS:.0f} s, {counter}", [d[counter] for d in done], "steps",
              [d["step"] for d in done], "(kB, files) before and after", early, late, flush=True)
        for i in range(3):
            self.assertLess(late[i][0], RSS_MORE * early[i][0] + RSS_MORE_KB)
            self.assertLessEqual(late[i][1], early[i][1] + OPEN_MORE)
            self.assertGreater(done[i][counter], 10 * SECONDS)
            self.assertLess(self.events(i, "step")[-1]["loss"], 0.5)        # has learned

    def test_pulls_over_udp(self):
        self.soak("pulls_done", exchange="gossip", link="udp")

    def test_pulls_over_tcp(self):
        self.soak("pulls_done", exchange="gossip", link="tcp")

    def test_averages_over_tcp(self):
        self.soak("averages_done", exchange="allreduce", link="tcp")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
