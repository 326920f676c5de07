#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rows.py [--state] BOARD=BUILD... - what the programs of boards take, beside what they may take

Reads the link maps in each BUILD folder (tools/link_map), and boots gossip_node in QEMU:

    training    runtime and kernels in tests/size/train_lenet5
    gossip      the same, and what gossip over UDP adds to it in apps/firmware/gossip_node: net, nanopb
    firmware    all of gossip_node without its models' definitions: code and constants, and data; as
                it runs, optimised as a whole (UWASA_LTO). In that, libraries cannot be told apart:
                the rows above are of the same objects linked without
    static RAM  what gossip_node takes beside the model, before the first step and until the last:
                what the linker places (stack, variables), and what it takes at its start for
                Ethernet, DTLS, peers and the window of a small board, 8 kB. Of a board that QEMU
                does not have, the second part is that of the board with the same core

tests/size/stated.txt has what the last commit that changed it stated. More than 2 % above that, or
a row that it does not have, is a mistake: state it, with --state, in the same commit. Exits 1 then,
0 otherwise. Targets are printed, misses too; they are for the Cortex-M7. Without QEMU the last row
is left out."""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/boards"))
from machines import MACHINE, VIRTUAL, symbols  # noqa: E402  pylint: disable=wrong-import-position

STATED = ROOT / "tests/size/stated.txt"
GROWTH = 1.02

TARGETS_OF = "cortex-m7"
TARGETS = {"training": 25000, "gossip": 50000, "firmware": 115000, "static RAM": 64000,
           "frames": 24000, "frames RAM": 6000}
SAME_CORE = {"stm32f746": "cortex-m7"}
BOOT = ["key=" + 32 * "5a", "model=mlp", "window=8192", "events=json", "steps=1", "exit=1"]
BOOT_SECONDS = 60


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


def placed(elf):
    """Bytes of RAM that the linker has placed: the stack, variables, gaps between them, and what is
    the Ethernet controller's alone."""
    at = symbols(elf)
    return at["uw_free_start"] - at["uw_stack_start"] + at.get("uw_shared_bytes", 0)


def taken(board, elf):
    """Bytes that the firmware takes at its start for the network, as it says itself."""
    option = "enable=on,target=native,arg=fw" + "".join(f",arg={word}" for word in BOOT)
    with subprocess.Popen(["timeout", str(BOOT_SECONDS), "qemu-system-arm", "-M", MACHINE[board],
                           "-display", "none", "-monitor", "none", "-serial", "stdio",
                           "-semihosting-config", option, "-nic", "user", *VIRTUAL,
                           "-kernel", elf], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as machine:
        said = []
        for line in machine.stdout:
            said.append(line)
            if '"event":"plan"' in line:
                machine.terminate()
                return json.loads(line)["network_bytes"]
    sys.exit(f"{board}: no plan: {' '.join(said)[-400:]}")


def frames_ram(board, elf):
    """Bytes that a node over frames says it takes."""
    out = subprocess.run(["timeout", str(BOOT_SECONDS), "qemu-system-arm", "-M", MACHINE[board],
                          "-display", "none", "-monitor", "none", "-serial", "null",
                          "-semihosting-config", "enable=on,target=native", "-kernel", elf],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    words = (out.stdout + out.stderr).split()
    return int(words[words.index("total") + 1])


def measure(build, taken_bytes):
    train = libraries(build / "tests/size/train_lenet5.map")
    node = libraries(build / "tests/size/gossip_node_apart.map")
    whole = libraries(build / "apps/firmware/gossip_node.elf.map")
    training = flash(train, "uwasa_runtime", "uwasa_kernels")
    models = flash(node, "program board_models.c.obj")
    rows = {
        "training": training,
        "gossip": training + flash(node, "uwasa_net", "uwasa_source_nanopb"),
        "firmware": sum(sum(row[:3]) for name, row in whole.items() if " " not in name) - models,
    }
    if taken_bytes is not None:
        rows["static RAM"] = placed(build / "apps/firmware/gossip_node.elf") + taken_bytes
    return rows


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
    builds = {board: pathlib.Path(build) for board, _, build in
              (pair.partition("=") for pair in args.boards)}
    network = {board: taken(board, build / "apps/firmware/gossip_node.elf")
               for board, build in builds.items()
               if board in MACHINE and shutil.which("qemu-system-arm")}
    stated, wrong = read_stated(), []
    print(f"{'bytes, -Os':24} {'now':>8} {'stated':>8} {'target':>8}")
    for board, build in builds.items():
        rows = measure(build, network.get(SAME_CORE.get(board, board)))
        if board == TARGETS_OF:
            node = libraries(build / "tests/size/frame_node.map")
            rows["frames"] = flash(node, "uwasa_net", "size_frames", "uwasa_source_nanopb")
            if board in network:
                rows["frames RAM"] = frames_ram(board, build / "tests/size/frame_node")
        for row, number in rows.items():
            before = stated.get((board, row))
            target = TARGETS[row] if board == TARGETS_OF else None
            note = "  missed" if target is not None and number > target else ""
            if before is None:
                wrong.append(f"{board}: {row}, {number} bytes, is not stated")
            elif number > before * GROWTH:
                wrong.append(f"{board}: {row} grew from {before} to {number} bytes")
                note += "  GREW"
            print(f"{board + ' ' + row:24} {number:8} {before if before else '-':>8} "
                  f"{target or '-':>8}{note}")
            stated[board, row] = number
    if args.state:
        lines = ["# board, row, bytes: what was stated last; tests/size/rows.py"]
        lines += [f"{board} {row} {number}" for (board, row), number in sorted(stated.items())]
        STATED.write_text("\n".join(lines) + "\n")
        return 0
    for sentence in wrong:
        print(f"{sentence}: make it smaller, or state it: tools/size_report --boards --state")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
