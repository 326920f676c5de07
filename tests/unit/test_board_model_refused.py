#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/board_model says of a model that it cannot write: a sentence, and status 1."""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "board_model")
MODEL = {"name": "m", "input": [1, 8, 8],
         "layers": [{"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3},
                    {"name": "l", "type": "leaky_relu", "negative_slope": 0.1},
                    {"name": "f", "type": "flatten"}, {"name": "o", "type": "dense", "out": 2}],
         "loss": {"type": "huber", "target": "values", "delta": 1.0}}


class Refused(unittest.TestCase):
    def say(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.json")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            done = subprocess.run([sys.executable, TOOL, os.path.join(folder, "m.c"), path],
                                  capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr

    def test_model_without_mistakes_is_written(self):
        self.assertEqual(self.say(json.dumps(MODEL)), (0, ""))

    def test_number_that_does_not_fit_is_named(self):
        for place, value, sentence in (
                (("layers", 0, "out_channels"), 1e400, "'out_channels': inf: needs a whole number"),
                (("layers", 0, "out_channels"), -1, "'out_channels': -1: needs a whole number"),
                (("layers", 0, "kernel"), [3, 2**32], "'kernel': 4294967296: needs a whole"),
                (("layers", 0, "kernel"), 2.5, "'kernel': 2.5: needs a whole number"),
                (("layers", 1, "negative_slope"), 3.5e38, "'negative_slope': 3.5e+38: needs a"),
                (("layers", 1, "negative_slope"), float("nan"), "'negative_slope': nan: needs a"),
                (("layers", 3, "out"), "two", "'out': 'two': needs a whole number"),
                (("input", 1), 10**400, "input: 1000"),
                (("input",), [], "input: []: needs a list"),
                (("layers", 1, "type"), "pad", "layer 'l': type 'pad': use what `uwasa models"),
                (("layers", 1, "type"), "padd", "layer 'l': 'padd': known are"),
                (("loss", "delta"), 10**400, "loss, 'delta': 1000"),
                (("loss", "huge"), 1, "loss: 'huge': known are classes_last, delta, first, label_smoothing")):
            model = copy.deepcopy(MODEL)
            at = model
            for key in place[:-1]:
                at = at[key]
            at[place[-1]] = value
            status, said = self.say(json.dumps(model))
            self.assertEqual(status, 1, (place, value))
            self.assertIn(sentence, said)

    def test_what_is_no_model_is_said(self):
        for text, sentence in (("[]", "needs an object"), ("{}", "is missing"), ("{", "Expecting")):
            status, said = self.say(text)
            self.assertEqual(status, 1)
            self.assertIn(sentence, said)


if __name__ == "__main__":
    unittest.main()
