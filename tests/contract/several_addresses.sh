#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# several_addresses.sh PROGRAM: run a test in a network namespace whose loopback interface has
# several addresses. 77: this machine allows no namespace, or has no `ip` or no IPv6.
if [ "$2" != inside ]; then
    command -v ip >/dev/null && unshare -rn ip address add fd00:9::1/64 dev lo nodad || exit 77
    exec unshare -rn sh "$0" "$1" inside
fi
set -e
ip link set lo up
for a in 1 2 50; do
    ip address add 10.9.0.$a/32 dev lo
done
for a in 1 2 3; do
    ip address add fd00:9::$a/64 dev lo nodad
done
ip address change fd00:9::1/64 dev lo preferred_lft 0 valid_lft 3600
UW_TEST_ADDRESSES=1 exec "$1"
