#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_tree accepts a small good tree and names the file, line and rule of each bad one."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECKER = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "check_tree")
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"

GOOD = {
    "runtime/include/uwasa/core.h": SPDX + "#include <stdint.h>\n"
        "/* Do it. */\nint uw_core_do(int n);\nint uw_core_undo(int n);\n\n"
        "struct uw_core_ops {\n    /* One. */\n    int (*one)(int n);\n    int (*two)(int n,\n"
        "               int m);\n};\n",
    "runtime/core.c": SPDX + '#include "uwasa/core.h"\n#include "core_private.h"\n'
        "int uw_core_do(int n)\n{\n    return n;\n}\n",
    "runtime/core_private.h": SPDX,
    "runtime/layers/dense.c": SPDX + '#include "core_private.h"\n',
    "kernels/include/uwasa/backends.h": SPDX,
    "kernels/ref/gemm.c": SPDX + '#include "uwasa/core.h"\n#include "uwasa/backends.h"\n'
        "#include <string.h>\n",
    "kernels/x86/gemm_avx2.c": SPDX + "#include <immintrin.h>\n",
    "kernels/x86/tile.h": SPDX + '#include "ref/ref.h"\n',
    "kernels/ref/ref.h": SPDX,
    "net/include/uwasa/link.h": SPDX,
    "net/include/uwasa/channel.h": SPDX + '#include "uwasa/link.h"\n',
    "net/link/link.c": SPDX + '#include "uwasa/link.h"\n',
    "net/mix/mix.h": SPDX,
    "net/secure/channel.c": SPDX + '#include "channel.h"\n\n#include "mix/mix.h"\n',
    "net/secure/channel.h": SPDX + '#include "uwasa/link.h"\n',
    "net/node/node_state.h": SPDX + '#include "secure/channel.h"\n#include "uwasa/channel.h"\n',
    "tools/include/uwasa/run.h": SPDX,
    "net/link/link_udp.c": SPDX + '#include "uwasa/link.h"\n',
    "boards/linux/clock.c": SPDX + '#include "uwasa/link.h"\n#include <time.h>\n',
    "apps/cli/main.c": SPDX + '#include "uwasa/core.h"\n#include "args.h"\n#include <stdio.h>\n'
        '/* malloc(3) and exit(3) in a comment, "free(x)" in a string: fine */\n',
    "apps/cli/args.h": SPDX,
    "tests/unit/test_core.c": SPDX + '#include "core_private.h"\n#include <stdlib.h>\n',
    "CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nproject(x)\n",
    "README.md": "never -ffast-math\n",
}

PROTOTYPE = SPDX + "#include <stdint.h>\n\nint uw_core_do(int n);\n"

