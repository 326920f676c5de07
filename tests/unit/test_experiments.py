#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/experiments: what can be asked of them without running anything."""

import os
import subprocess
import sys
import unittest

EXPERIMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools",
                           "experiments")


class Rows(unittest.TestCase):
    def test_rows_that_are_not_there_are_told(self):
        for name, a_row in (("non_iid", "pairs, K-GT"), ("modes", "decades"),
                            ("real", "gossip"), ("reference", "sorted")):
            run = subprocess.run([sys.executable, os.path.join(EXPERIMENTS, name), "digits",
                                  "--rows", "nosuch"], text=True, capture_output=True, timeout=60,
                                 check=False)
            self.assertEqual(run.returncode, 1, name)
            self.assertEqual(run.stdout, "", name)
            self.assertTrue(run.stderr.startswith("--rows nosuch: no row has that in its name"),
                            run.stderr)
            self.assertIn(a_row, run.stderr)


if __name__ == "__main__":
    unittest.main()
