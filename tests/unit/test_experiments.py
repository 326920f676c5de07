#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/experiments: what they say of rows, programs and runs that are not as they should be.
Nothing is trained: the program is one that only tells what a run that was stopped tells."""

import os
import subprocess
import sys
import tempfile
import unittest

EXPERIMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools",
                           "experiments")
STOPPED = """#!/bin/sh
echo '{"event": "start"}'
echo '{"event": "eval", "steps": 188, "test_accuracy": 0.5, "mean_model_accuracy": 0.5, \
"virtual_seconds": 1, "bytes_sent": 1}'
echo '{"event": "stopped", "steps": 188, "test_accuracy": 0.5, "seconds": 1}'
"""
ONE_ROW = (("non_iid", "slowmo"), ("modes", "100 Mbit/s"), ("reference", "sorted"),
           ("real", "gossip"))


class Experiments(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.program = os.path.join(self.folder, "stopped")
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(STOPPED)
        os.chmod(self.program, 0o755)

    def run_one(self, name, *words, cwd=None, env=None):
        run = subprocess.run([sys.executable, os.path.join(EXPERIMENTS, name), *words], text=True,
                             capture_output=True, timeout=60, check=False, env=env,
                             cwd=cwd or self.folder)
        self.assertNotIn("Traceback", run.stderr)
        self.assertNotEqual(run.returncode, 0, name)
        return run.stderr

    def test_rows_that_are_not_there_are_told(self):
        for name, row in ONE_ROW:
            err = self.run_one(name, "digits", self.program, "--rows", "nosuch")
            self.assertTrue(err.startswith("--rows nosuch: no row has that in its name"), err)
            self.assertIn(row, err)

    def test_a_program_that_is_not_there_is_told(self):
        for words in (("non_iid", "digits"), ("modes", "digits"), ("real", "digits"),
                      ("reference", "digits"), ("scale", "digits"), ("mpi_speedup",),
                      ("one_partner",), ("wide_area", "1", "digits")):
            err = self.run_one(*words, "nowhere/uwasa")
            self.assertIn("nowhere/uwasa is no program; cmake --preset release", err)

    def test_what_is_known_is_told_without_a_program(self):
        own = '"own": [0.5, 0.6, 0.7], "mean": [0.5, 0.6, 0.7]'
        with open(os.path.join(self.folder, "raw"), "w", encoding="utf-8") as file:
            file.write('{"row": "sorted, pull gossip T = 10", "seed": 1, "init": "pytorch", '
                       f'{own}}}\n')
        run = subprocess.run([sys.executable, os.path.join(EXPERIMENTS, "reference"), "digits",
                              "nowhere/uwasa", "--table", "--raw", "raw"], text=True,
                             capture_output=True, timeout=60, check=False, cwd=self.folder)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("| sorted, pull gossip T = 10 | own models | 50.0 |", run.stdout)

    def test_a_program_on_path_will_do(self):
        path = self.folder + os.pathsep + os.environ["PATH"]
        err = self.run_one("reference", "digits", "stopped", "--rows", "even, pull", "--init", "he",
                           cwd=os.path.dirname(self.folder), env=dict(os.environ, PATH=path))
        self.assertIn("was stopped before its end", err)

    def test_runs_that_were_stopped_do_not_count(self):
        """Ctrl-C stops them as well, and they exit with 0: none may be kept as a whole one."""
        for name, row in ONE_ROW:
            init = ("--init", "he") if name == "reference" else ()
            self.run_one(name, "digits", self.program, "--rows", row, "--seeds", "1", "--raw",
                         "raw", *init)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "raw")), name)


if __name__ == "__main__":
    unittest.main()
