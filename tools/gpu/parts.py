# SPDX-License-Identifier: Apache-2.0
"""parts - the parts of gpu_check, one function each

Each gets the Check, adds rows to its table and continues after a failure.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import torch_models     # noqa: E402

from . import beside, bounded, traffic      # noqa: E402

ERROR_STATUS = "86"         # of compute-sanitizer, if it found an error
NOT_HERE = 77               # of a skipped test
LOGS_OF_SANITIZER = re.compile(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard")

# Compiled suites, by ctest's names: the first part that matches has it.
SUITES = {"contract": r"gpu/contract_", "parity": r"gpu/parity_", "gradient": r"gpu/gradient",
          "training": r"gpu/"}

STEPS = ("lenet5:16", "mlp:8", "resnet20:8", "mobilenetv2:4", "vgg16-bn:8", "gru:8")
STEPS_EMULATED = ("mlp:2", "lenet5:1")
SANITIZED_STEPS = {"mlp:4": ("memcheck", "initcheck"), "lenet5:2": ("memcheck",),
                   "resnet20:2": ("memcheck",), "gru:2": ("memcheck", "initcheck")}
SANITIZED = {"memcheck": None,      # all suites of the contract, and recurrence
             "racecheck": ("pointwise", "norm", "activation", "training", "recurrence"),
             "synccheck": ("pointwise", "norm", "activation", "sequence", "training",
                           "recurrence"),
             "initcheck": ("pointwise", "norm", "activation", "training")}


# Shares of the time that --minutes gives; default 1.
WEIGHTS = {"build": 4, "contract": 4, "parity": 2, "bench": 5, "sanitizer": 4, "training_full": 60}


def missing(check):
    """What is not installed, a line each."""
    lines = [f"no {name}: install {package}" for name, found, package in (
        ("cmake", check.find("cmake"), "the package cmake"),
        ("ctest", check.find("ctest"), "the package cmake"),
        ("ninja or make", check.find("ninja") or check.find("make"), "ninja-build or make"),
        ("C compiler", os.environ.get("CC") or check.find("cc"), "gcc"),
        ("C++ compiler", os.environ.get("CXX") or check.find("c++"), "g++")) if not found]
    return lines + ([] if check.emulated else check.libraries.missing())


def build(check):
    lines = missing(check)
    for line in lines:
        check.table.add("build", "installed", "FAILED", line)
    if lines:
        return
    cuda = "emulated" if check.emulated else "ON"
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DUWASA_NET=OFF", f"-DUWASA_CUDA={cuda}",
               "-DCMAKE_REQUIRE_FIND_PACKAGE_Cmocka=ON"]
    if not check.emulated:
        options += [f"-DUWASA_CUDA_ARCHITECTURES={check.card.capability or 'native'}"]
    for name, folder in (("CUDNN", check.libraries.cudnn_include),
                         ("CUBLAS", check.libraries.cublas_include)):
        options += [f"-DUWASA_{name}_INCLUDE_DIR={folder}"] if folder else []
    ninja = bounded.run(["ninja", "--version"], 20, check.log("ninja"), check.env).good
    generator = ["-G", "Ninja"] if ninja else []
    outcome = check.run("build", "configure", ["cmake", "-S", check.root, "-B", check.build,
                                               *generator, *options, *check.options], 120)
    if outcome is None or not outcome.good:
        return
    # Build as much as possible: a suite that does not compile fails alone.
    keep = ["-k", "0"] if ninja else ["-k"]
    check.run("build", "compile", ["cmake", "--build", check.build, "--target", "gpu_check", "-j",
                                   str(os.cpu_count() or 2), "--", *keep], 480)


def tests_of(check):
    """ctest's tests of GPUs: name, command, seconds, folder, variables."""
    try:
        run = subprocess.run(["ctest", "--test-dir", check.build, "-R", "^gpu/",
                              "--show-only=json-v1"], capture_output=True, text=True,
                             env=check.env, timeout=60)
        tests = json.loads(run.stdout)["tests"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return []
    found = []
    for test in tests:
        about = {p["name"]: p["value"] for p in test.get("properties", [])}
        command = test.get("command", [])       # ctest omits one that is not there
        if not about.get("DISABLED"):
            found.append((test["name"], command, about.get("TIMEOUT", 300),
                          about.get("WORKING_DIRECTORY"),
                          dict(v.split("=", 1) for v in about.get("ENVIRONMENT", ()))))
    return found


def part_of(name):
    return next(part for part, pattern in SUITES.items() if re.match(pattern, name))


def suites(check, part):
    mine = [t for t in tests_of(check) if part_of(t[0]) == part]
    if not mine:
        check.table.add(part, "suites", "FAILED", "none were built: see the part build")
    for name, command, limit_s, folder, variables in mine:
        if not command or not os.path.exists(command[0]):
            check.table.add(part, name, "FAILED", "was not built")
            continue
        outcome = check.run(part, name, command, limit_s, folder, False, variables)
        if outcome is None:
            continue
        ran = [int(n) for n in re.findall(r"(\d+) test\(s\) run", outcome.output())]
        figure = f"{sum(ran)} tests, {outcome.seconds:.1f} s" if outcome.good else outcome.reason
        if outcome.status == NOT_HERE:      # with a GPU, a test must not be skipped
            figure = (outcome.output().strip().splitlines() or ["skipped"])[-1][:150]
        check.verdict(part, name, outcome.good and (sum(ran) > 0 or not ran), figure, outcome)


def uwasa(check, part, what, arguments, limit_s):
    """The program with --json: its events, or None."""
    outcome = check.run(part, what, [check.program, *arguments], limit_s, tell=False)
    if outcome is None:
        return None
    if not outcome.good:
        check.verdict(part, what, False, outcome.reason, outcome)
        return None
    events = []
    for line in outcome.output().splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


def training(check):
    """Suites that train, and a training on processor and GPU: same start, nearly the same end."""
    suites(check, "training")
    steps = "20" if check.emulated else "300"
    model = "mlp" if check.emulated else "lenet5"
    common = ["train", "--model", model, "--data", "digits", "--steps", steps, "--seed", "1",
              "--optimizer", "momentum", "--lr", "0.01", "--json", "-"]
    limit_s = 60 if check.quick else 300
    here = uwasa(check, "training", f"{model} on the processor", common + ["--backend", "ref"],
                 limit_s)
    there = uwasa(check, "training", f"{model} on the GPU", common + ["--backend", "cuda"], limit_s)
    if not here or not there:
        return
    first = [next((e["loss"] for e in run if e.get("event") == "step"), None)
             for run in (here, there)]
    last = [next((e for e in run if e.get("event") == "done"), {}) for run in (here, there)]
    if None in first or not all("test_accuracy" in e for e in last):
        check.table.add("training", f"{model} on both", "FAILED", "an event is missing")
        return
    apart = abs(first[1] - first[0]) / first[0]
    check.table.check("training", f"{model}: loss of the first step", apart < 1e-4,
                      f"{first[1]:.6f} on the GPU, {first[0]:.6f} here")
    accuracy = [e["test_accuracy"] for e in last]
    check.table.check("training", f"{model}: accuracy after {steps} steps",
                      abs(accuracy[1] - accuracy[0]) < 0.03,
                      f"{accuracy[1]:.4f} on the GPU, {accuracy[0]:.4f} here")


def memory(check):
    """Nothing is allocated after a model is bound, and before no more than planned."""
    program = os.path.join(check.build, "tests", "gpu", "steps", "gpu_steady_memory")
    works = STEPS_EMULATED if check.emulated else STEPS[:3] if check.quick else STEPS
    steps = "5" if check.emulated else "200"
    for work in works:
        outcome = check.run("memory", work, [program, work, steps], 120, tell=False)
        if outcome is None:
            continue
        told = {}
        for line in outcome.output().splitlines():
            if line.startswith("{"):
                told = json.loads(line)
        figure = outcome.reason
        if told:
            figure = f"planned {beside.mib(told['planned_bytes'])}, taken " \
                     f"{beside.mib(told['taken_bytes'])}; " \
                     f"{beside.mib(told['first_bytes'])} with the first steps' code, " \
                     f"{told['steps_bytes']} bytes in {steps} steps after them"
        check.verdict("memory", work, outcome.good and bool(told), figure, outcome)


def ceilings(check):
    if check.emulated:
        check.table.add("ceilings", "copy and product", "skipped", "no GPU to measure")
        return
    program = os.path.join(check.build, "ceilings")
    made = check.run("ceilings", "compile", ["nvcc", "-O3", "-std=c++17", "-arch=native", "-o",
                     program, os.path.join(check.root, "tests/gpu/ceilings.cu"), "-ldl"], 120)
    if made is None or not made.good:
        return
    outcome = check.run("ceilings", "measure", [program], 120, tell=False)
    lines = [l for l in outcome.output().splitlines() if l.startswith("{")] if outcome else []
    told = json.loads(lines[-1]) if lines and outcome.good else None
    if told is None:
        check.verdict("ceilings", "measure", False,
                      outcome.reason if outcome else "no time left", outcome)
        return
    check.measured["ceilings"] = told
    check.table.add("ceilings", f"copy of {beside.mib(told['copy_bytes'])}, read and written",
                    "measured", f"{told['copy_gb_per_s']:.0f} GB/s")
    check.table.check("ceilings", f"fp32 product of {told['gemm_size']}^3, without TF32",
                      told["gemm_error"] < 1e-5, f"{told['gemm_tflop_per_s']:.1f} TFLOP/s, "
                      f"relative error {told['gemm_error']:.1e}")


def fault_of(about):
    """Why PyTorch's numbers would be useless, or None."""
    if "torch" not in about:
        return about["error"]
    if about["device"] != "cuda":
        return f"{about['torch']} sees no GPU"
    return f"is not fp32: error {about['error']:.1e}" if about["error"] > 1e-5 else None


def open_torches(check, works):
    """PyTorch, a process per mode, compiled into the cache; {}, with a row, if it is missing."""
    python = beside.python_with_torch(check.env)
    if python is None:
        check.table.add("bench", "PyTorch", "skipped" if check.emulated else "FAILED",
                        "no Python here has torch and numpy")
        return {}
    cache = os.path.join(check.build, "inductor")
    shutil.rmtree(cache, ignore_errors=True)    # a killed compiler leaves incomplete files
    check.env["TORCHINDUCTOR_CACHE_DIR"] = cache
    torches = {mode: beside.Torch(python, check.env, check.log("torch")) for mode in check.modes}
    about = beside.ask(torches[check.modes[0]], check.limit(180), do="about")
    check.measured["torch"] = about
    fault = None if check.emulated and "torch" in about else fault_of(about)
    if fault is not None:
        check.table.add("bench", "PyTorch", "FAILED", fault)
        end(torches)
        return {}
    check.table.add("bench", "PyTorch", "measured", f"{about['torch']}, cuDNN {about.get('cudnn')}")
    compiled = [m for m in check.modes if m != "eager"]
    if compiled and about["device"] == "cuda":
        room = int(check.card.memory_mib or 16000) // 12000
        bad = beside.compile_before(python, works, compiled,
                                    max(1, min(room, (os.cpu_count() or 2) // 2)),
                                    check.limit(180), check.env, check.logs)
        print(f"  compiled before: {len(works) - bad} of {len(works)} works", flush=True)
    return torches


def end(torches):
    for torch in torches.values():
        torch.end()


def bench(check):
    works = check.works
    command = [check.program, "bench", "train", "--backend", "cuda", "--momentum", "0.9"]
    options = {"rounds": 1 if check.quick or check.emulated else 3,
               "windows": 1 if check.emulated else 3,
               "seconds": 0.05 if check.emulated else 0.2 if check.quick else 0.3,
               "limit": check.limit}
    torches = open_torches(check, works) if check.modes else {}
    check.measured["bench"] = []
    try:
        for work in works:
            if check.limit(600) < 20:
                check.table.add("bench", work, "FAILED", "no time left")
                continue
            result = beside.measure(command, torches, work, options, check.env,
                                    check.log(f"bench-{work}"))
            check.measured["bench"].append(result)
            beside.rate(check.table, result, not check.emulated)
            check.tell(result.get("tail", ""))
            check.save()
    finally:
        end(torches)
    shares(check)


def shares(check):
    """Shares of the ceilings: fp32 rate of two networks, bytes per second of one."""
    top = check.measured.get("ceilings")
    for result in check.measured.get("bench", ()):
        work = result["work"]
        model, batch = work.split(":")[:2]
        if top is None or "error" in result or not result["own"]["step_s"]:
            continue
        step_s = statistics.median(result["own"]["step_s"])
        if model in ("vgg16", "resnet50"):
            rate = result["own"]["told"]["gflop_per_s"] * result["own"]["told"]["step_s"] / step_s
            check.table.add("bench", f"{work} share of the product's rate", "measured",
                            f"{rate / 1e3 / top['gemm_tflop_per_s']:.3f}: {rate / 1e3:.2f} TFLOP/s")
        if model == "mobilenetv2":
            least = traffic.least_bytes(torch_models.description_of(model), int(batch))
            rate = least / step_s * 1e-9
            check.table.add("bench", f"{work} share of the copy's rate", "measured",
                            f"{rate / top['copy_gb_per_s']:.3f}: {rate:.0f} GB/s of the least "
                            f"traffic, {least / 1e6:.0f} MB a step")


def sanitizer(check):
    tool = check.find("compute-sanitizer")
    if check.emulated or tool is None:
        check.table.add("sanitizer", "compute-sanitizer", "skipped",
                        "no GPU" if check.emulated else "is not installed")
        return
    contract = {re.split("[/_]", t[0])[-1]: t[1] for t in tests_of(check)
                if re.match("gpu/(contract_[a-z0-9]+$|recurrence$)", t[0]) and t[1]}
    if not contract:
        check.table.add("sanitizer", "suites", "FAILED", "none were built: see the part build")
    for kind, chosen in SANITIZED.items():
        if check.quick and kind != "memcheck":
            continue
        for suite, command in contract.items():
            if (chosen is None or suite in chosen) and os.path.exists(command[0]):
                own = {"UWASA_TEST_CONV2D": "winograd" if suite == "winograd" else "own"}
                sanitize(check, tool, kind, suite, command, own)
    works = list(SANITIZED_STEPS)[:2] if check.quick else SANITIZED_STEPS
    for work in works:
        for kind in SANITIZED_STEPS[work][:1] if check.quick else SANITIZED_STEPS[work]:
            sanitize(check, tool, kind, f"a step of {work}",
                     [check.program, "bench", "train", "--backend", "cuda", "--work", work,
                      "--windows", "1", "--seconds", "0.001"])


def sanitize(check, tool, kind, what, command, variables=None):
    name = f"{kind}: {what}"
    # Failed calls are not memory errors: libraries ask for what may not exist, and the program
    # itself reports failures of its own calls.
    options = ["--report-api-errors", "no"] if kind == "memcheck" else []
    outcome = check.run("sanitizer", name, [tool, "--tool", kind, *options, "--error-exitcode",
                                            ERROR_STATUS, *command], 60 if check.quick else 180,
                        tell=False, variables={"UWASA_TEST_QUICK": "1", **(variables or {})})
    if outcome is None:
        return
    found = LOGS_OF_SANITIZER.findall(outcome.output())
    figure = outcome.reason if not found else f"{sum(int(a or b) for a, b in found)} found"
    check.verdict("sanitizer", name, outcome.good and bool(found), figure, outcome)


# The accuracy that the two networks must reach on CIFAR-10, and their settings.
FULL = (("vgg16-bn", 0.925, ["--epochs", "100", "--batch", "128", "--lr", "0.05"]),
        ("resnet20", 0.91, ["--epochs", "120", "--batch", "128", "--lr", "0.1"]))
FULL_COMMON = ["--optimizer", "momentum", "--nesterov", "--weight-decay", "5e-4", "--schedule",
               "warmup:400+cosine", "--augment", "flip,crop:4", "--seed", "1"]


def training_full(check):
    if check.cifar10 is None:
        check.table.add("training_full", "CIFAR-10", "FAILED", "--cifar10 DIR says where it is")
        return
    for model, wanted, own in FULL:
        if check.models and model not in check.models:
            continue
        arguments = ["train", "--model", model, "--data", f"cifar10:{check.cifar10}", *own,
                     *FULL_COMMON, "--backend", "cuda", "--json", "-"]
        events = uwasa(check, "training_full", model, arguments, check.limit(3600))
        done = next((e for e in events or () if e.get("event") == "done"), None)
        if done is None:
            continue
        check.measured.setdefault("training_full", []).append(
            {"command": ["uwasa", *arguments], "done": done})
        check.table.check("training_full", model, done.get("test_accuracy", 0) >= wanted,
                          f"{100 * done.get('test_accuracy', 0):.2f} % in "
                          f"{done['seconds'] / 60:.1f} minutes, asked {100 * wanted} %")
        print("  uwasa " + " ".join(arguments), flush=True)


PARTS = {"build": build, "contract": lambda c: suites(c, "contract"),
         "parity": lambda c: suites(c, "parity"), "gradient": lambda c: suites(c, "gradient"),
         "training": training, "memory": memory, "ceilings": ceilings, "bench": bench,
         "sanitizer": sanitizer, "training_full": training_full}
ALL = [part for part in PARTS if part != "training_full"]
