# SPDX-License-Identifier: Apache-2.0
"""What a training tells: numbers of each epoch, sentences, a live line."""

import sys


class History(dict):
    """Lists with an entry for each epoch: epoch, loss, seconds, and where it was tested
    validation_loss, validation_accuracy or test_loss, test_accuracy.

    notes        what was found, or taken for granted
    done         the numbers of the end: steps, samples_per_s, best_step, ...
    interrupted  whether it was stopped before its end"""

    def __init__(self):
        super().__init__()
        self.notes, self.done, self.interrupted = [], {}, False

    def add(self, event):
        kind = event["event"]
        if kind == "epoch":
            for key in ("epoch", "loss", "seconds"):
                self.setdefault(key, []).append(event[key])
        elif kind in ("eval", "validation") and self.get("epoch"):
            for key, value in event.items():
                if key.endswith(("_loss", "_accuracy")):
                    column = self.setdefault(key, [])
                    column += [None] * (len(self["epoch"]) - len(column))
                    column[-1] = value
        elif kind == "done":
            self.done = event
            self.interrupted = event["interrupted"]


def told(history):
    return f"epoch {history['epoch'][-1]}  loss {history['loss'][-1]:.4f}"


class Screen:
    """Lines, and a bar that is redrawn in a terminal or a notebook."""

    def __init__(self, shown):
        self.shown = shown
        self.live = shown and (sys.stdout.isatty() or "ipykernel" in sys.modules)
        self.width = 0
        self.epoch = None               # the text of one that has no line yet

    def line(self, text):
        if self.shown:
            print(text.ljust(self.width), flush=True)
            self.width = 0

    def show(self, event, history):
        test = event["event"] in ("eval", "validation")
        if test and history.get("epoch"):
            self.epoch = told(history)
            for key in event:
                if key.endswith(("_loss", "_accuracy")):
                    self.epoch += f"  {key.replace('_', ' ')} {event[key]:.4f}"
        if self.epoch is not None:
            self.line(self.epoch)
        self.epoch = told(history) if event["event"] == "epoch" else None
        if event["event"] == "step":
            self.bar(event)

    def bar(self, event):
        if self.live:
            part = event["step"] / event["steps"]
            full = int(24 * part)
            text = (f"[{'#' * full}{'.' * (24 - full)}] {100 * part:3.0f} %  step "
                    f"{event['step']}/{event['steps']}  loss {event['loss']:.4f}")
            print(text.ljust(self.width), end="\r", flush=True)
            self.width = len(text)

    def clear(self):
        if self.width:
            print("".ljust(self.width), end="\r", flush=True)
            self.width = 0
