# SPDX-License-Identifier: Apache-2.0
"""What the experiments with modelled steps share: uwasa sim time, run and read."""
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "build", "release", "uwasa")


# Okabe and Ito's, which colour-blind readers tell apart
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


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


def draw(prefix, title, up, curves, points=(), settings=()):
    """Write prefix.png and prefix.svg through gnuplot: curves over numbers of nodes.

    curves    [(label, dashed, [(nodes, value), ...]), ...]; the solid ones first, then dashed ones
              in the same colours
    points    [(label, nodes, value), ...] that a paper prints
    settings  further lines for gnuplot"""
    if shutil.which("gnuplot") is None:
        sys.exit("--draw: needs gnuplot, Debian's gnuplot-nox")
    solid = sum(not dashed for _, dashed, _ in curves)
    parts, data = [], []
    for i, (label, dashed, values) in enumerate(curves):
        parts.append(f"'-' with linespoints linewidth 2 pointsize 0.7 pointtype {4 + i % solid} "
                     f"dashtype {2 if dashed else 1} linecolor rgb '{COLOURS[i % solid]}' "
                     f"title '{label}'")
        data += [f"{x} {y}" for x, y in values] + ["e"]
    for text, x, y in points:
        parts.append("'-' using 1:2:3 with labels left point pointtype 7 offset 0.5,-0.7 notitle")
        data += [f"{x} {y} {text}", "e"]
    for terminal in ("png", "svg"):
        name = {"png": "pngcairo size 900,600", "svg": "svg size 900,600 background 'white'"}
        script = [f"set terminal {name[terminal]}", f"set output '{prefix}.{terminal}'",
                  f"set title '{title}'", "set key left top", "set grid", "set logscale x 2",
                  "set xlabel 'nodes'", f"set ylabel '{up}'", *settings,
                  "plot " + ", ".join(parts), *data]
        subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)
