# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users can put into the kernel's messages is no evidence, and is taken out of them. PRIVATE to the collection.

Any process names itself as it likes (prctl PR_SET_NAME), without any right and out of a container as well, and so it
names the files that it runs; the kernel prints both, first in the line where it tells of a crash. A node must not fail
by the name of a job.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

#: As a log shows one byte that cannot be printed: /dev/kmsg and dmesg, rsyslog; else the byte.
_BYTE = r"(?:\\x[0-9a-f]{2}|#[0-7]{3}|.)"
#: The name of a process or thread: TASK_COMM_LEN of Linux, less the null byte.
_NAME = rf"{_BYTE}{{0,15}}"
_PID = r"\d{1,10}"


def _message(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.S)


#: Messages that are about a process alone, and say nothing of the machine: pattern, source in Linux v6.12.
ABOUT_USERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        _message(rf"(?:traps: |umip: )?{_NAME}\[{_PID}\]:? (?:segfault at |unhandled |bad frame in |.*?\bip:\w+ )"),
        "arch/x86/mm/fault.c, arch/x86/kernel/traps.c, signal.c, umip.c, arch/arm64/kernel/traps.c",
    ),
    (_message(rf"{_NAME}\[{_PID}\]: memfd_create"), "mm/memfd.c"),
    (_message(rf"x86/split lock detection: #\w\w: {_NAME}/{_PID} took a "), "arch/x86/kernel/cpu/intel.c"),
    (_message(rf"(?:{_NAME}: )?potentially unexpected fatal signal "), "kernel/signal.c"),
    (_message(rf"{_NAME} invoked oom-killer: |oom-kill:constraint=|oom_reaper: "), "mm/oom_kill.c"),
    (_message(r"(?:Memory cgroup out|Out) of memory\b|Memory cgroup stats for |Tasks in "), "mm/oom_kill.c"),
    (_message(rf"\[ *{_PID}\] +\d+ +\d+ +\d+ +\d+ "), "mm/oom_kill.c, the table of processes"),
    (_message(r"cgroup: fork rejected by pids controller in "), "kernel/cgroup/pids.c"),
    (_message(rf"{_NAME}: (?:page allocation |vmalloc error: )"), "mm/page_alloc.c, mm/vmalloc.c"),
    (_message(rf"{_NAME}: attempt to access beyond end of device"), "block/blk-core.c"),
    (_message(rf"INFO: task {_NAME}:{_PID} |task:{_NAME} *state:"), "kernel/hung_task.c, sched/core.c"),
    (_message(rf"{_NAME} \({_PID}\)(?:: drop_caches: | used greatest stack )"), "fs/drop_caches.c, kernel/exit.c"),
    (_message(r"(?:audit: )?type=\d+ audit\("), "kernel/audit.c, where no daemon takes them"),
    (_message(r"ptrace \w+ of "), "kernel/ptrace.c, security/yama/yama_lsm.c"),
    (_message(rf"coredump: {_PID}\(|Pid {_PID}\(|Process {_PID}\("), "fs/coredump.c"),
    (_message(r"process '.*' started with executable stack"), "fs/exec.c"),
    (_message(rf"futex_wake_op: {_NAME} tries to shift "), "kernel/futex/syscalls.c"),
    (_message(rf"TCP: {_NAME}\({_PID}\): "), "net/ipv4/tcp.c"),
    (_message(r"(?:[\w.:-]+ ){0,3}\S{1,15}(?:: renamed from| (?:entered|left) \w+ mode)"), "net/core/dev.c"),
    (_message(r"IPv6: ADDRCONF\("), "net/ipv6/addrconf.c"),
    (_message(rf"\S{{1,15}}: port \d+\({_NAME}\) entered "), "net/bridge/br_stp.c"),
    (_message(r"\w+: (?:Unknown parameter|Bad value for) '"), "fs/fs_context.c, fs/fs_parser.c"),
    (_message(r"cgroup\d?: .*?[Uu]nknown (?:option|subsys)"), "kernel/cgroup/cgroup.c, cgroup-v1.c"),
)  # fmt: skip
#: Messages that may be about the machine, with a name in them: pattern, source. What the two groups have stays.
_NAMED: tuple[tuple[re.Pattern[str], str], ...] = (
    (_message(rf"(\bname=){_NAME}(?=,)()"), "NVIDIA driver, Xid: pid and name of the process"),
    (_message(rf"(`){_NAME}(')"), "lib/nlattr.c, kernel/capability.c, net/core/sock.c"),
    (_message(rf"(\bthe client '){_NAME}(' \(pid )"), "NVIDIA driver, API mismatch"),
    (_message(rf"(\b[Pp]rocess ){_NAME}(,? pid {_PID})"), "drivers/gpu/drm/amd/amdgpu"),
    (_message(rf"(\bthread ){_NAME}(,? pid {_PID})"), "drivers/gpu/drm/amd/amdgpu"),
    (_message(rf"(\b[Pp]rocess (?:{_PID} )?\(?){_NAME}( ?\(pid: |\) did not claim )"), "arch/*/kernel/traps.c"),
    (_message(rf"(\bPID: {_PID} Comm: ){_NAME}()(?= |$)"), "lib/dump_stack.c"),
    (_message(rf"(\bin process ){_NAME}(  ?p\w+:)"), "mm/memory.c, mm/page_alloc.c"),
    (_message(rf"(\bpid={_PID} '){_NAME}(')"), "mm/memfd.c"),
    (_message(rf"(\bscheduling while atomic: ){_NAME}(/{_PID}/)"), "kernel/sched/core.c"),
    (_message(rf"(\bnote: ){_NAME}(\[{_PID}\] exited )"), "kernel/exit.c"),
    (_message(rf"(\bstuck for \d+s! \[){_NAME}(:{_PID}\])"), "kernel/watchdog.c"),
    (_message(rf"((?:\bto|\bKilling) ){_NAME}(:{_PID} due to )"), "mm/memory-failure.c, arch/x86 mce/core.c"),
    (_message(rf"(\bcomm ){_NAME}(?=: |,)()"), "fs/ext4/super.c"),
)  # fmt: skip
#: Between the first and the last quotation mark of a kind; one within a word is none.


def _any(rows: Sequence[tuple[re.Pattern[str], str]]) -> re.Pattern[str]:
    """One look in the place of dozens: a storm has a hundred thousand lines of which none fits."""
    return _message("|".join(f"(?:{pattern.pattern})" for pattern, _source in rows))


_ANY_USERS, _ANY_NAMED = _any(ABOUT_USERS), _any(_NAMED)
_QUOTED = _message(r"(?<!\w)'.*'|(?<!\w)\".*\"")
#: What begins so tells of a part of the machine, and users have no words in it but those above.
_OF_THE_MACHINE = _message(
    r"(?:\{\d+\})?\[Hardware Error\]|(?:NVRM|nvidia|amdgpu|EDAC|mce|pcieport|nvme|Memory failure)"
)


@lru_cache(maxsize=512)  # a storm is mostly one line again and again, and each is asked for twice
def kernels_own(text: str) -> str:
    """What the kernel says by itself in a message; empty where that is about a process alone."""
    if _ANY_USERS.match(text):
        return ""
    if _ANY_NAMED.search(text):
        for pattern, _source in _NAMED:
            text = pattern.sub(r"\1?\2", text)
    # What the kernel quotes elsewhere was given to it: options of a mount, files, names.
    return text if _OF_THE_MACHINE.match(text) else _QUOTED.sub("?", text)
