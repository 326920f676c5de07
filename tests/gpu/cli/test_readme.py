# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md for an NVIDIA GPU, on the emulated one. test_readme.py PROGRAM README

Each line of the first block below its heading that starts build/release/uwasa is run as it stands, in
an empty folder, one after the other; what would take long is made short by flags behind it. Builds
and tools/gpu_check, which has a test of its own, are left out."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

PROGRAM, README = (os.path.abspath(path) for path in sys.argv[1:])
HEADING, START = "\n## On an NVIDIA GPU\n", "build/release/uwasa "
FEW = ["--data", "csv:few.csv"]
SHORTER = {"train": ["--steps", "2", *FEW], "eval": FEW,
           "bench": ["--windows", "1", "--seconds", "0.001"]}
# What each must say: the GPU trains, and not the processor in its place.
SAYS = {"--version": "CUDA ", "plan": "on the GPU ", "train": "device ", "eval": "Emulated GPU",
        "bench": "lenet5:1"}


def block():
    with open(README, encoding="utf-8") as f:
        return f.read().split(HEADING)[1].split("\n```\n")[1].splitlines()


def write_few(path):
    """96 images of 28 x 28 and ten kinds; a sixth is for testing."""
    with open(path, "w", encoding="utf-8") as f:
        for i in range(96):
            row = [((k * (i % 10 + 1) + i) % 29) / 29 for k in range(784)]
            f.write(",".join(f"{x:.3f}" for x in row) + f",{i % 10}\n")


def run(line, folder):
    words = shlex.split(line, comments=True)[1:]
    env = dict(os.environ, XDG_CACHE_HOME=folder)
    env.pop("UWASA_EMULATED_CUDA", None)
    done = subprocess.run([PROGRAM, *words, *SHORTER.get(words[0], [])], cwd=folder, env=env, timeout=100,
                          capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0 or SAYS[words[0]] not in said or "the processor computes" in said:
        sys.exit(f"{line}\n{done.returncode}\n{said}")
    return words[0]


def main():
    lines = [line for line in block() if line.startswith(START)]
    others = [line for line in block() if not re.match(rf"{START}|cmake |tools/", line)]
    with tempfile.TemporaryDirectory(prefix="uwasa-readme-") as folder:
        write_few(os.path.join(folder, "few.csv"))
        seen = {run(line, folder) for line in lines}
    if seen != set(SAYS) or others:
        sys.exit(f"README.md has {sorted(seen)} there, and {others}, not {sorted(SAYS)}")
    print(f"{len(lines)} commands")


if __name__ == "__main__":
    main()
