#!/bin/sh
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# venv.sh DIR LOCK PYTHON : makes DIR what LOCK says. The stamp holds the lock's hash, so a second call costs nothing.
set -eu
dir=$1 lock=$2 python=$3
stamp=$dir/.lock
log=$dir.log
want=$(sha256sum "$lock" | cut -d' ' -f1)

mkdir -p "$(dirname "$dir")"
# Two makes at once must not write into one environment.
exec 9>"$dir.flock"
flock 9
if [ -x "$dir/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
    exit 0
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "$python cannot make virtual environments. On Debian, run:  sudo apt-get install python3-venv" >&2
    exit 1
fi
# An environment whose Python has gone (an upgrade, a moved pyenv) is made anew.
if ! "$dir/bin/python" -c '' 2>/dev/null; then
    rm -rf "$dir"
    "$python" -m venv "$dir"
fi
# uv takes a tenth of pip's time. It does not read pip's settings, so where pip has an index of its own, and where uv
# fails, pip installs.
by_uv() {
    ! "$dir/bin/python" -m pip config list | grep -q '\.\(index-url\|no-index\)=' &&
        "$dir/bin/python" -m pip install --disable-pip-version-check --progress-bar off -r "$(dirname "$lock")/uv.lock" &&
        UV_NATIVE_TLS=true "$dir/bin/uv" pip install --no-config --no-progress --python "$dir/bin/python" -r "$lock"
}
by_pip() {
    "$dir/bin/python" -m pip install --disable-pip-version-check --progress-bar off -r "$lock"
}
echo "$dir: installing $(grep -vc '^#' "$lock") packages from $lock (log: $log)"
if ! { by_uv || by_pip; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "$dir: installation failed, see $log" >&2
    exit 1
fi
echo "$want" >"$stamp"
