#!/bin/sh
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ipmi_chassis.sh POWER FAULTS PROGRAM [ARGUMENT...]: what ipmi_sim calls. It answers the question for the power, which
# is asked more often than all others together, by itself, and leaves everything else to ipmi_chassis.py: who asked
# waits for a second and then asks again, and an interpreter alone takes a tenth of that on a quiet machine.
power=$1
faults=$2
shift 2

slow() {
  [ -r "$faults" ] || return 1
  while read -r line; do
    case "$line" in *bmc_slow*) return 0 ;; esac
  done <"$faults"
  return 1
}

# A boot device is read back right after it was set. All else takes its time as on a real machine, and is noted by
# ipmi_chassis.py in the order in which it comes: an answer that comes late is asked for, and written, once more.
case "$*" in
  *" get power")
    if ! slow; then
      state=off
      [ -r "$power" ] && read -r state <"$power"
      [ "$state" = on ] && echo power:1 || echo power:0
      exit 0
    fi
    ;;
  *" set "*boot*) ;;
  *" set "*)
    if ! slow; then
      "$@" </dev/null >/dev/null 2>&1 &
      exit 0
    fi
    ;;
esac
exec "$@"
