# SPDX-License-Identifier: Apache-2.0
"""What the experiments with modelled steps share: uwasa sim time, run and read."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "release", "uwasa")


def run(command):
    """The events of a run."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def step_times(program, nodes, **flags):
    """One event for each number of nodes; flags: device_rate=1e12 is --device-rate 1e12."""
    command = [program, "sim", "time", "--nodes", ",".join(str(n) for n in nodes), "--json", "-"]
    for key, value in flags.items():
        command += ["--" + key.replace("_", "-"), str(value)]
    return [e for e in run(command) if e["event"] == "step_time"]


def print_table(head, rows):
    """A Markdown table of texts."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)
