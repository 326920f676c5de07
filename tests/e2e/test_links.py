#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes over TCP, over a serial line, and as the ranks of an MPI job: the same node program, the same weights.

usage: test_links.py PROGRAM [-k CASE]     environment: UWASA_MNIST_DIR
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest

from fleet import Fleet, MNIST, PROGRAM, SANITIZED

NODES = 4


def tensors(path):
    """What a safetensors file holds besides its header's notes, as names, shapes and bytes."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        data = f.read()
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
            for name, t in header.items() if name != "__metadata__"}


def ranks_of(mpirun):
    """The processes that mpirun has started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                program = f.read().split(b"\0")[0].decode()
        except OSError:
            continue
        if parent == mpirun and program == PROGRAM:
            found.append(int(pid))
    return found


class Cable(threading.Thread):
    """A serial cable between two pseudo terminals: so many bits a second, one byte in `bad` with a
    wrong bit. Unplugged, it carries nothing."""

    def __init__(self, baud, bad):
        super().__init__(daemon=True)
        self.ends, self.names = [], []
        for _ in range(2):
            master, slave = os.openpty()
            self.ends.append(master)
            self.names.append(os.ttyname(slave))
            os.close(slave)
            os.set_blocking(master, False)
        self.baud, self.bad, self.random = baud, bad, random.Random(1)
        self.plugged, self.over, self.hit = True, False, 0

    def take(self, end):
        try:
            return os.read(self.ends[end], 256)
        except OSError:                 # nothing there, or nobody has opened the other side yet
            return b""

    def spoilt(self, data):
        data = bytearray(data)
        for i in range(len(data)):
            if self.random.randrange(self.bad) == 0:
                data[i] ^= 1 << self.random.randrange(8)
                self.hit += 1
        return bytes(data)

    def run(self):
        way, room, then = [b"", b""], [0.0, 0.0], time.monotonic()
        while not self.over:
            time.sleep(0.001)
            now = time.monotonic()
            for i in range(2):
                room[i] = min(room[i] + (now - then) * self.baud / 10, 4096.0)
                while room[i] >= 1.0 and (way[i] or self.plugged):
                    way[i] = way[i] or self.spoilt(self.take(i))
                    try:
                        n = os.write(self.ends[1 - i], way[i][:int(room[i])]) if way[i] else 0
                    except OSError:
                        n = 0
                    if n == 0:
                        break
                    way[i], room[i] = way[i][n:], room[i] - n
            then = now

    def close(self):
        self.over = True
        self.join()
        for end in self.ends:
            os.close(end)


