# SPDX-License-Identifier: Apache-2.0
"""What README.md says is what the program says. test_readme.py PROGRAM ROOT

Its table of RAM, beside `uwasa plan`; its sample of `plan --link`, letter by letter; of net/README.md
the table of pulls over a radio; every flag in a command of theirs, beside that command's --help. Its
network of one's own learns. And of every page of this tree: links lead to files and headings that are
there."""
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv.pop(2))
PROGRAM = os.path.abspath(sys.argv.pop(1))
OPTIMIZERS = ("sgd", "momentum", "adam")
STATES = {"sgd": 0, "momentum": 1, "adam": 2}       # vectors of an optimizer
IDLE = ("build", "node_modules")                    # folders of other things


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def run(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=100, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout


def numbers(cells):
    return [int(cell.replace(",", "")) for cell in cells]


def rows(text, first):
    """The cells of each row of the table whose head begins so."""
    lines = text[text.index(first):].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


class Ram(unittest.TestCase):
    """`plan` allocates nothing of what it tells, so this says nothing of the machine."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="uwasa-readme-")
        self.addCleanup(self.folder.cleanup)
        self.text = read("README.md")

    def model(self, name):
        """The MLP is that of `uwasa models mlp` with 64 for 128."""
        if not name.startswith("MLP"):
            return name, run("models", name)
        text = re.sub(r"\b128\b", "64", run("models", "mlp"))
        path = os.path.join(self.folder.name, "mlp.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path, text

    @staticmethod
    def plan(model, *more):
        return run("plan", "--model", model, "--batch", "1", "--threads", "1", "--backend", "ref", *more)

    def asked(self, model, text, optimizer):
        """AIfES's rule, in bytes: weights, gradients, state, the largest layer's gradient, input, results."""
        layers = self.plan(model, "--layers").split("\nlayer ")[1].splitlines()[1:]
        found = [line.split()[1:4] for line in layers]
        weights = [int(count) for _, _, count in found]
        results = [math.prod(map(int, shape.split("x"))) for kind, shape, _ in found if kind != "flatten"]  # a view
        given = math.prod(json.loads(text)["input"])
        return 4 * ((2 + STATES[optimizer]) * sum(weights) + max(weights) + given + sum(results))

    def test_table_of_ram_is_what_plan_says(self):
        table = rows(self.text, "| | SGD | AIfES | momentum | AIfES | Adam | AIfES |")
        self.assertEqual([row[0] for row in table], ["MLP 784-64-10", "lenet5"])
        for name, *cells in table:
            path, text = self.model(name)
            said = []
            for optimizer in OPTIMIZERS:
                plan = json.loads(self.plan(path, "--optimizer", optimizer, "--json"))
                said += [plan["total_bytes"], self.asked(path, text, optimizer)]
            self.assertEqual(numbers(cells), said, name)

    def test_budget_of_resnet20_is_what_plan_says(self):
        told = re.search(r"resnet20 takes ([\d,]+) bytes, and ([\d,]+) with `--budget (\d+)`", self.text)
        whole = json.loads(self.plan("resnet20", "--json"))
        less = json.loads(self.plan("resnet20", "--budget", told[3], "--json"))
        self.assertEqual(numbers(told.groups()[:2]), [whole["total_bytes"], less["total_bytes"]])


def split(text):
    """A page's lines outside of fences, and what stands in its fences that are of no language."""
    outside, inside, fence = [], [], None
    for line in text.splitlines():
        if line.startswith("```"):
            fence = line if fence is None else None
            if fence == "```":
                inside.append("")
        elif fence is None:
            outside.append(line)
        elif fence == "```":
            inside[-1] += line + "\n"
    return "\n".join(outside), inside


def commands(text):
    """The words of every command of uwasa in a page's blocks."""
    for block in split(text)[1]:
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r" *(?:\$ |mpirun -n \d+ |build/release/)*uwasa ([a-z]+ .*-.*)", line)
            if found and not re.match(r"[a-z]+ {2,}", found[1]):    # those are the list of commands
                yield shlex.split(re.split(r" (?:2?>|\||&)", found[1])[0], comments=True)


