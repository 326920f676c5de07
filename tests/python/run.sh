#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh PYTHON FOLDER - the tests of the package in FOLDER; 77: skipped, PYTHON lacks something
set -eu
for module in numpy pytest torch; do
    if ! "$1" -c "import $module" 2>/dev/null; then
        echo "skipped: $1 has no $module (tools/setup test)"
        exit 77
    fi
done
export PYTHONPATH="$2" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
exec "$1" -m pytest -q -p no:cacheprovider "$(dirname "$0")"
