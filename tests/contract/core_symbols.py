#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The core libraries need no heap and no operating system: every symbol they leave undefined is
one of theirs or one of the few C library functions listed here.

usage: core_symbols.py NM LIBRARY...
"""
import subprocess
import sys

C_LIBRARY = {
    "memcmp", "memcpy", "memmove", "memset",
    "strchr", "strcmp", "strcpy", "strlen", "strncmp",
    "snprintf", "vsnprintf",
    "sqrt", "sqrtf",
}
# nanopb is part of the core: plain C over buffers.
NANOPB = {"pb_encode", "pb_encode_tag", "pb_encode_submessage", "pb_decode", "pb_decode_ex",
          "pb_decode_tag", "pb_skip_field", "pb_ostream_from_buffer", "pb_istream_from_buffer"}
# What compilers call on their own: fortified variants, stack protection, sanitizers, FP helpers.
COMPILER = ("__stack_chk", "__asan", "__ubsan", "__tsan", "__lsan", "__aeabi", "__aarch64",
            "__sanitizer", "_GLOBAL_OFFSET_TABLE_")
# What tells the kernels which instructions the processor has.
PROCESSOR = {"__cpu_model", "__cpu_indicator_init", "getauxval"}
FORTIFIED = {"__" + name + "_chk" for name in C_LIBRARY}


def symbols(nm, library, *flags):
    out = subprocess.run([nm, *flags, library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in out.splitlines() if line.strip() and ":" not in line}


def main():
    nm, libraries = sys.argv[1], sys.argv[2:]
    own = set()
    for library in libraries:
        own |= symbols(nm, library, "--defined-only", "--extern-only")
    bad = 0
    for library in libraries:
        for name in sorted(symbols(nm, library, "--undefined-only")):
            if name in own | C_LIBRARY | NANOPB | FORTIFIED | PROCESSOR or name.startswith(COMPILER):
                continue
            print(f"{library}: needs {name}: the core may not")
            bad += 1
    print(f"{len(libraries)} libraries, {bad} forbidden symbols")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
