# SPDX-License-Identifier: Apache-2.0
"""table - the results of gpu_check: one row per check, as text and as JSON

A row is (part, what, result, figure); result is passed, FAILED or skipped, or "measured" for a
number without a target.
"""

import json
import os
import re
import time

RESULTS = ("passed", "FAILED", "skipped", "measured")


class Table:
    def __init__(self, about):
        self.about, self.rows = about, []     # about: lines above the table, in order

    def add(self, part, what, result, figure=""):
        assert result in RESULTS, result
        self.rows.append({"part": part, "what": what, "result": result, "figure": figure})
        print(f"  {result:8} {part}: {what}  {figure}".rstrip(), flush=True)

    def check(self, part, what, good, figure=""):
        self.add(part, what, "passed" if good else "FAILED", figure)
        return good

    @property
    def failed(self):
        return sum(row["result"] == "FAILED" for row in self.rows)

    def text(self):
        lines = [f"{name + ':':10} {value}" for name, value in self.about.items()]
        widths = [max([len(row[key]) for row in self.rows] + [len(key)])
                  for key in ("part", "what", "result")]
        line = "{:%d}  {:%d}  {:%d}  {}" % tuple(widths)
        lines += ["", line.format("part", "what", "result", "figure")]
        lines += [line.format(row["part"], row["what"], row["result"], row["figure"]).rstrip()
                  for row in self.rows]
        count = {r: sum(row["result"] == r for row in self.rows) for r in RESULTS}
        lines += ["", ", ".join(f"{n} {r}" for r, n in count.items() if n) or "nothing was run"]
        return "\n".join(lines) + "\n"

    def write(self, folder, more=None, again=None):
        """NAME.txt and NAME.json, NAME from the card and the time. Returns both paths; `again`,
        what was returned before, is replaced."""
        os.makedirs(folder, exist_ok=True)
        card = re.sub(r"[^A-Za-z0-9]+", "-", self.about.get("card", "unknown")).strip("-").lower()
        name = os.path.join(folder, f"{card}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
        paths = again or (name + ".txt", name + ".json")
        with open(paths[0], "w", encoding="utf-8") as f:
            f.write(self.text())
        with open(paths[1], "w", encoding="utf-8") as f:
            json.dump({"about": self.about, "rows": self.rows, **(more or {})}, f, indent=1)
            f.write("\n")
        return paths
