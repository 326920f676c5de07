#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_check without a GPU says so; what fails or hangs is told, killed, and counted.

Programs and cards of these tests are made up: what is tested is the script."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "tools", "gpu_check")
sys.path.insert(0, os.path.join(ROOT, "tools"))
from gpu import beside, bounded, card, table, traffic    # noqa: E402

GOOD = 'add_test("gpu/contract_good" "/bin/sh" "-c" "echo \\"3 test(s) run.\\"")\n'
BAD = 'add_test("gpu/contract_bad" "/bin/sh" "-c" "echo 3 is not 4; exit 1")\n'
CRASHES = 'add_test("gpu/contract_crashes" "/bin/sh" "-c" "kill -SEGV $$")\n'
SKIPS = 'add_test("gpu/contract_skips" "/bin/sh" "-c" "echo skipped: no driver; exit 77")\n'
HANGS = 'add_test("gpu/contract_hangs" "/bin/sh" "-c" "echo begun; sleep 86399 & sleep 86399")\n'
GONE = 'add_test("gpu/contract_gone" "/nowhere/program")\n'

BENCH = """#!/bin/sh
echo '{"event":"work","samples_per_s":[900,1000,1100],"gflop_per_s":5,"device_bytes":1048576}'
"""
SMI = '#!/bin/sh\necho "NVIDIA Made Up, 580.1, 24000, 9.0"\n'


def executable(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    return path


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.build = os.path.join(self.folder.name, "build")
        os.mkdir(self.build)

    def run_script(self, *arguments, tests="", path=None, alone=False):
        """path: searched first; alone: and nothing else."""
        with open(os.path.join(self.build, "CTestTestfile.cmake"), "w") as f:
            f.write(tests)
        env = {**os.environ, "PATH": path if alone else
               (path + ":" if path else "") + os.environ["PATH"]}
        return subprocess.run(
            [sys.executable, SCRIPT, "--build", self.build, "--out", self.folder.name, *arguments],
            capture_output=True, text=True, env=env, timeout=100)

    def rows(self):
        files = [f for f in os.listdir(self.folder.name) if f.endswith(".json")]
        self.assertEqual(len(files), 1)
        with open(os.path.join(self.folder.name, files[0])) as f:
            return {row["what"]: row for row in json.load(f)["rows"]}

    def test_without_a_gpu_one_sentence_and_status_1(self):
        if card.Card().here:
            self.skipTest("a GPU is here")
        run = self.run_script()
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stdout, "")
        self.assertEqual(len(run.stderr.splitlines()), 1)
        self.assertIn("no NVIDIA GPU here", run.stderr)
        self.assertEqual([f for f in os.listdir(self.folder.name) if f != "build"], [])

    def test_wrong_use_is_status_2(self):
        for wrong in (["nowhere"], ["--works", "lenet5"], ["--modes", "fastest"]):
            self.assertEqual(self.run_script(*wrong).returncode, 2, wrong)

    def test_all_good_is_status_0(self):
        run = self.run_script("--emulated", "contract", tests=GOOD)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("3 tests", self.rows()["gpu/contract_good"]["figure"])

    def test_a_failure_is_told_and_the_rest_still_runs(self):
        run = self.run_script("--emulated", "contract", tests=BAD + CRASHES + SKIPS + GONE + GOOD)
        self.assertEqual(run.returncode, 1)
        rows = self.rows()
        self.assertEqual(rows["gpu/contract_good"]["result"], "passed")
        for name, why in (("bad", "exit status 1: 3 is not 4"), ("crashes", "SIGSEGV"),
                          ("skips", "no driver"), ("gone", "not built")):
            self.assertEqual(rows[f"gpu/contract_{name}"]["result"], "FAILED")
            self.assertIn(why, rows[f"gpu/contract_{name}"]["figure"])
        self.assertIn("3 is not 4", run.stdout)

    def test_no_suites_is_a_failure(self):
        self.assertEqual(self.run_script("--emulated", "gradient", tests=GOOD).returncode, 1)

    def test_a_hang_is_killed_with_what_it_started(self):
        begin = time.monotonic()
        run = self.run_script("--emulated", "--limit", "1", "contract", tests=HANGS + GOOD)
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(run.returncode, 1)
        rows = self.rows()
        self.assertIn("killed", rows["gpu/contract_hangs"]["figure"])
        self.assertEqual(rows["gpu/contract_good"]["result"], "passed")
        self.assertIn("begun", run.stdout)
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
        self.assertNotIn("sleep 86399", listed)

    def test_what_has_no_time_left_has_failed(self):
        run = self.run_script("--emulated", "--minutes", "0.001", "contract", tests=GOOD)
        self.assertEqual(run.returncode, 1)
        self.assertIn("no time left", self.rows()["gpu/contract_good"]["figure"])

    def test_a_part_that_hangs_leaves_the_others_their_share(self):
        good = GOOD.replace("contract", "gradient")
        run = self.run_script("--emulated", "--minutes", "0.1", "contract", "gradient",
                              tests=HANGS + good)
        self.assertEqual(run.returncode, 1)
        self.assertIn("killed", self.rows()["gpu/contract_hangs"]["figure"])
        self.assertEqual(self.rows()["gpu/gradient_good"]["result"], "passed")

    def test_what_is_not_installed_is_told_in_a_line(self):
        executable(self.folder.name, "nvidia-smi", SMI)
        run = self.run_script("build", "contract", "--commit", "abc", path=self.folder.name,
                              alone=True)
        self.assertEqual(run.returncode, 1)
        for line in ("no cmake: install the package cmake", "no C compiler: install gcc",
                     "no ninja or make: install ninja-build or make"):
            self.assertIn(f"  FAILED   build: installed  {line}\n", run.stdout)
        self.assertIn("none were built: see the part build", self.rows()["suites"]["figure"])
        self.assertNotIn("Traceback", run.stdout + run.stderr)

    def test_a_part_that_this_script_stumbles_over_fails_alone(self):
        program = executable(self.folder.name, "uwasa", BENCH.replace("[900,1000,1100]", "5"))
        run = self.run_script("--emulated", "bench", "contract", "--modes", "", "--uwasa", program,
                              tests=GOOD)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(self.rows()["this script"]["part"], "bench")
        self.assertEqual(self.rows()["gpu/contract_good"]["result"], "passed")

    def test_a_card_is_named_and_steps_are_measured(self):
        executable(self.folder.name, "nvidia-smi", SMI)
        program = executable(self.folder.name, "uwasa", BENCH)
        run = self.run_script("bench", "--modes", "", "--works", "lenet5:2,mlp:1",
                              "--commit", "abc", "--uwasa", program, path=self.folder.name)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertEqual(self.rows()["lenet5:2 step"]["figure"], "2.000 ms")
        self.assertRegex(run.stdout, "card: +NVIDIA Made Up\ndriver: +580.1\n")
        self.assertTrue(any(f.startswith("nvidia-made-up-") for f in os.listdir(self.folder.name)))

    def test_a_program_that_fails_fails_its_work(self):
        run = self.run_script("--emulated", "bench", "--modes", "", "--uwasa", "/bin/false")
        self.assertEqual(run.returncode, 1)


