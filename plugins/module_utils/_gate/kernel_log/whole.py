# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a kernel log has no hole: where it ends, and what it says itself of lines that it lost. PRIVATE.

The kernel may be quiet for hours, so the age of a log's last line says nothing of its end. What ends now is the
kernel's own ring: a journal or a file is whole up to now where it reaches into the ring, and the ring has no gap from
there on.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.read import Clock, Log
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.users import kernels_own

#: Wall-clock times in logs are of whole seconds, and are converted by a clock of their own.
_WALL_SLACK = 2.0
_LINES, _GONE = r"(?:messages?|callbacks?|records?|lines?)", r"(?:suppressed|dropped|missed|lost|discarded)\b"
#: What a log says where lines were left out of it: pattern, words.
LOST: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b\d+ callbacks suppressed"), "the kernel suppressed messages"),
    (re.compile(r"\bprintk messages dropped|\b\d+ messages dropped\b"), "the kernel dropped messages"),
    (re.compile(r"\bMissed \d+ kernel messages"), "the journal lost records"),
    (
        re.compile(r"\bmessages? lost due to rate-limiting|\bSuppressed \d+ messages\b"),
        "the log's writer lost messages",
    ),
    # In words that nobody has foreseen; "output lines suppressed due to ratelimiting" is the kernel's as well.
    (
        re.compile(rf"\b\d+ (?:\w+ )?{_LINES} (?:were |was )?{_GONE}|\b{_GONE} \d+ (?:\w+ )?{_LINES}\b", re.I),
        "lines were left out of the log",
    ),
)
#: Functions that hold back what they say of packets, processes and memory, and nothing of a GPU, PCIe or a machine
#: check: name, source in Linux v6.12. Those of audit and signals share one limit (printk_ratelimit) with others of
#: this kind.
_OF_OTHERS: tuple[tuple[str, str], ...] = (
    ("net_ratelimit", "net/core/utils.c, the network's own macros"),
    ("kauditd_printk_skb", "kernel/audit.c, where no daemon takes them"),
    ("show_signal_msg", "arch/x86/mm/fault.c, a process that crashed"),
    ("show_signal", "arch/x86/kernel/traps.c, a process that crashed"),
    ("signal_fault", "arch/x86/kernel/signal.c, a process that crashed"),
    ("arm64_show_signal", "arch/arm64/kernel/traps.c, a process that crashed"),
    ("umip_printk", "arch/x86/kernel/umip.c, a process"),
    ("split_lock_warn", "arch/x86/kernel/cpu/bus_lock.c, a process"),
    ("handle_bus_lock", "arch/x86/kernel/cpu/bus_lock.c, a process"),
    ("warn_alloc", "mm/page_alloc.c, memory that ran out"),
    ("oom_kill_process", "mm/oom_kill.c, memory that ran out"),
    ("dump_header", "mm/oom_kill.c, memory that ran out"),
    ("__do_sys_memfd_create", "mm/memfd.c of v6.3, a process"),
)
_NOT_OURS = re.compile(rf"\b(?:{'|'.join(name for name, _source in _OF_OTHERS)}): \d+ callbacks suppressed")

#: Each of them has one of these words.
SIGNS = ("suppressed", "dropped", "missed", "lost", "discarded")


def lost(text: str) -> str:
    """What this line says of lines that are missing; empty where it says nothing."""
    lower = text.lower()
    if text.isascii() and not any(sign in lower for sign in SIGNS):
        return ""  # next to all lines, of which some are long to read
    ours = _NOT_OURS.sub("", kernels_own(text))  # of two lines that were joined the other one still counts
    return next((words for pattern, words in LOST if pattern.search(ours)), "")


def prove_end(log: Log, ring: Log, clock: Clock) -> None:
    """Say in the log's problems where nothing proves that it goes on until now."""
    if log.problems:
        return
    begin = ring.lines[0].mono if ring.lines and ring.ends_now else None
    if begin is None:
        why = "; ".join(ring.problems) or "it is empty"
        log.problems.append(f"nothing proves where the log ends: the kernel's own ring does not say it ({why})")
        return
    end = _end(log, clock)
    if end is None or end < begin:
        told = "at a time that it does not tell" if end is None else f"{end:.0f} s after the boot"
        log.problems.append(f"the log ends {told}, and the kernel's own ring begins {begin:.0f} s after it")


def _end(log: Log, clock: Clock) -> Optional[float]:
    """Up to where the log goes for sure, in seconds since boot."""
    for line in reversed(log.lines):
        age = log.age_of(line, clock)
        if age is not None:
            return age if line.mono is not None else age - _WALL_SLACK
    return None
