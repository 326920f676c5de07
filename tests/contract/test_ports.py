#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_ports.py SOURCE BUILD [BOARD] - the contract of a port, by tools/port_check

With BOARD: that board lacks nothing. Without: of ports that lack something, port_check says what."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
MODEL = SOURCE / "boards/mps2_an500"


def port_check(folder, *flags):
    done = subprocess.run([SOURCE / "tools/port_check", folder, *flags], capture_output=True,
                          text=True, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith("missing ")]
    return done.returncode, said, done.stdout + done.stderr


def lacks(change, wanted, *flags):
    """Copy a port that lacks nothing, change it, and expect these lines."""
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "new_board"
        shutil.copytree(MODEL, folder)
        change(folder)
        code, said, text = port_check(folder, "--build", str(pathlib.Path(work) / "build"), *flags)
    if code == 77:
        return 77
    good = code == 1 and len(said) == len(wanted) and all(w in s for w, s in zip(wanted, said))
    print(("ok      " if good else "WRONG   ") + "; ".join(wanted))
    if not good:
        print(text)
    return 0 if good else 1


def edit(name, old, new):
    def change(folder):
        path = folder / name
        text = path.read_text()
        assert old in text, f"{name} has no {old}"
        path.write_text(text.replace(old, new))
    return change


def real_board(folder):
    """No emulator that would lend its randomness."""
    edit("toolchain.cmake", "set(machine mps2-an500)\n", "")(folder)
    edit("toolchain.cmake", "set(UWASA_MACHINE mps2_an500)",
         f"set(UWASA_MACHINE {folder})")(folder)
    edit("toolchain.cmake", "${CMAKE_CURRENT_LIST_DIR}/..", str(SOURCE / "boards"))(folder)


def main():
    if len(sys.argv) > 3:
        code, _, text = port_check(SOURCE / "boards" / sys.argv[3], "--build",
                                   str(BUILD / f"port_{sys.argv[3]}"))
        print(text)
        return code
    codes = [
        lacks(lambda folder: (folder / "machine.ld").unlink(), ["machine.ld"], "--dry"),
        lacks(lambda folder: (folder / "sources.cmake").unlink(), ["sources.cmake"], "--dry"),
        lacks(edit("machine.c", "    .reset = uw_mps_reset,\n", ""), ["machine.c: .reset"],
              "--dry"),
        lacks(edit("machine.c", "    .emulated = true,\n", ""), ["machine.c: .emulated"], "--dry"),
        lacks(edit("machine.ld", "DATA (rw)", "RAM (rw)"), ["memory DATA"], "--dry"),
        lacks(lambda folder: (folder / "machine.c").write_bytes(b"\x7fELF\xff"),
              ["machine.c: const struct uw_machine"], "--dry"),
        lacks(edit("toolchain.cmake", "set(cpu_flags", "set(flags"), ["cpu_flags"], "--dry"),
        lacks(real_board, ["uw_machine_entropy"]),
    ]
    return 77 if 77 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
