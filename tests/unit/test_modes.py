#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/experiments/modes finds the rows that --rows names."""

import importlib.machinery
import importlib.util
import os
import sys
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


if __name__ == "__main__":
    unittest.main()