class Links(Fleet):
    def needs_mpi(self):
        if SANITIZED:
            self.skipTest("skipped: MPI does not pass the sanitizers")
        if shutil.which("mpirun") is None:
            self.skipTest("skipped: there is no mpirun")
        said = self.run_program("node", "--link", "mpi", "--set", "name=n", "--set", "run=r",
                                "--set", "model=mlp", "--set", "steps=1", "--set",
                                "final_eval_samples=1", status=None)
        if "built without MPI" in said.stderr:
            self.skipTest("skipped: built without MPI")

    def start_mpi(self, **keys):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                       "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        command = ["mpirun", "-n", str(NODES), PROGRAM, "node", "--link", "mpi", "--json",
                   "n{rank}.jsonl"]
        for key, value in {"name": "n", "run": "test", **keys}.items():
            command += ["--set", f"{key}={value}"]
        with open(os.path.join(self.dir, "mpi.err"), "w", encoding="utf-8") as err:
            self.processes["mpi"] = subprocess.Popen(command, cwd=self.dir, env=environment,
                                                     stdout=err, stderr=err)

    def mpi_text(self):
        with open(os.path.join(self.dir, "mpi.err"), encoding="utf-8") as f:
            return f.read()

    def same_weights_over_every_link(self, **keys):
        keys = {"exchange": "allreduce", "algorithm": "halving", "together": NODES,
                "gather_seconds": 60, "linger_seconds": 0, "final_eval_samples": 100, **keys}
        weights = {}
        for link in ("tcp", "udp"):
            for i in range(NODES):
                self.start(i, link=link, shard=f"{i}/{NODES}",
                           checkpoint=f"{link}.{i}.safetensors", **keys)
            for i in range(NODES):
                self.assertGreaterEqual(self.done(i)["averages_done"], 3)
                weights[link, i] = tensors(os.path.join(self.dir, f"{link}.{i}.safetensors"))
        self.start_mpi(shard="{rank}/{size}", checkpoint="mpi.safetensors", **keys)
        self.assertEqual(self.wait("mpi"), 0, self.mpi_text())
        for i in range(NODES):
            self.assertGreaterEqual(self.events(i, "done")[-1]["averages_done"], 3)
            weights["mpi", i] = tensors(os.path.join(self.dir, f"mpi.{i}.safetensors"))
        for i in range(NODES):
            names = [name for name in weights["mpi", i] if "velocity" not in name]
            self.assertGreater(len(names), 3)
            for name in names:          # the velocity is each node's own
                for link in ("tcp", "udp", "mpi"):
                    self.assertEqual(weights[link, i][name], weights["tcp", 0][name],
                                     f"{name} of n{i} over {link}")
            self.assertEqual(weights["mpi", i], weights["tcp", i])
            self.assertEqual(weights["udp", i], weights["tcp", i])

    def test_same_weights_over_mpi_tcp_and_udp(self):
        self.needs_mpi()
        self.same_weights_over_every_link(model="mlp", batch=16, lr=0.05, steps=23, period=5)

    @unittest.skipUnless(MNIST, "skipped: no MNIST")
    def test_same_weights_of_the_fedavg_cnn_on_mnist(self):
        self.needs_mpi()
        self.same_weights_over_every_link(model="fedavg-cnn", data=f"mnist:{MNIST}", batch=20,
                                          lr=0.05, steps=15, period=5)

    def test_ranks_that_are_told_to_stop_save_and_end_together(self):
        self.needs_mpi()
        self.start_mpi(model="mlp", batch=16, exchange="allreduce", checkpoint="w.safetensors")
        self.until("averages over all ranks", lambda: all(
            any(e["nodes"] == NODES for e in self.events(i, "averaged")) for i in range(NODES)))
        ranks = ranks_of(self.processes["mpi"].pid)
        self.assertEqual(len(ranks), NODES)
        os.kill(ranks[0], signal.SIGTERM)       # one first: the others go on without it
        self.until("the others go on", lambda: sum(
            any(e["nodes"] == NODES - 1 for e in self.events(i, "averaged"))
            for i in range(NODES)) == NODES - 1)
        self.assertIsNone(self.processes["mpi"].poll(), self.mpi_text())
        for pid in ranks[1:]:
            os.kill(pid, signal.SIGTERM)
        self.assertEqual(self.wait("mpi"), 0, self.mpi_text())
        for i in range(NODES):
            self.assertTrue(self.events(i, "done")[-1]["interrupted"])
            self.assertGreater(len(tensors(os.path.join(self.dir, f"w.{i}.safetensors"))), 3)

    def test_rank_that_fails_ends_the_job(self):
        self.needs_mpi()
        with open(os.path.join(self.dir, "w.2.safetensors"), "w", encoding="utf-8") as f:
            f.write("no weights")
        self.start_mpi(model="mlp", checkpoint="w.safetensors")
        self.assertEqual(self.wait("mpi"), 1, self.mpi_text())
        self.assertIn("checkpoint w.2.safetensors", self.mpi_text())

    def test_average_over_tcp_goes_on_when_a_node_is_killed(self):
        for i in range(3):
            self.start(i, link="tcp", exchange="allreduce", cell_first=3, period=1,
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
            self.assertGreater(len(tensors(os.path.join(self.dir, f"n{i}.safetensors"))), 3)

    def test_gossip_over_tcp_and_its_status(self):
        for file, text in (("hwmon/hwmon0/name", "ina3221"), ("hwmon/hwmon0/in1_label", "VDD_IN"),
                           ("hwmon/hwmon0/in1_input", "5000"), ("hwmon/hwmon0/curr1_input", "1470"),
                           ("thermal/thermal_zone0/type", "cpu"),
                           ("thermal/thermal_zone0/temp", "-20500"),
                           ("power_supply/b/type", "Battery"), ("power_supply/b/capacity", "83")):
            path = os.path.join(self.dir, "sys", "class", file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text + "\n")
        for i in range(3):
            self.start(i, link="tcp", sensors="sys" if i == 2 else "none")
        fares = {"power_mw": 7350, "temperature_c": -20.5, "battery_percent": 83}
        self.until("n2 tells n1 how it fares", lambda: any(
            m["name"] == "n2" and fares.items() <= m.items()
            for e in self.events(1, "status") for m in e["members"]))
        self.until_event(1, "alive", "n0")
        ask = ("status", f"127.0.0.1:{self.ports[1]}", "--link", "tcp", "--key", "run.key", "--run",
               "test")
        members = json.loads(self.run_program(*ask, "--json").stdout)["members"]
        self.assertEqual({m["name"]: fares.items() <= m.items() for m in members},
                         {"n0": False, "n1": False, "n2": True})
        self.assertNotIn("power_mw", members[0])
        self.assertRegex(self.run_program(*ask).stdout, r"(?m)^this node trains with \w+")
        version = self.run_program("--version").stdout.split()[1].rstrip(",")
        self.assertEqual({m["version"] for m in members}, {version})
        self.assertRegex(self.run_program(*ask).stdout, f"(?m)^it runs uwasa {version}$")
        self.assertRegex(self.run_program(*ask).stdout, r"(?m)^n2 .* 7\.35 W +-20\.5 C +83 %$")
        self.assertLessEqual(fares.items(), self.events(2, "status")[-1].items())
        for i in range(3):
            self.until("pulls", lambda: len(self.events(i, "pull_done")) > 3)
        for done in self.stop(0, 1, 2):
            self.assertGreater(done["pulls_done"], 3)

    def test_wrong_key_over_tcp_is_refused_with_a_sentence(self):
        self.run_program("keygen", "other.key")
        self.start(0, link="tcp", seconds=8)
        self.start(1, link="tcp", seconds=8, key="other.key")
        self.until("a sentence on the wrong key", lambda: self.refuses_a_key(0, 1))
        for i in range(2):
            self.assertEqual(self.done(i)["pulls_done"], 0)

    def start_on_line(self, i, cable, **keys):
        """One end of a serial line, by a configuration file."""
        with open(os.path.join(self.dir, f"n{i}.json"), "w", encoding="utf-8") as f:
            json.dump({"name": f"n{i}", "run": "test", "key": "run.key", "model": "mlp",
                       "link": {"serial": cable.names[i], "baud": cable.baud}, "batch": 16,
                       "lr": 0.02, "step_seconds": 0.01, **keys}, f, indent=1)
        with open(os.path.join(self.dir, f"n{i}.err"), "a", encoding="utf-8") as err:
            self.processes[i] = subprocess.Popen(
                [PROGRAM, "node", "--config", f"n{i}.json", "--json", f"n{i}.jsonl"],
                cwd=self.dir, stdout=err, stderr=err)

    def test_serial_line_with_wrong_bits_joins_two_nodes(self):
        cable = Cable(4000000, bad=20000)
        cable.start()
        self.addCleanup(cable.close)
        self.start_on_line(0, cable, classes=[0, 1, 2, 3, 4])
        self.start_on_line(1, cable, classes=[5, 6, 7, 8, 9])
        for i in (0, 1):
            self.until_event(i, "pull_done")
        cable.plugged = False
        self.until_event(0, "suspect", "n1")
        cable.plugged = True
        pulled = [len(self.events(i, "pull_done")) for i in (0, 1)]
        for i in (0, 1):
            self.until("a pull after the cable was plugged in again",
                       lambda i=i: len(self.events(i, "pull_done")) > pulled[i])
        for done in self.stop(0, 1):
            self.assertEqual(done["refused_corrupt"], 0)
        self.assertGreater(cable.hit, 10)

    def test_impossible_configurations_get_a_sentence(self):
        given = ["node", "--set", "name=n", "--set", "run=r", "--set", "model=mlp"]
        for more, sentence in (
                (["--link", "tcp"], '"key" is missing'),
                (["--link", "udp", "--set", "tls=false", "--set", "key=run.key"], '"tls"'),
                (["--link", "mpi", "--set", "seeds=10.0.0.9:4433"], '"seeds"'),
                (["--link", "mpi", "--set", "advertise=10.0.0.9:4433"], '"advertise"'),
                (["--link", "mpi", "--set", "shard=4/4"], '"shard"'),
                (["--set", "link.baud=9600", "--set", "key=run.key"], '"link.serial"'),
                (["--set", "link.serial=tty", "--link", "tcp", "--set", "key=run.key"], "twice"),
                (["--set", "link.serial=tty"], '"key" is missing'),
                (["--link", "smoke"], "udp, tcp or mpi")):
            said = self.run_program(*given, *more, status=2)
            self.assertIn(sentence, said.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
