# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No process fails a node by its name, nor by a crash of its own: wherever the kernel prints the name of one."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import (
    Names,
    incidents,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.records import records_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.whole import lost
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

#: Messages about a process alone, of x86 and arm64; {} is its name.
HARMLESS = (
    "{}[4242]: segfault at 0 ip 000055d0 sp 00007ffd error 4 in python3.12[55d0+1000] likely on CPU 3 (core 3)",
    "{}[4242]: unhandled exception: DABT (lower EL), ESR 0x0000000092000004, level 0 translation fault in lib.so[1+2]",
    "{}[4242] bad frame in rt_sigreturn frame:000 ip:55d0 sp:7ffd orax:f in lib.so[55d0+1000]",
    "{}[4242] vsyscall attempted with vsyscall=none ip:ffff cs:33 sp:7ffd ax:0 si:0 di:0",
    "traps: {}[4242] general protection fault ip:55d0 sp:7ffd error:0 in python3.12[55d0+1000]",
    "traps: {}[4242] trap invalid opcode ip:55d0 sp:7ffd error:0 in python3.12[55d0+1000]",
    "umip: {}[4242] ip:55d0 sp:7ffd: SGDT instruction cannot be used by applications.",
    "{}[4242]: memfd_create() called without MFD_EXEC or MFD_NOEXEC_SEAL set",
    "memfd_create() without MFD_EXEC nor MFD_NOEXEC_SEAL, pid=4242 '{}'",
    "x86/split lock detection: #AC: {}/4242 took a split_lock trap at address: 0x55d0",
    "{}: potentially unexpected fatal signal 11.",
    "{} invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0",
    "[   4242]  1000  4242   123456    78901    77000     1901         0   778240        0             0 {}",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,task_memcg=/user.slice,task={},pid=4242,uid=0",
    "Memory cgroup out of memory: Killed process 4242 ({}) total-vm:123456kB, anon-rss:78901kB, UID:1000",
    "oom_reaper: reaped process 4242 ({}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    "{}: page allocation failure: order:9, mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO), nodemask=(null)",
    "{}: attempt to access beyond end of device",
    "INFO: task {}:4242 blocked for more than 122 seconds.",
    "task:{}   state:D stack:0     pid:4242  tgid:4242  ppid:1      flags:0x00004006",
    "{} (4242): drop_caches: 3",
    "{} (4242) used greatest stack depth: 10968 bytes left",
    "CPU: 3 UID: 0 PID: 4242 Comm: {} Tainted: G        W  OE      6.8.0-50-generic #51-Ubuntu",
    "Process {} (pid: 4242, stack limit = 0x00000000)",
    'ptrace attach of "{}"[4242] was attempted by "{}"[4243]',
    "coredump: 4242({}): Core dump to |/usr/lib/systemd/systemd-coredump pipe failed",
    "process '/tmp/{}' started with executable stack",
    "netlink: 12 bytes leftover after parsing attributes in process `{}'.",
    "capability: warning: `{}' uses deprecated v2 capabilities in a way that may be insecure",
    "futex_wake_op: {} tries to shift op by -1; fix this program",
    "usb 1-1: usbfs: process 4242 ({}) did not claim interface 0 before use",
    "EXT4-fs error (device nvme0n1p1): ext4_lookup:1234: inode #2: comm {}: deleted inode referenced: 12",
    "NVRM: API mismatch: the client '{}' (pid 4242)\nNVRM: has the version 550.54.15, but this kernel module has",
    "amdgpu 0000:c1:00.0: amdgpu:  in process {} pid 4242 thread {} pid 4243",
    "tmpfs: Unknown parameter '{}'",
    "overlay: Bad value for '{}'",
    'cgroup: cgroup: unknown option "{}"',
    "br0: port 1({}) entered blocking state",
    "overlayfs: failed to resolve '{}': -2",
    'a message that nobody knows of the option "{}" of a mount',
)  # fmt: skip
#: Messages that judge the node whatever the name in them is.
JUDGED = (
    "NVRM: Xid (PCI:0000:9b:00): 31, pid=4242, name={}, Ch 00000008, intr 00000000. MMU Fault",
    "NVRM: Xid (PCI:0000:9b:00): 145, pid=4242, name={}, RLW_RXPIPE Nonfatal XC0 i0 Link -1 (0x0)",
    "NVRM: Xid (PCI:0000:9b:00): 149, pid=4242, name={}, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 0x0)",
    "NVRM: Xid (PCI:0000:9b:00): 79, pid=4242, name={}, GPU has fallen off the bus.",
    "Memory failure: 0x3f0a12: Sending SIGBUS to {}:4242 due to hardware memory corruption",
    "watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [{}:4242]",
    "BUG: Bad page map in process {}  pte:ffff pmd:1234",
    "amdgpu 0000:c1:00.0: amdgpu: ring gfx_0.0.0 timeout: Process information: process {} pid 4242 thread {} pid 4243",
)  # fmt: skip
#: Of fifteen characters at most, as a process may name itself.
EVIL = (
    "EDAC MC0: 1 UE", "EDAC MC0: 1 UE ", "EDAC MC0: 99 CE", "SXid 12028", "Xid 79", "NVRM: Xid 79", "Oops: 0002 [#1]",
    "GPU xid 79", "AB Nonfatal XC", ",AB Fatal XC0", "a, Xid 79, b", "GPU reset begin", "9 lines lost", "a\nSXid 12028",
    "SXid:12028", "nvidia: xid=79", "SXid[1]: 12028", "x) SXid 12028", "x' SXid 1", "x: Xid 79", "a pid 1 Xid 79",
    "\x01\x02\x03SXid 12028",
)  # fmt: skip
#: The names of files are longer.
FILES = ("NVRM: Xid (PCI:0000:9b:00): 79", "EDAC MC0: 1 UE on x (", "{1}[Hardware Error]: event severity: fatal")


