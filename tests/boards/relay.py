#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A lossy network between nodes: every node is reached through a port of this relay, and is seen by
others as that port.

usage: relay.py SEED LOSS FRONT:BACK...     FRONT: what others use; BACK: where the node listens

On its end (SIGTERM) it prints how many datagrams it has seen and lost."""
import random
import selectors
import signal
import socket
import sys

HOST = "127.0.0.1"


def main():
    seed, loss = int(sys.argv[1]), float(sys.argv[2])
    pairs = [tuple(int(port) for port in pair.split(":")) for pair in sys.argv[3:]]
    rng = random.Random(seed)
    seen = lost = 0
    front = {}                          # by the sender's own port
    selector = selectors.DefaultSelector()
    for listen, back in pairs:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        s.bind((HOST, listen))
        front[back] = s
        selector.register(s, selectors.EVENT_READ, back)

    class End(Exception):
        pass

    def end(*_):
        raise End

    signal.signal(signal.SIGTERM, end)
    try:
        while True:
            for ready, _ in selector.select():
                data, sender = ready.fileobj.recvfrom(65536)
                if sender[1] not in front:
                    continue            # nobody we know
                seen += 1
                if rng.random() < loss:
                    lost += 1
                    continue
                front[sender[1]].sendto(data, (HOST, ready.data))
    except End:
        print(f"{seen} datagrams, {lost} lost", flush=True)


if __name__ == "__main__":
    main()
