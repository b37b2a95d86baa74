#!/bin/sh
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Installs the packages of the lists beside it, and those that the profiles name, from APT_MIRROR where there is one.
set -eu
cd "$(dirname "$0")"
if [ -n "${APT_MIRROR:-}" ]; then
    sed -i "s|https\{0,1\}://deb.debian.org|$APT_MIRROR|" "${SOURCES:-/etc/apt/sources.list.d/debian.sources}"
fi
# What a checkout needs before 'make setup' can do the rest
set -- ca-certificates git make python3 python3-venv
for package in $(sed 's/#.*//' system.txt) $(sed -n 's/^\([^# ]*\) *\[platform:dpkg\]$/\1/p' ee-bindep.txt) \
    ${SLURM_PACKAGES:-} ${KUBERNETES_PACKAGES:-} ${POSTGRESQL_PACKAGES:-}; do
    set -- "$@" "$package"
done
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
