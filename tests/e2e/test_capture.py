#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What uwasa node --pcap FILE writes, read by tools/read_capture and by hand.

usage: test_capture.py PROGRAM READ_CAPTURE CAPTURE_KINDS
"""
import os
import resource
import signal
import struct
import subprocess
import sys
import unittest

from fleet import Fleet, PROGRAM

READ = os.path.abspath(sys.argv.pop(2))
KINDS = os.path.abspath(sys.argv.pop(2))
BIT_RELIABLE, BIT_SECURE = 1, 2


def records(path):
    """Times, ways, flags, stations and messages of a capture that is whole."""
    with open(path, "rb") as f:
        data = f.read()
    assert struct.unpack("<IHHIIII", data[:24])[:5] == (0xa1b2c3d4, 2, 4, 0, 0), data[:24]
    assert data[20:24] == struct.pack("<I", 147), data[:24]
    found, at = [], 24
    while at < len(data):
        seconds, us, kept, whole = struct.unpack("<IIII", data[at:at + 16])
        body = data[at + 16:at + 16 + kept]
        version, head, way, flags, station, own, size = struct.unpack("<BBBBHHI", body[:12])
        assert (version, head, own) == (1, 12, 0xffff) and kept <= whole == 12 + size, body[:12]
        assert us < 1000000 and len(body) == kept, (us, kept)
        found.append((seconds + us / 1e6, way, flags, station, body[12:]))
        at += 16 + kept
    return found


class Capture(Fleet):
    def sums(self, path, status=0):
        """Messages and bytes by way and kind, as read_capture --sum has them."""
        done = subprocess.run([READ, "--sum", path], capture_output=True, text=True, timeout=60,
                              cwd=self.dir, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        rows = {}
        for line in done.stdout.splitlines():
            way, _, n, size, *kind = line.split()
            old = rows.get((way, " ".join(kind)), (0, 0))
            rows[way, " ".join(kind)] = (old[0] + int(n), old[1] + int(size))
        return rows

    def told(self, path):
        """What read_capture says of each message: its kind, and what else."""
        done = subprocess.run([READ, path], capture_output=True, text=True, timeout=60,
                              cwd=self.dir, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [" ".join(line.split()[4:]) for line in done.stdout.splitlines()]

    def pair(self, **keys):
        """Two nodes to their end; the paths of what they captured."""
        for i in range(2):
            self.start(i, pcap=f"n{i}.pcap", seconds=2, step_seconds=0.01, linger_seconds=0.5,
                       final_eval_samples=10, **keys)
        for i in range(2):
            self.done(i)
        return [os.path.join(self.dir, f"n{i}.pcap") for i in range(2)]

    def test_capture_of_udp_has_dtls_records_and_nothing_in_the_clear(self):
        paths = self.pair()
        for path in paths:
            rows, all_of = self.sums(path), records(path)
            self.assertEqual({kind for _, kind in rows} - {"DTLS alert", "DTLS change cipher"},
                             {"DTLS handshake", "DTLS encrypted"})
            for way in "->", "<-":
                self.assertGreater(rows[way, "DTLS handshake"][0], 0)
                self.assertGreater(rows[way, "DTLS encrypted"][1], 20000)   # a model and more
            self.assertEqual(sum(n for n, _ in rows.values()), len(all_of))
            times = [r[0] for r in all_of]
            self.assertEqual(times, sorted(times))
            self.assertLess(abs(times[-1] - os.path.getmtime(path)), 10)    # of this day
            self.assertTrue(all(len(r[4]) <= 1232 and r[2] == 0 for r in all_of))
        # Loopback loses next to nothing: what one sent, the other has received.
        sent = {r[4] for r in records(paths[0]) if r[1] == 1}
        received = {r[4] for r in records(paths[1]) if r[1] == 0}
        self.assertGreater(len(sent & received), 0.8 * len(sent))
        self.assertLessEqual(len(received - sent), 0)

    def test_capture_of_tcp_has_the_messages_and_says_what_protects_them(self):
        for tls in "true", "false":
            path = self.pair(link="tcp", tls=tls)[0]
            rows = self.sums(path)
            for kind in "hello", "ack", "want", "data":
                self.assertGreater(rows.get(("->", kind), (0, 0))[0] +
                                   rows.get(("<-", kind), (0, 0))[0], 0, kind)
            self.assertNotIn("other", {kind for _, kind in rows})
            flags = {r[2] for r in records(path)}
            self.assertEqual(flags, {BIT_RELIABLE | (BIT_SECURE if tls == "true" else 0)})

    def test_capture_of_a_radio_and_a_line_has_what_bench_link_sends(self):
        for link, kind in ("802154", "secure data"), ("serial", "DTLS encrypted"):
            said = self.run_program("bench", "link", "--link", link, "--bytes", "8000", "--pcap",
                                    "b.pcap", "--json", "-", *(["--nodes", "2", "--pulls", "1"]
                                                               if link == "802154" else
                                                               ["--rate", "1000000"]))
            rows = self.sums(os.path.join(self.dir, "b.pcap"))
            self.assertIn('"done"', said.stdout)
            self.assertGreater(rows["<-", kind][1], 8000)
            self.assertGreater(len(rows), 3)
            self.assertNotIn("other", {kind for _, kind in rows})

    def test_each_kind_of_message_is_decoded(self):
        wants = "seq 4 chunks of 28 coded spread 3200 us mixed 6 asked 10 from 0,64"
        control = ["hello", "ping", "ack", "refuse", "goodbye", "status request", "status reply",
                   "part", "cell", "shuffle"]
        # 25 floats: 1 byte, 24 bits each, and 2 more, but 17 for one that is far smaller.
        kinds = {"frames": control + [
            f"want transfer 9 {wants}", "data version 7 chunk 3 seq 4 floats 25",
            "cast turn 2 chunk 3 tag 11 floats 25", f"cast want turn 9 {wants}",
            "coded data version 7 chunk 3 seq 4 floats 25 in 85 bytes: 75 of signs and mantissas, "
            "10 of exponents up to 126"],
                 "datagrams": control + [
                     "revoked", "want", "data transfer 9 seq 4 version 7 offset 75 floats 25"]}
        path = os.path.join(self.dir, "kinds.pcap")
        for link, wanted in kinds.items():
            with open(path, "wb") as f:
                subprocess.run([KINDS, link], stdout=f, timeout=60, check=True)
            self.assertEqual(sorted(self.told(path)), sorted(wanted))

    def test_capture_of_secure_frames_tells_what_is_in_the_clear(self):
        for flags, kind, said in (("--code", "secure coded data", r"code of \d+ bytes"),
                                  ("--exchange average", "secure cast", "floats 25"),
                                  ("--code", "secure want", r"message of \d+ bytes")):
            self.run_program("bench", "link", "--link", "802154", "--nodes", "3", "--bytes", "8000",
                             "--loss", "0.1", "--pcap", "b.pcap", *flags.split())
            told = self.told(os.path.join(self.dir, "b.pcap"))
            self.assertRegex("\n".join(told), rf"(?m)^{kind} epoch 0 counter \d+ {said}$")
            for join in "hello", "welcome", "join":
                self.assertRegex("\n".join(told), rf"(?m)^secure {join} epoch 0 identity "
                                                  r"[0-9a-f]{16} counter \d+$")

    def test_capture_of_a_killed_node_can_be_read(self):
        for i in range(2):
            self.start(i, pcap=f"n{i}.pcap", seconds=60)
        self.until_event(0, "alive")
        self.processes[0].send_signal(signal.SIGKILL)
        self.processes[0].wait()
        self.assertGreater(len(records(os.path.join(self.dir, "n0.pcap"))), 4)
        self.stop(1)

    def test_capture_that_cannot_be_begun_is_a_mistake(self):
        said = self.run_program("node", "--pcap", "no/such/folder", "--set", "name=n", "--set",
                                "run=r", "--set", "model=mlp", "--set", "key=run.key", status=1)
        self.assertIn("--pcap no/such/folder: No such file or directory", said.stderr)
        said = self.run_program("node", "--pcap", "-", "--set", "name=n", "--set", "run=r", "--set",
                                "model=mlp", "--set", "key=run.key", status=2)
        self.assertIn("--pcap -: needs the name of a file", said.stderr)

    def test_capture_that_gets_too_large_is_cut_and_the_node_goes_on(self):
        limit = 50000
        command = [PROGRAM, "node", "--pcap", "n.pcap", "--set", "name=a", "--set", "run=test",
                   "--set", "model=mlp", "--set", "key=run.key", "--set", "seconds=2",
                   "--set", f"listen=127.0.0.1:{self.ports[0]}", "--set", "final_eval_samples=10"]
        self.start(1, seconds=3, step_seconds=0.01, linger_seconds=0.5, final_eval_samples=10)

        def lessen():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = subprocess.run(command, cwd=self.dir, capture_output=True, text=True, timeout=200,
                              check=False, preexec_fn=lessen)
        self.done(1)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("--pcap n.pcap: File too large", done.stderr)
        self.assertIn("messages are not in it", done.stderr)
        path = os.path.join(self.dir, "n.pcap")
        self.assertGreater(len(records(path)), 10)          # whole
        self.assertLessEqual(os.path.getsize(path), limit)

    def test_reader_tells_of_what_is_cut_or_no_capture(self):
        head = struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 1244, 147)
        record = struct.pack("<IIIIBBBBHHI", 1, 2, 13, 13, 1, 12, 1, 0, 4, 0xffff, 1) + b"x"
        path = os.path.join(self.dir, "hand.pcap")
        for cut in range(len(record) + 1):
            with open(path, "wb") as f:
                f.write(head + record + record[:cut])
            rows = self.sums(path, status=0 if cut in (0, len(record)) else 1)
            self.assertEqual(rows, {("->", "other"): ((2, 2) if cut == len(record) else (1, 1))})
        with open(path, "wb") as f:
            f.write(head + 10000 * record)
        with subprocess.Popen([READ, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as some:
            self.assertIn(b"other", some.stdout.readline())
            some.stdout.close()
            self.assertEqual((some.stderr.read(), some.wait()), (b"", 0))
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([READ, path], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=60, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, "standard output: No space left on device\n")
        for wrong in b"", head[:10], b"\0" + head[1:], head[:20] + b"\1" + head[21:]:
            with open(path, "wb") as f:
                f.write(wrong)
            self.assertEqual(self.sums(path, status=2), {})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
