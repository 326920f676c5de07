#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_networks.py PROGRAM [TEST...]: nodes as processes in networks as people have them, made of
network namespaces. They, and the processes in them, end with this program, however it ends. Needs `ip`, for
NAT `nft`, and to be root or allowed to make user namespaces; exits 77 with the reason otherwise."""
import os
import shutil
import subprocess
import sys
import unittest

import fleet

SECONDS = 15
INSIDE = "UWASA_TEST_NETWORK"


def sh(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr or done.stdout}")
    return done.stdout


class Networks(fleet.Fleet):
    """Hosts are namespaces, joined by switches, which are namespaces with a bridge."""

    def setUp(self):
        super().setUp()
        self.hosts = []
        self.ports = {i: 4433 for i in (0, *"abcd")}

    def tearDown(self):
        super().tearDown()
        for host in reversed(self.hosts):
            sh(f"ip netns del {host}")

    def host(self, name):
        if name not in self.hosts:
            sh(f"ip netns add {name} && ip -n {name} link set lo up")
            self.hosts.append(name)

    def switch(self, name="sw"):
        self.host(name)
        sh(f"ip -n {name} link add br0 type bridge && ip -n {name} link set br0 up")

    def plug(self, host, *addresses, switch="sw", device="eth0"):
        """A cable from a host to a switch."""
        self.host(host)
        port = f"{host}{device[-1]}"
        sh(f"ip -n {switch} link add {port} type veth peer name {device} netns {host} && "
           f"ip -n {switch} link set {port} master br0 up && ip -n {host} link set {device} up")
        for address in addresses:
            nodad = "nodad" if ":" in address else ""
            sh(f"ip -n {host} addr add {address} dev {device} {nodad}")
        sh(f"ip -n {host} link set {device} gso_max_segs 1")    # a switch sees packets as on a wire

    def join(self, switch, far, mtu):
        """A cable between switches, which lose larger packets silently."""
        sh(f"ip -n {switch} link add far type veth peer name near netns {far}")
        for at, port in (switch, "far"), (far, "near"):
            sh(f"ip -n {at} link set {port} master br0 mtu {mtu} up")

    def at(self, host, command):
        return sh(f"ip netns exec {host} {command}")

    def start(self, i, **keys):
        self.programs[i] = ["ip", "netns", "exec", i, fleet.PROGRAM]
        super().start(i, **{"listen": ":4433", "seeds": [], "step_seconds": 0.05,
                            "seconds": SECONDS, **keys})

    def members(self, i):
        """By name: the state and the address that a node told last of each other."""
        status = self.events(i, "status")
        return {m["name"]: (m["state"], m["address"]) for m in status[-1]["members"]} \
            if status else {}

    def until_alive(self, i, other, address=None):
        def is_alive():
            state, at = self.members(i).get(f"n{other}", ("", ""))
            return state == "alive" and address in (None, at)
        self.until(f"n{i} hears n{other} at {address or 'any address'}", is_alive)

    def assert_learned_together(self, hosts, averages=3):
        done = [self.done(i) for i in hosts]
        most = max(d["step"] for d in done)
        for i, d in zip(hosts, done):
            self.assertGreater(d["step"], most // 2, f"n{i} stood still: {self.text(i)}")
            self.assertGreaterEqual(d["averages_done"], averages, self.text(i))
        return done

    # ---- the kinds ----

    def test_answers_leave_from_the_address_that_was_asked(self):
        self.switch()
        self.plug("a", "10.9.0.1/24", "10.9.0.50/24", "fd00:9::1/64")
        self.at("a", "ip -6 addr change fd00:9::1/64 dev eth0 preferred_lft 0 valid_lft 3600")
        self.at("a", "ip -6 addr add fd00:9::dead:beef/64 dev eth0 nodad")
        self.plug("b", "10.9.0.2/24")
        self.plug("c", "fd00:9::3/64")
        self.start("a")
        self.start("b", seeds="10.9.0.50:4433")
        self.start("c", seeds="[fd00:9::1]:4433")
        self.until_alive("b", "a")
        self.until_alive("c", "a")
        self.stop("a", "b", "c")

    def test_nodes_of_one_ip_version_learn_through_those_of_both(self):
        self.switch()
        self.plug("a", "10.9.0.1/24", "fd00:9::1/64")
        self.plug("b", "10.9.0.2/24")
        self.plug("c", "fd00:9::3/64")
        self.plug("d", "10.9.0.4/24", "fd00:9::4/64")
        self.at("b", "sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
        common = {"exchange": "allreduce", "consensus_seconds": 5}
        self.start("a", **common)
        self.start("b", listen="0.0.0.0:4433", seeds="10.9.0.1:4433", **common)
        self.start("c", seeds="[fd00:9::1]:4433", **common)
        self.start("d", seeds="10.9.0.1:4433", **common)
        # b knows d's address of IPv4 and c that of IPv6, whichever a sees.
        for i, other in ("b", "a"), ("c", "a"), ("b", "d"), ("c", "d"):
            self.until_alive(i, other)
        self.assert_learned_together("abcd")
        for i, other, version in ("b", "c", 6), ("c", "b", 4):
            told = [e["text"] for e in self.events(i, "unreached") if e["peer"] == f"n{other}"]
            self.assertEqual(len(told), 1, self.text(i))
            self.assertIn('"listen"', told[0])
            self.assertIn(f"no address of IPv{version}", told[0])

    def siblings_meet(self, link):
        self.switch()
        self.switch("in")
        self.plug("a", "10.9.0.1/24")
        self.plug("r", "10.9.0.200/24")
        self.plug("r", "192.168.1.1/24", switch="in", device="eth1")
        for host, address in ("b", "192.168.1.2"), ("d", "192.168.1.3"):
            self.plug(host, f"{address}/24", switch="in")
            self.at(host, "ip route add default via 192.168.1.1")
        self.at("r", "sysctl -qw net.ipv4.ip_forward=1")
        self.at("r", "nft add table ip nat")
        self.at("r", "nft 'add chain ip nat post { type nat hook postrouting priority 100 ; }'")
        self.at("r", "nft add rule ip nat post oifname eth0 masquerade random")
        common = {"link": link, "exchange": "allreduce", "consensus_seconds": 5}
        self.start("a", **common)
        self.start("b", seeds="10.9.0.1:4433", **common)
        self.start("d", seeds="10.9.0.1:4433", **common)
        self.until_alive("b", "d")
        self.until_alive("d", "b")
        self.assertTrue(self.members("b")["nd"][1].startswith("192.168.1.3:"), self.text("b"))
        self.assertTrue(self.members("d")["nb"][1].startswith("192.168.1.2:"), self.text("d"))
        self.assert_learned_together("abd")

    def test_siblings_behind_a_nat_meet_inside(self):
        self.siblings_meet("udp")

    def test_siblings_behind_a_nat_meet_inside_over_tcp(self):
        self.siblings_meet("tcp")

    def learn_through_a_black_hole(self, **keys):
        self.switch()
        self.switch("far")
        self.join("sw", "far", 900)
        self.plug("a", "10.9.0.1/24")
        self.plug("b", "10.9.0.2/24", switch="far")
        self.start("a", **keys)
        self.start("b", seeds="10.9.0.1:4433", **keys)
        return [self.done(i) for i in "ab"]

    def names_the_path(self, i, other):
        return any("do not reach" in e["text"] and other in e["text"]
                   for e in self.events(i, "path"))

    def test_gossip_goes_through_an_mtu_black_hole(self):
        for d in self.learn_through_a_black_hole():
            self.assertGreater(d["pulls_done"], 3)
            self.assertEqual(d["averages_done"], 1)         # at the end
        for i, other in ("a", "10.9.0.2"), ("b", "10.9.0.1"):
            self.assertTrue(self.names_the_path(i, other), self.text(i))

    def test_gossip_goes_through_a_router_with_a_smaller_mtu(self):
        """It tells a, by ICMP; what b sends it loses."""
        self.switch()
        self.switch("in")
        self.plug("a", "10.9.0.1/24")
        self.plug("r", "10.9.0.200/24")
        self.plug("r", "10.8.0.1/24", switch="in", device="eth1")
        self.plug("b", "10.8.0.2/24", switch="in")
        self.at("a", "ip route add default via 10.9.0.200")
        self.at("b", "ip route add default via 10.8.0.1")
        self.at("r", "ip link set eth1 mtu 1000")
        self.at("r", "sysctl -qw net.ipv4.ip_forward=1")
        self.start("a", mtu=1452)
        self.start("b", mtu=1452, seeds="10.9.0.1:4433")
        for i in "ab":
            d = self.done(i)
            self.assertGreater(d["pulls_done"], 3, self.text(i))
            self.assertEqual(d["averages_done"], 1, self.text(i))
        self.assertTrue(self.names_the_path("b", "10.9.0.1"), self.text("b"))

    def test_averages_go_through_an_mtu_black_hole(self):
        for d in self.learn_through_a_black_hole(exchange="allreduce", consensus_seconds=5):
            self.assertGreaterEqual(d["averages_done"], 3)

    def test_tcp_goes_through_an_mtu_black_hole(self):
        for d in self.learn_through_a_black_hole(link="tcp", seconds=40):
            self.assertGreater(d["pulls_done"], 3, self.text("a") + self.text("b"))
        # Of the two ends, one has dialed the connection that works.
        self.assertTrue(self.names_the_path("a", "10.9.0.2") or
                        self.names_the_path("b", "10.9.0.1"), self.text("a") + self.text("b"))


def skip(reason):
    print(reason)
    sys.exit(77)


def enter():
    """Start again inside namespaces of this process: its own network, mounts and processes."""
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        skip("needs ip and unshare")
    names = sys.argv[2:] or ["_nat_"]
    if any("_nat_" in name for name in names) and shutil.which("nft") is None:
        skip("needs nft")
    inside = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--net", "--mount", "--pid",
              "--fork", "--kill-child", "--mount-proc"]
    make = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip netns add t"
    tried = subprocess.run([*inside, "sh", "-c", make], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        skip(f"no network namespaces here: {tried.stderr.strip()}")
    os.environ[INSIDE] = "1"
    os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


if __name__ == "__main__":
    if INSIDE not in os.environ:
        enter()
    sh("mount --make-rprivate / && mount -t tmpfs tmpfs /run")
    unittest.main(argv=[sys.argv[0], *[f"Networks.test_{t}" for t in sys.argv[2:]]])
