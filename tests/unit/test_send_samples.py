#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/send_samples: its frames, the files that it reads, and what it says of a silent board.

usage: test_send_samples.py"""
import importlib.machinery
import importlib.util
import os
import pty
import random
import struct
import tempfile
import threading
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "send_samples")


def load():
    loader = importlib.machinery.SourceFileLoader("send_samples", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("send_samples", loader))
    loader.exec_module(module)
    return module


tool = load()


class Sender(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()      # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def write(self, name, data):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def refused(self, says, data):
        with self.assertRaisesRegex(tool.Failed, says):
            tool.read_samples(data)

    def test_frames_have_no_zero_inside_and_damage_is_seen(self):
        numbers = random.Random(1)
        for n in (0, 1, 249, 250, 251, 253, 254, 255, 508, 509, 790):
            for most in (1, 2, 255):                # all zeros, half of them, few
                message = bytes(numbers.randrange(most) for _ in range(n))
                frame = tool.encode(message)
                self.assertEqual((frame[:1], frame[-1:]), (b"\0", b"\0"))
                self.assertNotIn(0, frame[1:-1])
                self.assertEqual(tool.decode(frame[1:-1]), message)
                bad = bytearray(frame[1:-1])
                bad[numbers.randrange(len(bad))] ^= 16
                self.assertIsNone(tool.decode(bad))

    def test_files_are_read_as_training_reads_them(self):
        images = self.write("i", struct.pack(">IIII", 0x803, 2, 1, 3) + bytes(range(6)))
        labels = self.write("l", struct.pack(">II", 0x801, 2) + bytes((7, 9)))
        self.assertEqual(tool.read_samples(f"idx:{images},{labels}"),
                         [bytes((7, 0, 1, 2)), bytes((9, 3, 4, 5))])
        table = self.write("c", b"a,b,kind\r\n0, 1,3\n\n0.5,0.25,4\n")
        self.assertEqual(tool.read_samples(f"csv:{table}"), [bytes((3, 0, 255)), bytes((4, 128, 64))])

    def test_files_that_do_not_fit_are_named_with_the_line(self):
        images = self.write("i", struct.pack(">IIII", 0x803, 2, 1, 3) + bytes(range(5)))
        labels = self.write("l", struct.pack(">II", 0x801, 2) + bytes((7, 9)))
        self.refused("i: 21 bytes, its head asks for 22", f"idx:{images},{labels}")
        self.refused("l: no IDX file", f"idx:{labels},{labels}")
        self.refused("none: No such file", "csv:none")
        for text, says in ((b"1,0\n2,0\n", ":2: values are sent as bytes"), (b"", "no line"),
                           (b"1,0\n1,x\n", ":2: could not"),
                           (b"a,b\nx,1\n1,0\n", ":2: could not"), (b"x,1\n1,0\n", ":1: could not"), (b"1,1.5\n", ":1: label 1.5")):
            self.refused(says, "csv:" + self.write("c", text))
        self.assertIsNone(tool.read_samples("digits"))

    def test_a_file_in_place_of_the_line_is_left_as_it_is(self):
        path = self.write("notes", b"these are not samples")
        with self.assertRaisesRegex(tool.Failed, "notes: a file, not a serial line"):
            tool.Line(path, 115200)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), b"these are not samples")

    def test_samples_go_over_a_terminal_and_a_silent_board_is_named(self):
        master, slave = pty.openpty()
        line = tool.Line(os.ttyname(slave), 115200)
        board, got = tool.Board(line, 10.0), []

        def answer(position, damaged):
            os.write(master, tool.encode(struct.pack("<cIIIIII", b"A", position, 4, 3, 10, 0,
                                                     damaged)))

        def serve():
            """Says once that a part was damaged, once that it has started anew."""
            heard, damaged, anew, position = b"", 0, False, 0
            while position < 8:
                frame, zero, rest = heard.partition(b"\0")
                if not zero:
                    heard += os.read(master, 4096)
                    continue
                heard = rest
                message = tool.decode(frame) if frame else None
                if message is None:
                    continue
                if message == b"H":
                    position = 0
                elif position == 3 and damaged == 0:
                    damaged = 1
                elif position == 4 and not anew:
                    anew, position = True, 0
                elif struct.unpack("<I", message[1:5])[0] == position:
                    got.append(message[5:])
                    position += len(message) - 5
                answer(position, damaged)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        board.begin()
        for sample in (b"abcd", b"efgh", b"ijkl"):
            board.send(sample)
        thread.join(10)
        self.assertEqual(got, [b"abc", b"d", b"efg", b"h", b"ijk", b"l"])
        board.timeout = 0.2
        answer(5, 7)                    # not what begin wants
        with self.assertRaisesRegex(tool.Failed, "the board answers, and has taken nothing for 0.2 s; "
                                                 "7 damaged"):
            board.begin()
        with self.assertRaisesRegex(tool.Failed, "no answer for 0.2 s"):
            board.begin()
        os.close(master)
        os.close(slave)
        os.close(line.fd)


if __name__ == "__main__":
    unittest.main()