def rated(own_s, eager_s, compiled_s, own_bytes, their_bytes):
    peer = {"allocated_bytes": their_bytes, "reserved_bytes": their_bytes}
    rows = table.Table({})
    torch = {"eager": {**peer, "step_s": [eager_s] * 3},
             "default": {**peer, "step_s": [compiled_s] * 3}}
    own = {"step_s": [own_s] * 3, "told": {"device_bytes": own_bytes}}
    beside.rate(rows, {"work": "lenet5:1", "torch": torch, "own": own}, True)
    return [row["result"] for row in rows.rows]


class Words(unittest.TestCase):
    def test_what_is_wrong_is_found_in_what_a_program_says(self):
        for said, found in (
                ("-- ok\nCMake Error at a.cmake:3 (message):\n  UWASA_CUDA: no nvcc:\n  install it\n"
                 "Call Stack (most recent call first):\n", "UWASA_CUDA: no nvcc: install it"),
                ("a.c:3:1: error: no such thing\nninja: build stopped\n",
                 "a.c:3:1: error: no such thing"),
                ("one\nthe last\n\n", "the last"), ("", "")):
            self.assertEqual(bounded.last_words(said), found)

    def test_a_toolkit_of_python_packages_is_found_and_what_it_lacks_told(self):
        with tempfile.TemporaryDirectory() as site:
            root = os.path.join(site, "nvidia", "cu13")
            for file in ("bin/nvcc", "include/cuda_runtime_api.h", "include/cublas_v2.h",
                         "lib/libcublas.so.13", "lib/libcudart_static.a"):
                os.makedirs(os.path.dirname(os.path.join(root, file)), exist_ok=True)
                executable(root, file, "")
            with mock.patch.object(card, "python_folders", lambda: [site]), \
                    mock.patch.object(card, "SYSTEM_TOOLKITS", ()), \
                    mock.patch.dict(os.environ, {"PATH": "/nowhere"}), \
                    mock.patch.object(card, "system_folders", lambda root: []), \
                    mock.patch.object(card, "SYSTEM_HEADERS", ()):
                for name in ("CUDA_HOME", "CUDA_PATH"):
                    os.environ.pop(name, None)
                self.assertEqual(card.toolkit(), root)
                lines = card.Libraries(root).missing()
            self.assertEqual([line.split(":")[0] for line in lines],
                             ["no cudnn.h", "no libcudnn.so"])


class Targets(unittest.TestCase):
    def test_a_target_that_is_missed_fails(self):
        good = rated(1.0, 3.0, 1.5, 60, 100)
        self.assertEqual(good, ["measured"] + ["passed"] * 4)
        self.assertEqual(rated(1.0, 2.9, 1.5, 60, 100).count("FAILED"), 1)
        self.assertEqual(rated(1.0, 3.0, 1.4, 60, 100).count("FAILED"), 1)
        self.assertEqual(rated(1.0, 3.0, 1.5, 61, 100).count("FAILED"), 2)

    def test_each_work_of_the_issue_has_a_target(self):
        self.assertEqual(beside.target_of("resnet50:32", "eager"), 1.05)
        self.assertEqual(beside.target_of("resnet20:64", "default"), 1.1)
        self.assertIsNone(beside.target_of("resnet20:64", "reduce-overhead"))

    def test_least_traffic_of_a_small_network(self):
        layers = [{"name": "a", "type": "conv2d", "out_channels": 2, "kernel": 3, "padding": 1},
                  {"name": "b", "type": "relu"}, {"name": "c", "type": "flatten"},
                  {"name": "d", "type": "dense", "out": 5}]
        # a: 16 in, 32 out; d: 32 in, 5 out; parameters 2 * 9 + 2 and 5 * 32 + 5
        numbers = 10 * (3 * (16 + 32) - 16 + 3 * (32 + 5)) + 8 * (20 + 165)
        self.assertEqual(traffic.least_bytes({"input": [1, 4, 4], "layers": layers}, 10),
                         4 * numbers)


if __name__ == "__main__":
    unittest.main()