# What is changed in the good tree, and the finding that must follow: file, line, rule.
BAD = [
    ("runtime/core.c", SPDX + '#include "uwasa/link.h"\n', 2, "includes"),
    ("kernels/ref/gemm.c", SPDX + '#include "uwasa/link.h"\n', 2, "includes"),
    ("net/link/link_udp.c", SPDX + '#include "uwasa/backends.h"\n', 2, "includes"),
    ("boards/linux/clock.c", SPDX + '#include "../../apps/cli/args.h"\n', 2, "includes"),
    ("net/link/link_udp.c", SPDX + '#include "core_private.h"\n', 2, "includes"),
    ("net/link/link_udp.c", SPDX + '#include "../../runtime/core_private.h"\n', 2, "includes"),
    ("net/link/link_udp.c", SPDX + '#include "secure/channel.h"\n', 2, "order"),
    ("net/link/link_udp.c", SPDX + '#include "mix/mix.h"\n', 2, "order"),
    ("net/secure/channel.h", SPDX + '#include "node/node_state.h"\n', 2, "order"),
    ("net/wire/message.h", SPDX + '#include "uwasa/channel.h"\n', 2, "order"),
    ("net/nowhere/room.c", SPDX + '#include "mix/mix.h"\n', 2, "order"),
    ("kernels/ref/gemm.c", SPDX + '#include "x86/tile.h"\n', 2, "order"),
    ("apps/cli/args.h", SPDX + '#include "uwasa/run.h"\n', 2, "includes"),
    ("apps/data/idx.c", SPDX + '#include "args.h"\n', 2, "includes"),
    ("net/link/link_udp.c", SPDX + '#include "uwasa/nowhere.h"\n', 2, "includes"),
    ("net/include/uwasa/link.h", SPDX + '#include "private.h"\n', 2, "includes"),
    ("runtime/core.c", SPDX + "#include <unistd.h>\n", 2, "platform"),
    ("runtime/core.c", SPDX + "#include <stdlib.h>\n", 2, "platform"),
    ("net/gossip/gossip.c", SPDX + "\n#include <sys/socket.h>\n", 3, "platform"),
    ("net/gossip/gossip.c", SPDX + "#include <lwip/udp.h>\n", 2, "platform"),
    ("kernels/ref/gemm.c", SPDX + "#include <cudnn.h>\n", 2, "platform"),
    ("kernels/ref/gemm.c", SPDX + "#include <immintrin.h>\n", 2, "platform"),
    ("net/gossip/gossip.c", SPDX + "int f(void)\n{\n    return g(malloc(3));\n}\n", 4, "heap"),
    ("apps/cli/main.c", SPDX + "void f(void *p)\n{\n    free(p);\n}\n", 4, "heap"),
    ("boards/linux/clock.c", SPDX + "void f(void)\n{\n    exit(1);\n}\n", 4, "quiet"),
    ("net/gossip/gossip.c", SPDX + 'void f(void)\n{\n    fprintf(stderr, "x");\n}\n', 4, "quiet"),
    ("runtime/include/uwasa/core.h", PROTOTYPE, 4, "contract"),
    ("runtime/include/uwasa/core.h", SPDX + "/* A. */\nint uw_a(int n);\n\nint uw_b(int n,\n"
     "         int m);\n", 5, "contract"),
    ("runtime/include/uwasa/core.h", SPDX + "\nstruct uw_ops {\n    int (*one)(int n);\n};\n", 4,
     "contract"),
    ("runtime/include/uwasa/core.h", SPDX + "\n" * 300, 301, "size"),
    ("runtime/core.c", SPDX + "\n" * 800, 801, "size"),
    ("runtime/core_inner.h", SPDX, 1, "size"),
    ("runtime/core.c", SPDX + "/* " + "x" * 95 + " */\n", 2, "size"),
    ("runtime/core.c", SPDX + "int f(void)\n{\n" + "    g();\n" * 58 + "}\n", 2, "size"),
    ("runtime/CMakeLists.txt", "# SPDX-License-Identifier: Apache-2.0\nfile(GLOB x *.c)\n", 2,
     "build"),
    ("runtime/CMakeLists.txt", "# SPDX-License-Identifier: Apache-2.0\n"
     "target_compile_options(x PRIVATE -ffast-math)\n", 2, "build"),
    ("runtime/CMakeLists.txt", "# SPDX-License-Identifier: Apache-2.0\n"
     "add_library(x ${CMAKE_SOURCE_DIR}/x.c)\n", 2, "build"),
    ("docs.md", "see /home/" + "someone/uwasa\n", 1, "paths"),
    ("runtime/core.c", "int x;\n", 1, "license"),
    ("tools/run", "#!/bin/sh\necho\n", 1, "license"),
    ("runtime/core.c", SPDX + "#if 0\n#endif\n", 2, "dead"),
]


def write(root, tree):
    for path, text in tree.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)


def run(tree):
    with tempfile.TemporaryDirectory() as root:
        write(root, tree)
        done = subprocess.run([sys.executable, CHECKER, "--root", root], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class CheckTree(unittest.TestCase):
    def test_check_tree_good_tree_passes(self):
        status, out = run(GOOD)
        self.assertEqual((status, out), (0, "check_tree: 0 findings\n"))

    def test_check_tree_each_bad_file_is_named_with_its_rule(self):
        for path, text, line, rule in BAD:
            with self.subTest(path=path, rule=rule, text=text[len(SPDX):][:40]):
                status, out = run({**GOOD, path: text})
                self.assertEqual(status, 1, out)
                self.assertIn(f"{path}:{line}: {rule}: ", out)
                self.assertIn("check_tree: 1 finding\n", out)

    def test_check_tree_second_file_with_mbedtls_is_found(self):
        user = SPDX + "#include <mbedtls/ssl.h>\n"
        status, out = run({**GOOD, "net/secure/secure_dtls.c": user})
        self.assertEqual(status, 0, out)
        status, out = run({**GOOD, "net/secure/secure_dtls.c": user, "net/zz.c": user})
        self.assertEqual(status, 1, out)
        self.assertIn("net/zz.c:2: platform: ", out)

    def test_check_tree_exception_covers_its_file_rule_and_function_only(self):
        heap = SPDX + "void f(void *p)\n{\n    free(p);\n}\n"
        allow = "heap apps/cli/main.c reads files of any size\n"
        tree = {**GOOD, "apps/cli/main.c": heap, "tools/check_tree.allow": allow}
        self.assertEqual(run(tree)[0], 0)
        status, out = run({**tree, "apps/cli/other.c": heap})
        self.assertEqual(status, 1)
        self.assertNotIn("main.c", out)
        self.assertIn("apps/cli/other.c:4: heap", out)

    def test_check_tree_exception_without_reason_or_file_is_refused(self):
        for allow in ("heap apps/cli/main.c\n", "heap apps/cli/gone.c reads files\n"):
            status, out = run({**GOOD, "tools/check_tree.allow": allow})
            self.assertEqual(status, 1, out)
            self.assertIn("tools/check_tree.allow:1: allow: ", out)


if __name__ == "__main__":
    unittest.main()
