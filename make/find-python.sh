#!/bin/sh
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# find-python.sh MINOR... : prints the path of the first Python 3.MINOR that really runs, else ends with 1.
# A name on PATH proves nothing: a pyenv shim of a version that is not selected is there and only complains.
set -u

# Prints the interpreter's own path, if $1 runs and is Python 3.$2.
real_python() {
    "$1" -c 'import os, sys
if sys.version_info[:2] != (3, int(sys.argv[1])): sys.exit(1)
print(os.path.realpath(sys.executable))' "$2" 2>/dev/null
}

# A distribution builds its Python with all that the compiler can do, and pyenv does not unless it is told to: a sixth less
# CPU for all that is run by it. One that cannot make environments (Debian has that in a package of its own) is left out.
system=${SYSTEM_PYTHONS:-/usr/bin}

for minor in "$@"; do
    if "$system/python3.$minor" -c 'import ensurepip, venv' 2>/dev/null && real_python "$system/python3.$minor" "$minor"; then
        exit 0
    fi
    for candidate in "python3.$minor" python3 \
        "${PYENV_ROOT:-${HOME:-/root}/.pyenv}/versions/3.$minor."*"/bin/python3.$minor" \
        "/usr/local/bin/python3.$minor" "/opt/python3.$minor/bin/python3.$minor"; do
        if found=$(real_python "$candidate" "$minor"); then
            echo "$found"
            exit 0
        fi
    done
done
exit 1
