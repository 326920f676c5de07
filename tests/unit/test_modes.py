#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/experiments/modes finds the rows that --rows names; --raw, of all experiments, what a kill
left."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools",
                      "experiments")


def load():
    sys.dont_write_bytecode = True
    sys.path.insert(0, FOLDER)
    loader = importlib.machinery.SourceFileLoader("modes", os.path.join(FOLDER, "modes"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("modes", loader))
    loader.exec_module(module)
    return module


class Rows(unittest.TestCase):
    def setUp(self):
        self.modes = load()

    def chosen(self, rows, *texts):
        return sys.modules["shared"].chosen([name for name, _, _ in rows()], list(texts))

    def test_a_name_with_commas_is_one_row(self):
        for rows in (self.modes.heterogeneous, self.modes.scenarios):
            for name, _, _ in rows():
                self.assertEqual(self.chosen(rows, name), [name])

    def test_texts_are_found_in_names_and_words_between_commas_too(self):
        rows = self.modes.heterogeneous
        self.assertEqual(len(self.chosen(rows)), 12)
        self.assertEqual(self.chosen(rows, "1 decade"),
                         [f"{n} Mbit/s, 1 decade" for n in (100, 10, 1)])
        self.assertEqual(self.chosen(rows, "2 decades,3 times"),
                         self.chosen(rows, "2 decades", "3 times"))
        self.assertEqual(self.chosen(rows, "1 Mbit/s", "100 Mbit/s"), ["100 Mbit/s", "1 Mbit/s"])
        self.assertEqual(self.chosen(rows, "no such"), [])


class RawFile(unittest.TestCase):
    """A file of finished runs."""

    def setUp(self):
        load()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "raw.jsonl")

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(text)

    def open(self):
        with contextlib.redirect_stderr(io.StringIO()):
            return sys.modules["shared"].Raw(self.path, lambda run: run["row"])

    def test_a_series_that_was_killed_while_it_wrote_goes_on(self):
        text = "".join(json.dumps({"row": row, "is": [1, 2]}) + "\n" for row in "abc")
        first = text.index("\n") + 1
        for end in range(first, len(text) + 1):
            self.write(text[:end])
            raw = self.open()
            self.assertEqual(len(raw.known), text[:end + 1].count("\n"))    # a whole line counts
            raw.add({"row": "d"})
            self.assertEqual(sorted(self.open().known), sorted([*raw.known]))
            self.assertIn("d", self.open().known)

    def test_another_file_stays_as_it_is(self):
        for text in ("a report\n", '{"row": "a"}\nor not\n{"row": "b"}\n', '{"seed": 1}\n', "[1]\n",
                     "one line", '{"row": "a"}\n\n{"row": "b"}\n', "\xff\n",
                     '{"name": "package", "version": "1.0.0"}', '{"row": "a"}\n{"seed": 1}',
                     '{"name": "package",', "{"):
            self.write(text)
            with self.assertRaises(SystemExit) as ended:
                self.open()
            self.assertIn("it stays as it is", ended.exception.code)
            with open(self.path, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)


if __name__ == "__main__":
    unittest.main()
