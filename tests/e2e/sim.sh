# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of uwasa sim: source it as cli.sh, which it does. Writes four.csv and
# plane.json, a small set of samples and a model for it.
. "$(dirname "$(realpath "$0")")/cli.sh"

# four classes in the plane, a little noise; the label last
awk 'BEGIN { srand(1); for (i = 0; i < 1200; i++) { c = i % 4
    printf "%.4f,%.4f,%d\n", c % 2 * 2 - 1 + rand() - 0.5, int(c / 2) * 2 - 1 + rand() - 0.5, c } }' >four.csv
cat >plane.json <<END
{"name": "plane", "input": [2], "layers": [
    {"name": "fc1", "type": "dense", "out": 16}, {"name": "relu", "type": "relu"},
    {"name": "fc2", "type": "dense", "out": 4}]}
END
told() { # everything but what a clock on the wall says
    sed 's/,"seconds":[^,}]*//' "$1"
}
