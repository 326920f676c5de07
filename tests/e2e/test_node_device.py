#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node whose serial line or bus goes away while it runs, and comes back: it says so, once.

usage: test_node_device.py PROGRAM
"""
import os
import sys
import unittest

from fleet import Fleet


class Device(Fleet):
    def plug(self, name):
        """A pseudo terminal that the name leads to; its other end."""
        try:
            other, end = os.openpty()
        except OSError:
            self.skipTest("skipped: this machine has no pseudo terminals")
        path = os.path.join(self.dir, name)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(os.ttyname(end), path)
        os.close(end)
        return other

    def test_line_and_bus_that_go_away_are_named_once_and_once_when_they_are_back(self):
        others = [self.plug("line"), self.plug("bus")]
        for i, link in enumerate(({"link.serial": "line"}, {"link.bus": "bus", "link.address": 3})):
            self.start(i, listen=":0", seeds=[], data="digits", step_seconds=0.05, **link)
        for i in range(2):
            self.until_event(i, "listening")
        for other in others:
            os.close(other)
        for i in range(2):
            self.until_event(i, "gone")
        others = [self.plug("line"), self.plug("bus")]
        for i in range(2):
            self.until_event(i, "back")
        self.stop(0, 1)
        for i, name in enumerate(("line", "bus")):
            self.assertEqual([(e["kind"], e["device"]) for e in self.events(i, "device")],
                             [("gone", name), ("back", name)])
            self.assertEqual(self.text(i).count(f"{name} is gone: looked for again every second"), 1)
            self.assertEqual(self.text(i).count(f"{name} is there again"), 1)
        for other in others:
            os.close(other)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