def outcome(text: str) -> tuple[str, list[tuple[str, str, str]], str]:
    """What the gate makes of one record of the kernel's ring, which spells out what cannot be printed."""
    shown = "".join(c if " " <= c <= "~" and c != "\\" else f"\\x{b:02x}" for c in text for b in c.encode()[:4])
    sheet, names = Sheet(), Names({}, {})
    for cell in ("xid", "sxid", "kernel"):
        sheet.require(cell, "node")
    record = f"6,5000,99000000,-;{shown}"
    lines = records_of(record, [record])
    assert lines is not None
    [line] = lines
    judge(sheet, [one for _line, one in incidents(lines, names)], names)
    return sheet.verdict, [(one.id, one.entity, one.remedy) for one in sheet.findings], lost(line.text)


@pytest.mark.parametrize("form", HARMLESS, ids=range(len(HARMLESS)))
def test_no_process_fails_a_node_by_its_name(form: str) -> None:
    for name in EVIL:
        assert outcome(form.replace("{}", name)) == ("pass", [], ""), name


@pytest.mark.parametrize("form", JUDGED, ids=range(len(JUDGED)))
def test_what_the_kernel_says_of_the_machine_counts_whatever_the_name_of_the_process(form: str) -> None:
    wanted = outcome(form.replace("{}", "python"))
    assert wanted[1] or form.startswith("BUG: Bad page"), "or the message is one of those above"
    for name in EVIL:
        assert outcome(form.replace("{}", name)) == wanted, name


def test_the_name_of_a_file_that_crashes_is_no_evidence_either() -> None:
    for form in (form for form in HARMLESS if "python3.12" in form or "lib.so" in form or "/tmp/{}" in form):
        for file in FILES:
            text = form.replace("/tmp/{}", file).replace("python3.12", file).replace("lib.so", file)
            assert outcome(text.replace("{}", "x")) == ("pass", [], ""), text


def test_quotation_marks_hide_nothing_that_the_kernel_says_of_the_machine() -> None:
    for text in (
        "NVRM: GPU 0000:9b:00.0: 'RmInitAdapter failed!' (0x22:0x56:762)",
        "a driver that doesn't know it, and isn't asked: EDAC MC0: 1 UE memory read error on CPU 1, isn't it",
        "EDAC MC0: 1 UE memory read error on 'CPU 1'",
    ):
        assert outcome(text)[0] == "fail", text


def test_a_count_of_edac_without_its_place_is_none_of_edac() -> None:
    for count in ("1 UE", "101 CE"):
        assert outcome(f"a message that nobody knows of EDAC MC0: {count}[4242]: x") == ("pass", [], "")
        assert outcome(f"EDAC MC0: {count} memory read error on CPU_SrcID#0_MC#0 (channel:0)")[0] == "fail"


def test_an_audit_record_is_no_evidence() -> None:
    assert outcome('audit: type=1701 audit(1.0:2): pid=4242 comm="SXid:12028" exe="/tmp/SXid:1" sig=6')[0] == "pass"


def test_an_interface_that_is_named_so_is_no_evidence() -> None:
    for text in ("SXid12028: renamed from eth0", "device SXid12028 entered promiscuous mode"):
        assert outcome(text) == ("pass", [], "")


@settings(max_examples=at_most(60), deadline=None)
@given(
    st.sampled_from((*HARMLESS, *JUDGED)),
    st.tuples(st.text(max_size=3), st.sampled_from(EVIL), st.text(max_size=3)),
)
def test_a_name_of_fifteen_bytes_changes_no_verdict(form: str, parts: tuple[str, ...]) -> None:
    name = "".join(parts).replace("\0", "").encode("utf-8", "replace")[:15].decode("utf-8", "ignore")
    assert outcome(form.replace("{}", name)) == outcome(form.replace("{}", "x")), name


@pytest.mark.parametrize(
    "text",
    [
        "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] PREEMPT SMP NOPTI",
        "Oops: general protection fault, kernel NULL pointer dereference 0x8: 0000 [#1] SMP",
        "Internal error: Oops: 0000000096000004 [#1] SMP",
        "BUG: unable to handle page fault for address: ffff8881",
        "EDAC MC0: 1 UE on CPU_SrcID#0_MC#0 (channel:0 page:0x0 offset:0x0 grain:32)",
        "[4242] NVRM: Xid (PCI:0000:9b:00): 79, pid=4242, name=x, GPU has fallen off the bus.",
        "quiet[4242]: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
    ],
)
def test_a_crash_of_the_kernel_and_a_fault_behind_any_prefix_still_count(text: str) -> None:
    assert outcome(text)[0] == "fail"
