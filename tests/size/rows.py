#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rows.py [--state] BOARD=BUILD... - what the programs of boards take, beside what they may take

Reads the link maps in each BUILD folder (tools/link_map):

    training    runtime and kernels in tests/size/train_lenet5
    gossip      the same, and what gossip over UDP adds to it in apps/firmware/gossip_node: net, nanopb
    firmware    all of gossip_node without its models' definitions: code and constants, and data
    static RAM  variables and the stack

tests/size/stated.txt has what the last commit that changed it stated. More than 2 % above that is a
mistake: state it, with --state, in the same commit. Exits 1 then, 0 otherwise. Targets are printed,
misses too; they are for the Cortex-M7."""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATED = ROOT / "tests/size/stated.txt"
GROWTH = 1.02

TARGETS_OF = "cortex-m7"
TARGETS = {"training": 25000, "gossip": 50000, "firmware": 115000, "static RAM": 64000}


def libraries(path):
    """{library: [text, rodata, data, bss]} of a map, and the objects of the program itself."""
    found = {}
    for by in ("library", "object"):
        out = subprocess.run([ROOT / "tools/link_map", "--by", by, path], capture_output=True,
                             text=True, check=True).stdout
        for line in out.splitlines()[1:]:
            words = line.split()
            if words and words[0] != "total":
                found[" ".join(words[:-4])] = [int(w) for w in words[-4:]]
    return found


def flash(rows, *names):
    return sum(rows[name][0] + rows[name][1] for name in names if name in rows)


def measure(build):
    train = libraries(build / "tests/size/train_lenet5.map")
    node = libraries(build / "apps/firmware/gossip_node.elf.map")
    whole = {name: row for name, row in node.items() if " " not in name}
    training = flash(train, "uwasa_runtime", "uwasa_kernels")
    models = flash(node, "program board_models.c.obj")
    return {
        "training": training,
        "gossip": training + flash(node, "uwasa_net", "uwasa_source_nanopb"),
        "firmware": sum(sum(row[:3]) for row in whole.values()) - models,
        "static RAM": sum(row[2] + row[3] for row in whole.values()),
    }


def read_stated():
    stated = {}
    if STATED.exists():
        for line in STATED.read_text().splitlines():
            if line and not line.startswith("#"):
                board, rest = line.split(" ", 1)
                row, number = rest.rsplit(" ", 1)
                stated[board, row] = int(number)
    return stated


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", action="store_true", help="write tests/size/stated.txt")
    parser.add_argument("boards", nargs="+", metavar="BOARD=BUILD")
    args = parser.parse_args()
    stated, grown = read_stated(), []
    print(f"{'bytes, -Os':24} {'now':>8} {'stated':>8} {'target':>8}")
    for pair in args.boards:
        board, build = pair.split("=", 1)
        for row, number in measure(pathlib.Path(build)).items():
            before = stated.get((board, row))
            target = TARGETS[row] if board == TARGETS_OF else None
            note = "  missed" if target is not None and number > target else ""
            if before is not None and number > before * GROWTH:
                grown.append(f"{board}: {row} grew from {before} to {number} bytes")
                note += "  GREW"
            print(f"{board + ' ' + row:24} {number:8} {before if before else '-':>8} "
                  f"{target or '-':>8}{note}")
            stated[board, row] = number
    if args.state:
        lines = ["# board, row, bytes: what was stated last; tests/size/rows.py"]
        lines += [f"{board} {row} {number}" for (board, row), number in sorted(stated.items())]
        STATED.write_text("\n".join(lines) + "\n")
        return 0
    for sentence in grown:
        print(f"{sentence}: make it smaller, or state it: tools/size_report --boards --state")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
