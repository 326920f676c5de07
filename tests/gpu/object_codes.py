#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""object_codes.py OBJECT PROCESSOR CODE... - an ELF object is for that processor, and the GPU code
in it is exactly these: sm_87 (machine code), compute_110 (to be compiled at run time), ..."""
import struct
import sys

PROCESSORS = {183: "AArch64", 62: "x86-64"}
FATBIN = struct.pack("<I", 0xba55ed50)


def codes(data):
    """An ELF object holds containers; each has a header and its codes one behind the other."""
    at = data.find(FATBIN)
    while at >= 0:
        header, size = struct.unpack_from("<HQ", data, at + 6)
        begin, end = at + header, at + header + size
        while begin < end:
            kind, _, head, body = struct.unpack_from("<HHIQ", data, begin)
            capability, = struct.unpack_from("<I", data, begin + 28)
            yield f"{ {1: 'compute', 2: 'sm'}.get(kind, kind)}_{capability}"
            begin += head + body
        at = data.find(FATBIN, end)


def main():
    path, *wanted = sys.argv[1:]
    with open(path, "rb") as f:
        data = f.read()
    machine, = struct.unpack_from("<H", data, 18)
    found = [PROCESSORS.get(machine, str(machine)), *sorted(codes(data))]
    if data[:4] != b"\x7fELF" or found != [wanted[0], *sorted(wanted[1:])]:
        sys.exit(f"{path}: {' '.join(found)}, not {' '.join(wanted)}")
    print(f"{path}: {' '.join(found)}")


main()
