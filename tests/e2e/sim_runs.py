# SPDX-License-Identifier: Apache-2.0
"""Small simulated runs for tests: four classes in the plane, a model of 116 parameters."""
import json
import os
import random
import subprocess

MODEL = {"name": "plane", "input": [2], "layers": [
    {"name": "fc1", "type": "dense", "out": 16}, {"name": "relu", "type": "relu"},
    {"name": "fc2", "type": "dense", "out": 4}]}


def make_inputs(folder):
    rng = random.Random(1)
    with open(os.path.join(folder, "four.csv"), "w", encoding="utf-8") as file:
        for i in range(1200):
            x, y = i % 2 * 2 - 1, i // 2 % 2 * 2 - 1
            file.write(f"{x + rng.uniform(-0.5, 0.5):.4f},{y + rng.uniform(-0.5, 0.5):.4f},"
                       f"{i % 4}\n")
    with open(os.path.join(folder, "plane.json"), "w", encoding="utf-8") as file:
        json.dump(MODEL, file)


def simulate(program, folder, *flags):
    """Run `PROGRAM sim`; 4 nodes and 10 ms a step unless flags say otherwise. Returns its result."""
    return subprocess.run(
        [program, "sim", "--model", "plane.json", "--data", "csv:four.csv", "--nodes", "4",
         "--batch", "10", "--lr", "0.1", "--step-seconds", "0.01", *flags],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def read_events(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
