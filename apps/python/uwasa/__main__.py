# SPDX-License-Identifier: Apache-2.0
"""uwasa COMMAND: the program that came with the package."""

import os
import sys

from .program import PROGRAM


def main():
    os.execv(PROGRAM, ["uwasa", *sys.argv[1:]])


if __name__ == "__main__":
    main()
