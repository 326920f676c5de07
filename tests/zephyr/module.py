#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""module.py PART SOURCE WORK [...] - what can be said of the Zephyr module without Zephyr

    files    zephyr/module.yml and the sample's sample.yaml name what is there
    kconfig  boards/zephyr/Kconfig and the sample's parse, and the sample's settings take effect
             (kconfiglib; exits 77 without it)
    cmake    the module configures inside a stand-in for Zephyr's build, its libraries have the
             sources that a host has, and what only the module has compiles
             (more arguments: HOST, the host's lists; NANOPB, the folder of pb.h)
    build    where ZEPHYR_BASE is set, the sample builds for a simulated board and mps2_an385 and
             runs on the first; exits 77 without ZEPHYR_BASE

WORK is a folder of its own. Exits 1 when something is wrong."""
import os
import re
import shutil
import subprocess
import sys

SAMPLE = "apps/firmware/zephyr_gossip_node"
SKIPPED = 77

# What the module and the sample use of Zephyr's own Kconfig.
ZEPHYR_BOOL = """NETWORKING NET_IPV4 NET_IPV6 NET_UDP NET_TCP NET_SOCKETS NET_CONFIG_SETTINGS
    NET_QEMU_USER ENTROPY_GENERATOR NET_NAMESPACE_COMPAT_MODE NET_L2_ETHERNET NET_DRIVERS
    NET_SOCKETS_OFFLOAD NET_NATIVE_OFFLOADED_SOCKETS NANOPB ZEPHYR_NANOPB_MODULE MBEDTLS
    CSPRNG_ENABLED FLASH_MAP FLASH_PAGE_LAYOUT TEST_RANDOM_GENERATOR PRINTK ARCH_POSIX""".split()
ZEPHYR_INT = """NET_PKT_RX_COUNT NET_PKT_TX_COUNT NET_BUF_RX_COUNT NET_BUF_TX_COUNT
    MAIN_STACK_SIZE MAIN_THREAD_PRIORITY HEAP_MEM_POOL_SIZE""".split()
ZEPHYR_ADDRESS = """
if NET_CONFIG_SETTINGS
config NET_CONFIG_NEED_IPV4
	bool "NET_CONFIG_NEED_IPV4"
config NET_CONFIG_MY_IPV4_ADDR
	string "NET_CONFIG_MY_IPV4_ADDR"
config NET_CONFIG_MY_IPV4_GW
	string "NET_CONFIG_MY_IPV4_GW"
endif
"""

wrong = []


def check(right, what):
    if not right:
        wrong.append(what)
        print("wrong: " + what)


def files(source):
    import yaml

    def load(path):
        with open(os.path.join(source, path), encoding="utf-8") as f:
            return yaml.safe_load(f)

    def is_there(*path):
        return os.path.exists(os.path.join(source, *path))

    module = load("zephyr/module.yml")
    check(set(module) == {"name", "build", "samples"}, "module.yml: keys")
    check(re.fullmatch(r"[a-z][a-z0-9_]*", module["name"]), "module.yml: name")
    check(set(module["build"]) == {"cmake", "kconfig"}, "module.yml: build")
    check(is_there(module["build"]["cmake"], "CMakeLists.txt"), "module.yml: cmake")
    check(is_there(module["build"]["kconfig"]), "module.yml: kconfig")
    for folder in module["samples"]:
        check(SAMPLE.startswith(folder + "/"), f"module.yml: samples {folder}")
    sample = load(SAMPLE + "/sample.yaml")
    check(set(sample) == {"sample", "common", "tests"}, "sample.yaml: keys")
    for name, test in sample["tests"].items():
        check(test["platform_allow"], f"sample.yaml: {name} has no platform")
        check(test.get("build_only") or test.get("harness"), f"sample.yaml: {name} does nothing")
    for name in ("prj.conf", "CMakeLists.txt", "Kconfig", "src/main.c"):
        check(is_there(SAMPLE, name), f"the sample has no {name}")
    with open(os.path.join(source, SAMPLE, "CMakeLists.txt"), encoding="utf-8") as f:
        for path in re.findall(r"^  (\S+\.c)$", f.read(), re.M):
            check(is_there(SAMPLE, path), f"the sample lists {path}")


def symbols_used(source):
    """CONFIG_UWASA_* in the module, the sample and what they include."""
    used = set()
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "boards/zephyr", SAMPLE,
                            "net", "runtime", "kernels"], cwd=source, capture_output=True,
                           text=True, check=True).stdout.splitlines()
    for name in names:
        if name.endswith((".c", ".h", ".conf", "CMakeLists.txt", ".yaml")):
            with open(os.path.join(source, name), encoding="utf-8") as f:
                used |= set(re.findall(r"CONFIG_(UWASA\w*)", f.read()))
    return used


def kconfig(source, work):
    try:
        import kconfiglib
    except ImportError:
        sys.path.append("/usr/lib/python3/dist-packages")   # Debian's, for another Python
        try:
            import kconfiglib
        except ImportError:
            print("skipped: no kconfiglib (Debian package python3-kconfiglib)")
            return SKIPPED
    lines = [f'config {name}\n\tbool "{name}"\n' for name in ZEPHYR_BOOL]
    lines += [f'config {name}\n\tint "{name}"\n' for name in ZEPHYR_INT]
    lines.append(ZEPHYR_ADDRESS)
    lines.append(f'source "{source}/boards/zephyr/Kconfig"\n')
    with open(os.path.join(work, "Kconfig.zephyr"), "w", encoding="utf-8") as f:
        f.write("".join(lines))
    os.environ["srctree"] = work

    def load(*texts):
        k = kconfiglib.Kconfig(os.path.join(source, SAMPLE, "Kconfig"), warn_to_stderr=False)
        for i, text in enumerate(texts):
            path = os.path.join(work, f"{i}.conf")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            k.load_config(path, replace=i == 0)
        for warning in k.warnings:
            check("set more than once" in warning, warning.strip())
        for name, symbol in k.syms.items():
            if symbol.user_value is not None:
                asked = symbol.user_value
                asked = {0: "n", 2: "y"}.get(asked, asked)
                check(symbol.str_value == asked, f"{name}={asked} does not take effect")
        return k

    def conf(name):
        with open(os.path.join(source, SAMPLE, name), encoding="utf-8") as f:
            return f.read()

    def value(k, name):
        return k.syms[name].str_value

    board = "CONFIG_ZEPHYR_NANOPB_MODULE=y\n"
    k = load(board + conf("prj.conf"))
    for name in ("UWASA", "UWASA_NET", "UWASA_LINK_ZSOCK", "NANOPB", "NET_NAMESPACE_COMPAT_MODE"):
        check(value(k, name) == "y", f"prj.conf leaves {name} off")
    check(value(k, "UWASA_SECURE") == "n", "DTLS without Mbed TLS")
    check(value(k, "UWASA_NODE_REST_MS") == "0", "a pause on a real board")
    for name in symbols_used(source):
        check(name in k.syms and k.syms[name].nodes, f"CONFIG_{name} is used and not in Kconfig")
    for name in ("boards/mps2_an385.conf", "nsos.conf"):
        load(board + conf("prj.conf"), conf(name))
    k = load(board + "CONFIG_ARCH_POSIX=y\nCONFIG_MBEDTLS=y\nCONFIG_CSPRNG_ENABLED=y\n"
             "CONFIG_FLASH_MAP=y\nCONFIG_FLASH_PAGE_LAYOUT=y\nCONFIG_UWASA_SECURE=y\n"
             + conf("prj.conf"))
    check(value(k, "UWASA_SECURE") == "y", "DTLS cannot be asked for")
    check(value(k, "UWASA_ENTROPY") == "y" and value(k, "UWASA_FLASH") == "y", "defaults")
    check(value(k, "UWASA_NODE_REST_MS") == "1", "no pause on a simulated board")
    k = load("CONFIG_UWASA=y\nCONFIG_NET_SOCKETS=y\n")
    check(value(k, "UWASA_NET") == "n" and value(k, "UWASA_LINK_ZSOCK") == "n", "no nanopb")
    return 0


def sources_of(path, source):
    """Library -> its own files, relative to the tree; what a build generates is left out."""
    lists = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            library, name = line.split()
            check(name.endswith(".pb.c") or name.endswith(".pb.h") or os.path.exists(name),
                  f"{library} lists {name}, which is not there")
            relative = os.path.relpath(name, source)
            if not relative.startswith("..") and ".pb." not in relative:
                lists.setdefault(library, set()).add(relative)
    return lists


def configure(source, work, nanopb, name, *options):
    folder = os.path.join(work, name)
    shutil.rmtree(folder, ignore_errors=True)
    run = subprocess.run(
        ["cmake", "-S", os.path.join(source, "tests/zephyr/stand_in"), "-B", folder, "-G", "Ninja",
         f"-DMODULE={source}", f"-DZEPHYR_NANOPB_MODULE_DIR={nanopb}", "-DCMAKE_SYSTEM_NAME=Generic",
         "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", "-DCONFIG_UWASA=y", "-DCONFIG_UWASA_ALL_PARTS=y", *options],
        capture_output=True, text=True, check=False)
    check(run.returncode == 0, f"{name} does not configure:\n{run.stdout}{run.stderr}")
    return folder, sources_of(os.path.join(folder, "sources.txt"), source) \
        if run.returncode == 0 else {}


def cmake(source, work, host_list, nanopb):
    host = sources_of(host_list, source)
    everything = [f"-DCONFIG_UWASA_{part}=y" for part in ("NET", "LINK_ZSOCK", "SECURE", "ENTROPY",
                                                          "FLASH")]
    folder, lists = configure(source, work, nanopb, "all", *everything)
    if wrong:
        return 1
    plain = {name.replace("cpu_x86", "cpu_any") for name in host["uwasa_net"]}
    check(lists["uwasa_runtime"] == host["uwasa_runtime"], "runtime: not the host's sources")
    check({n for n in lists["uwasa_net"] if "x86" not in n} == plain, "net: not the host's sources")
    plain = host["uwasa_net_secure"] - {
        "net/secure/revoked.c", "net/secure/secure_mbedtls_devices.c",
        "net/secure/secure_mbedtls_issue.c", "net/secure/secure_mbedtls_keys.c",
        "net/secure/secure_mbedtls_stream.c"}
    check(lists["uwasa_net_secure"] == plain, "net_secure: not the host's sources")
    check(lists["uwasa_net_zsock"] == {"net/link/link_zsock.c", "net/link/ip_errno.c"}, "net_zsock")
    port = {"boards/zephyr/" + n for n in ("clock_zephyr.c", "entropy_zephyr.c", "flash_zephyr.c")}
    check(lists["uwasa_board"] == port, "board: not all of boards/zephyr")
    check({n for n in host["uwasa_kernels"] if "/ref/" in n} <= lists["uwasa_kernels"],
          "kernels: no reference kernels")
    run = subprocess.run(["cmake", "--build", folder, "--target", "uwasa_board", "uwasa_net_zsock"],
                         capture_output=True, text=True, check=False)
    check(run.returncode == 0, "the port does not compile:\n" + run.stdout + run.stderr)

    _, small = configure(source, work, nanopb, "runtime_only", "-DCONFIG_UWASA_ALL_PARTS=n")
    check(set(small) == {"uwasa_runtime", "uwasa_kernels", "uwasa_board"}, "parts that are off")
    check(small.get("uwasa_board") == {"boards/zephyr/clock_zephyr.c"}, "board without entropy and flash")
    check("kernels/backends_ref.c" in small["uwasa_kernels"], "kernels without an FPU")
    check(small["uwasa_runtime"] == host["uwasa_runtime"] - {"runtime/layers/parts.c"},
          "runtime: another choice of parts is left to the program")
    for cpu, file in (("CPU_CORTEX_M7", "backends_fpu"), ("CPU_CORTEX_M4", "backends_fpu")):
        _, fpu = configure(source, work, nanopb, cpu, f"-DCONFIG_{cpu}=y", "-DCONFIG_FPU=y")
        check(f"kernels/packed/{file}.c" in fpu["uwasa_kernels"], f"{cpu}: not its kernels")
    return 0


def build(source, work):
    base = os.environ.get("ZEPHYR_BASE")
    if not base:
        print("skipped: ZEPHYR_BASE is not set")
        return SKIPPED
    modern = os.path.isdir(os.path.join(base, "boards/native/native_sim"))
    boards = ["native_sim/native/64" if modern else "native_posix_64",
              "mps2/an385" if os.path.isdir(os.path.join(base, "boards/arm/mps2"))
              else "mps2_an385"]
    modules = os.environ.get("ZEPHYR_MODULES", "")
    for board in boards:
        simulated = board.startswith("native")
        folder = os.path.join(work, "zephyr_" + board.replace("/", "_"))
        options = [f"-DBOARD={board}"]
        if shutil.which("west") and not modules:
            options.append(f"-DEXTRA_ZEPHYR_MODULES={source}")
        else:       # nanopb and, for Arm, CMSIS must be among them
            options.append(f"-DZEPHYR_MODULES={modules};{source}")
        if simulated and modern:
            options += ["-DEXTRA_CONF_FILE=nsos.conf",
                        '-DCONFIG_UWASA_NODE_SETTINGS="name=a run=t steps=300 consensus_rounds=0"']
        env = dict(os.environ)
        if "ZEPHYR_TOOLCHAIN_VARIANT" not in env and "ZEPHYR_SDK_INSTALL_DIR" not in env:
            env["ZEPHYR_TOOLCHAIN_VARIANT"] = "host" if simulated else "cross-compile"
            gcc = shutil.which("arm-none-eabi-gcc") or "arm-none-eabi-gcc"
            env["CROSS_COMPILE"] = "" if simulated else gcc[:-len("gcc")]
        for command in (["cmake", "-G", "Ninja", "-S", os.path.join(source, SAMPLE), "-B", folder,
                         *options], ["cmake", "--build", folder]):
            run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            check(run.returncode == 0, f"{board}: {' '.join(command)}\n{run.stdout[-4000:]}"
                                       f"{run.stderr[-4000:]}")
            if run.returncode != 0:
                return 1
        program = os.path.join(folder, "zephyr/zephyr.exe")
        if simulated and modern and not wrong:
            try:
                run = subprocess.run([program], capture_output=True, text=True, timeout=60,
                                     check=False).stdout
            except subprocess.TimeoutExpired as e:
                run = (e.stdout or b"").decode()
            check("done after 300 steps" in run, f"{board}: it does not train:\n{run}")
    return 0


def main():
    part, source, work = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3]
    os.makedirs(work, exist_ok=True)
    run = {"files": lambda: files(source) or 0, "kconfig": lambda: kconfig(source, work),
           "cmake": lambda: cmake(source, work, *sys.argv[4:]),
           "build": lambda: build(source, work)}[part]
    status = run()
    if wrong:
        return 1
    if status == 0:
        print(f"{part}: nothing wrong")
    return status


if __name__ == "__main__":
    sys.exit(main())
