#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header is a C header and a C++ header, here and on Cortex-M.

usage: test_headers.py ROOT CC CXX

For each header a file that includes nothing else takes the address of every function and object that
the header declares, and the size and alignment of every type. It is compiled as C11 and as
C++17; both object files must name the same symbols with the same sizes, so that a C++ program links
with the library and shares its structs. Exits 77 when a compiler is missing, after the others."""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
FUNCTION = re.compile(r"^(?!static|typedef|extern|return)[a-z][\w\s*]*?\b(uw_\w+)\s*\(", re.M)
OBJECT = re.compile(r"^extern [\w\s*]*?\b(uw_\w+)(?:\[\w*\])?;", re.M)
TYPE = re.compile(r"^((?:struct|enum) uw_\w+) \{|^typedef [\w ]+ (uw_\w+);", re.M)


def public_headers(root):
    """[(folder to include from, "uwasa/x.h")]"""
    found = []
    for top in "runtime", "kernels", "net", "boards", "apps", "tools":
        for at, _, files in os.walk(os.path.join(root, top)):
            folder, name = os.path.split(at)
            if name == "uwasa" and os.path.basename(folder) == "include":
                found += [(folder, f"uwasa/{file}") for file in files if file.endswith(".h")]
    return sorted(found)


def program_of(folder, header):
    with open(os.path.join(folder, header), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    lines = [f'#include "{header}"']
    for name in sorted(set(FUNCTION.findall(text))):
        lines.append(f"void (*address_of_{name})(void) = (void (*)(void)){name};")
    for name in sorted(set(OBJECT.findall(text))):
        lines.append(f"const volatile void *address_of_{name} = &{name};")
    for kind in sorted({tag or alias for tag, alias in TYPE.findall(text)}):
        name = kind.split()[-1]
        lines.append(f"char size_of_{name}[sizeof({kind})] = {{1}};")
        lines.append(f"struct before_{name} {{ char c; {kind} member; }};")
        lines.append(f"char place_of_{name}[sizeof(struct before_{name})] = {{1}};")
    lines.append("int last = 0;")
    return "\n".join(lines) + "\n"


def symbols(command, nm, includes, text, at):
    """What nm says of text, compiled; raises RuntimeError with what the compiler said."""
    source, made = at, at + ".o"
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    done = subprocess.run([*command, *WARNINGS, *includes, "-c", source, "-o", made],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    listed = subprocess.run([nm, "-S", made], capture_output=True, text=True, check=True).stdout
    rows = (line.rsplit(None, 3) for line in listed.splitlines())
    return sorted((row[-1], row[-2], row[-3] if len(row) > 3 else "") for row in rows)


def check(header, includes, compilers, work):
    """Sentences on what is wrong with one header."""
    text, wrong = program_of(*header), []
    name = header[1].replace("/", "_")
    for kind, (c, cxx, nm) in compilers.items():
        at = os.path.join(work, f"{kind}_{name}")
        try:
            in_c = symbols([c, "-std=c11"], nm, includes, text, at + ".c")
            in_cxx = symbols([cxx, "-std=c++17"], nm, includes, text, at + ".cpp")
        except RuntimeError as e:
            wrong.append(f"{header[1]} does not compile with {e}")
            continue
        if in_c != in_cxx:
            wrong.append(f"{header[1]}, {kind}: C has {sorted(set(in_c) - set(in_cxx))}, "
                         f"C++ {sorted(set(in_cxx) - set(in_c))}")
    return wrong


def main():
    root, cc, cxx = sys.argv[1:4]
    compilers = {"here": (cc, cxx, "nm"),
                 "cortex_m": ("arm-none-eabi-gcc", "arm-none-eabi-g++", "arm-none-eabi-nm")}
    missing = sorted({tool for tools in compilers.values() for tool in tools
                      if shutil.which(tool) is None})
    compilers = {kind: tools for kind, tools in compilers.items()
                 if not set(tools) & set(missing)}
    headers = public_headers(root)
    includes = [f"-I{folder}" for folder in sorted({folder for folder, _ in headers})]
    with tempfile.TemporaryDirectory() as work, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [sentence for sentences in pool.map(
            lambda header: check(header, includes, compilers, work), headers)
            for sentence in sentences]
    print("\n".join(wrong))
    print(f"{len(headers)} headers as C11 and C++17, {', '.join(compilers)}: {len(wrong)} wrong")
    if wrong or not headers:
        return 1
    if missing:
        print(f"skipped: there is no {', '.join(missing)}; tools/setup test installs it")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