class Commands(unittest.TestCase):
    def test_sample_of_plan_link_is_what_it_prints(self):
        for block in split(read("README.md"))[1]:
            if block.startswith("$ uwasa plan --link"):
                command, printed = block.split("\n", 1)
                self.assertEqual(run(*shlex.split(command)[2:]), printed)
                return
        self.fail("no sample of plan --link")

    def test_every_flag_is_one(self):
        helped = {}
        for page in ("README.md", "net/README.md", "boards/README.md", "boards/jetson/README.md"):
            for words in commands(read(page)):
                flags = [word for word in words if word.startswith("--")]
                of = words[:2 if words[:2] in (["bench", "link"], ["bench", "allreduce"],
                                               ["sim", "time"]) else 1]
                text = helped.setdefault(tuple(of), run(*of, "--help"))
                for flag in flags:
                    key = rf"|\n  {flag[2:]} " if of == ["node"] else ""  # a key is a flag, too
                    self.assertRegex(text, rf"{flag}\b(?!-){key}",
                                     f"{page}: uwasa {' '.join(words)}")
        self.assertGreater(len(helped), 8)

    def test_network_and_data_of_ones_own_learn(self):
        """The block as it stands, in a shell; 97 % is usual."""
        script, = (block for block in split(read("README.md"))[1] if ">mine.csv" in block)
        path = os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"]
        with tempfile.TemporaryDirectory(prefix="uwasa-readme-") as folder:
            done = subprocess.run(["sh", "-ec", script], cwd=folder, env={**os.environ, "PATH": path},
                                  capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(os.path.exists(os.path.join(folder, "mine.safetensors")))
        self.assertGreater(float(re.search(r"test accuracy +([\d.]+) %", done.stdout)[1]), 90)

    def test_table_of_pulls_over_a_radio(self):
        """Rows of many seeds are left out: they take longer, and say nothing else of the page."""
        page = read("net/README.md")
        seen = 0
        for label, takes, frames in rows(page, "| 8 nodes on 802.15.4, 40,000 bytes |"):
            if "--seed" in label:
                continue
            flags = [word for code in re.findall(r"`([^`]*)`", label) for word in code.split()]
            done = json.loads(run("bench", "link", "--link", "802154", "--nodes", "8", "--bytes", "40000",
                                  *flags, "--json", "-").splitlines()[-1])
            seconds = takes.split(" s")[0]
            self.assertEqual(seconds, f"{done['seconds']:.{len(seconds.split('.')[1])}f}", label)
            share = re.search(r"([\d.]+) %", takes)
            if share:
                self.assertEqual(share[1], f"{100 * done['capacity_share']:.1f}", label)
            self.assertEqual(int(frames.split(",")[0]), done["air_frames"], label)
            seen += 1
        self.assertEqual(seen, 4)


def pages():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in IDLE]
        yield from (os.path.relpath(os.path.join(folder, n), ROOT) for n in names if n.endswith(".md"))


def anchors(text):
    """As GitHub names headings: lower case, no punctuation, hyphens for spaces."""
    found = re.findall(r"^#+ (.*)$", split(text)[0], re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


class Links(unittest.TestCase):
    def test_links_lead_somewhere(self):
        count = 0
        for page in pages():
            for target in re.findall(r"\]\(([^)\s]+)\)", split(read(page))[0]):
                if "://" in target:
                    continue
                path, _, heading = target.partition("#")
                at = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                self.assertTrue(os.path.exists(os.path.join(ROOT, at)), f"{page}: {target}")
                if heading:
                    self.assertIn(heading, anchors(read(at)), f"{page}: {target}")
                count += 1
        self.assertGreater(count, 50)

    def test_contents_name_every_section_and_each_is_there_once(self):
        before, contents, after = re.split(r"^(?=## (?:Contents|Train))", read("README.md"), 2, re.M)
        self.assertIn("## The first minute", before)
        headings = re.findall(r"^#+ .*$", split(after)[0], re.M)
        self.assertEqual(len(headings), len(set(headings)))
        self.assertEqual(anchors(after) - set(re.findall(r"\(#([^)]+)\)", contents)), set())


if __name__ == "__main__":
    unittest.main()
