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


def lacks(change, wanted, *flags, said=""):
    """Copy a port that lacks nothing, change it, and expect these lines, and what the board said."""
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "new_board"
        shutil.copytree(MODEL, folder)
        change(folder)
        code, missing, text = port_check(folder, "--build", str(pathlib.Path(work) / "build"), *flags)
    if code == 77:
        return 77
    good = (code == 1 and len(missing) == len(wanted) and said in text and
            all(w in m for w, m in zip(wanted, missing)))
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


def here(folder):
    """The copy is the machine, in QEMU as before."""
    edit("toolchain.cmake", "set(UWASA_MACHINE mps2_an500)",
         f"set(UWASA_MACHINE {folder})")(folder)
    edit("toolchain.cmake", "${CMAKE_CURRENT_LIST_DIR}/..", str(SOURCE / "boards"))(folder)


def forgetful(folder):
    """It never knows that it was reset; nor may it be reset for ever."""
    here(folder)
    edit("machine.c", ".reset_cause = uw_mps_reset_cause", ".reset_cause = power")(folder)
    edit("machine.c", "const struct uw_machine uw", "static enum uw_reset_cause power(void)\n{\n"
         "    return UW_RESET_POWER;\n}\n\nconst struct uw_machine uw")(folder)


def crashing(folder):
    """A fault in a driver resets the board; that is no reset that was asked for."""
    here(folder)
    edit("machine.c", ".wait = uw_mps_wait", ".wait = fault")(folder)
    edit("machine.c", "const struct uw_machine uw", "static void fault(void)\n{\n"
         "    __builtin_trap();\n}\n\nconst struct uw_machine uw")(folder)


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
        lacks(forgetful, ["WRONG"], said="does not say UW_RESET_SOFTWARE"),
        lacks(crashing, ["WRONG"], said="checks         end in a reset"),
    ]
    return 77 if 77 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
