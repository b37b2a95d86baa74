# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel logs of the machine beside NVIDIA's GPUs: PCIe, machine checks, memory, NVMe drives, AMD's GPUs.
PRIVATE to the collection. The table goes on in ``parts``.

What was corrected is no fault, so it is told, and counts only where it goes on and on.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import parts
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.row import ADDRESS, Row, row

_DRIVE = r"(?P<where>nvme\d{1,6})"
_AMD = rf"\bamdgpu {ADDRESS}: "
_NOT_WANTED = r"(?!.*\((?:DISCARD|WRITE_ZEROES)\))"
_AER = "Linux v6.12 drivers/pci/pcie/aer.c"
_DPC = "Linux v6.12 drivers/pci/pcie/dpc.c"
_GHES = "Linux v6.12 drivers/acpi/apei/ghes.c"
_MCE = "Linux v6.12 arch/x86/kernel/cpu/mce/core.c: bit 61 of the status says that it was not corrected"
_MCE_AMD = "Linux v6.12 drivers/edac/mce_amd.c"
_EDAC = "Linux v6.12 drivers/edac/edac_mc.c"
_POISON = "Linux v6.12 mm/memory-failure.c"
_NVME = "Linux v6.12 drivers/nvme/host/pci.c"
_BLOCK = "Linux v6.12 block/blk-mq.c; the kind of error is of blk_errors"
_RAS = "Linux v6.12 drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c"
_RAS_REBOOT = f"{_RAS}; what went on after it is not defined (ROCm/rocm-systems#3766), so more than a reset"
_AMDGPU = "Linux v6.12 drivers/gpu/drm/amd/amdgpu/amdgpu_device.c"
#: Now and then an error is corrected on each machine; so many of one part within a day are a part that goes bad (as
#: mcelog has it, etc/mcelog.conf: mem-ce-error-threshold = 100 / 24h).
MANY = 100
DAY_SECONDS = 86400.0
UNNAMED = "unnamed"
_REPORT = r"\[Hardware Error\]"


#: The first that fits names a message.
ROWS: tuple[Row, ...] = (
    row(
        "pcie_fatal",
        rf"(?:\b{ADDRESS}: .*severity=|AER: .*?)\bUncorrect(?:ed|able) \(Fatal\)",
        "PCIe: an error that was not corrected, and that broke the link",
        "reseat",
        _AER,
    ),
    row(
        "pcie_nonfatal",
        rf"(?:\b{ADDRESS}: .*severity=|AER: .*?)\bUncorrect(?:ed|able) \(Non-?Fatal\)",
        "PCIe: an error that was not corrected, and that broke one transfer",
        "retest",
        _AER,
    ),
    row(
        "pcie_corrected",
        rf"\b{ADDRESS}: .*severity=Correct(?:ed|able)\b",
        "PCIe: corrected errors",
        "reseat",
        _AER,
        MANY,
    ),
    row(
        "pcie_unrecovered",
        rf"\b{ADDRESS}: AER: [Dd]evice recovery failed",
        "PCIe: a device did not recover from an error",
        "power_cycle",
        "Linux v6.12 drivers/pci/pcie/err.c",
    ),
    row(
        "pcie_contained",
        rf"\b{ADDRESS}: DPC: containment event",
        "PCIe: the port cut off what is behind it",
        "reseat",
        _DPC,
    ),
    row(
        "firmware_fatal",
        r"\[Hardware Error\]: event severity: (?:fatal|recoverable)\b",
        "the firmware reports an error that was not corrected",
        "field_diag",
        _GHES,
    ),
    row(
        "firmware_corrected",
        r"\[Hardware Error\]: event severity: corrected\b",
        "the firmware reports corrected errors",
        "field_diag",
        _GHES,
        MANY,
    ),
    row(
        "mce",
        r"\[Hardware Error\]: (?P<where>CPU \d{1,6}): Machine Check(?: Exception)?: [0-9a-f]{1,16} "
        r"Bank \d{1,4}: [2367abefABEF][0-9a-fA-F]{15}\b",
        "machine check: an error that was not corrected",
        "field_diag",
        _MCE,
    ),
    row(
        "mce_exception",
        r"\[Hardware Error\]: (?P<where>CPU \d{1,6}): Machine Check Exception: ",
        "machine check exception",
        "field_diag",
        _MCE,
    ),
    row(
        "mce_corrected",
        r"\[Hardware Error\]: (?P<where>CPU \d{1,6}): Machine Check: ",
        "machine check: corrected errors",
        "field_diag",
        _MCE,
        MANY,
    ),
    row(
        "mce_fatal",
        r"\[Hardware Error\]: (?:System Fatal error|Uncorrected, software (?:restartable|containable) error)\.",
        "machine check: an error that was not corrected",
        "field_diag",
        _MCE_AMD,
    ),
    row(
        "mce_deferred",
        r"\[Hardware Error\]: Deferred error, no action required\.",
        "machine check: wrong data that nobody has used yet",
        "field_diag",
        _MCE_AMD,
    ),
    row(
        "mce_amd_corrected",
        r"\[Hardware Error\]: Corrected error, no action required\.",
        "machine check: corrected errors",
        "field_diag",
        _MCE_AMD,
        MANY,
    ),
    row(
        "memory_uncorrected",
        r"\bEDAC (?P<where>MC\d{1,4}): (?:UE (?:row|page) |\d{1,9} UE (?:.* )?on \S)",
        "memory: an error that was not corrected",
        "rma",
        f"{_EDAC}; UE row: v3.4",
    ),
    row(
        "mce_logged",
        r"\[Hardware Error\]: Machine check events logged",
        "machine check: errors that the kernel corrected, or gave to a daemon",
        "field_diag",
        f"{_MCE}; what nobody takes is written out",
        MANY,
    ),
    row(
        "firmware_info",
        r"\[Hardware Error\]: event severity: info",
        "the firmware tells of something that is no error",
        "none",
        _GHES,
    ),
    row(
        UNNAMED,
        r"\[Hardware Error\]: ",
        "a report of an error without the line that says of what kind",
        "retest",
        "own rule: what nobody knows is no pass",
    ),
    row(
        "memory_corrected",
        r"\bEDAC (?P<where>MC\d{1,4}): (?P<new>\d{1,9}) CE (?:.* )?on \S",
        "memory: corrected errors",
        "field_diag",
        _EDAC,
        MANY,
    ),
    row("memory_poisoned", r"\bMemory failure: 0x[0-9a-f]+: ", "memory: a page was given up", "rma", _POISON),
    row(
        "nvme_gone",
        rf"\bnvme {_DRIVE}: (?:controller is down; will reset|Removing after probe failure|"
        r"Disabling device after reset failure|Device not ready; aborting|Identify Controller failed)",
        "the drive does not answer",
        "power_cycle",
        _NVME,
    ),
    row("nvme_frozen", rf"\bnvme {_DRIVE}: frozen state error detected", "the drive was cut off", "reseat", _NVME),
    row("nvme_late", rf"\bnvme {_DRIVE}: I/O .*\btimeout, ", "the drive did not answer in time", "retest", _NVME),
    row(
        "nvme_medium",
        rf"\bcritical medium error, dev {_DRIVE}|\b(?P<drive>nvme\d{{1,6}})n\d+: .*\(sct 0x2 / sc 0x8",
        "the drive cannot read or write a place",
        "rma",
        f"{_BLOCK}; NVM Express Base Specification 2.0, status code type 2h",
    ),
    row(
        "nvme_error",
        rf"\b(?:I/O|critical target|critical nexus) error, dev {_DRIVE}\S*,{_NOT_WANTED}",
        "the drive answered with an error",
        "field_diag",
        f"{_BLOCK}; what it need not be able to do (DISCARD, WRITE_ZEROES) is none",
    ),
    row(
        "amd_uncorrected",
        _AMD + r".*\b[1-9]\d*(?: new)? uncorrectable hardware errors? detected",
        "an error of the GPU that was not corrected",
        "reboot",
        _RAS_REBOOT,
    ),
    row(
        "amd_fatal",
        _AMD + r".*\b[Uu]ncorrectable hardware error ?\(",
        "an error of the GPU that stopped it",
        "reboot",
        _RAS_REBOOT,
    ),
    row(
        "amd_deferred",
        _AMD + r".*\b[1-9]\d*(?: new)? deferred hardware errors? detected",
        "wrong data in the GPU's memory that nobody has used yet",
        "reset_gpu",
        _RAS,
    ),
    row(
        "amd_corrected",
        _AMD + r".*\b(?:(?P<new>[1-9]\d{0,17}) new|(?P<all>[1-9]\d{0,17})) correctable hardware errors? detected",
        "corrected errors of the GPU",
        "field_diag",
        _RAS,
        MANY,
    ),
    row(
        "amd_worn",
        _AMD + r".*(?:RAS records:\s*\d+ exceeds? threshold|Replace this GPU)",
        "the GPU's memory has more bad pages than it may",
        "rma",
        "Linux v6.12 drivers/gpu/drm/amd/amdgpu/amdgpu_ras_eeprom.c",
    ),
    row(
        "amd_lost",
        _AMD + r".*(?:device lost from bus|Fatal error during GPU init|GPU reset end with ret = -)",
        "the GPU is lost, or did not come back from a reset",
        "power_cycle",
        _AMDGPU,
    ),
    row(
        "amd_reset",
        _AMD + r".*(?:GPU reset begin|ring \S+ timeout)",
        "the GPU stopped answering, and was reset",
        "retest",
        f"{_AMDGPU}; a program can do that as well",
    ),
    *parts.ROWS,
)
BY_NAME = {one.name: one for one in ROWS}
#: Each of these messages has one of these words.
SIGNS = ("hardware error", "severity=", "aer: ", "dpc: ", "edac ", "memory failure", "nvme", *parts.SIGNS)


def told(text: str) -> Optional[tuple[str, str]]:
    """The name of what a message tells, and the part it is about; None where it tells nothing of the kind."""
    lower = text.lower()
    if text.isascii() and not any(sign in lower for sign in SIGNS):
        return None
    for one in ROWS:
        match = one.pattern.search(text)
        if match:
            groups = match.groupdict()
            cpu = f"CPU {groups['cpu']}" if groups.get("cpu") else ""
            where = groups.get("where") or groups.get("drive") or cpu or _named(text)
            return one.name, where if where.startswith("CPU") else where.lower()
    return None


_RECEIVED = re.compile(rf"\b(?:received|from):? {ADDRESS}")


def _named(text: str) -> str:
    """The device that a port says an error came from."""
    match = _RECEIVED.search(text)
    return str(match.group("where")) if match else ""


def number(name: str, logged: Iterable[tuple[Optional[float], str]]) -> int:
    """How many errors these messages of one kind and part tell of: by their own count where they have one. Of a kind of
    which some are borne, as many as came within one day; what has no time came at once. logged: time and text.
    """
    kind = BY_NAME[name]
    told = [(at, match.groupdict()) for at, text in logged if (match := kind.pattern.search(text))]
    if not kind.most or any(at is None for at, _groups in told):
        told = [(None, groups) for _at, groups in told]
    told.sort(key=lambda one: one[0] or 0.0)
    times, new, grown = [at or 0.0 for at, _groups in told], [0], [0]
    before = 0
    for _at, groups in told:
        new.append(new[-1] + int(groups.get("new") or 0))
        # What is not called new was counted from the driver's start, the earlier ones among them.
        every = int(groups.get("all") or 0)
        grown.append(grown[-1] + (every - before if every >= before else every))
        before = every or before
    days = [(bisect_left(times, last - DAY_SECONDS), end) for end, last in enumerate(times, 1)]
    return max(max(end - at, new[end] - new[at] or grown[end] - grown[at]) for at, end in days)


_NUMBER = re.compile(rf"(?:\bamdgpu {ADDRESS}: .*)?\{{(?P<number>\d{{1,20}})\}}\[Hardware Error\]")


#: What belongs to a report of a machine check, which has no number (mce/core.c, mce_amd.c): its heads and its details.
_OF_MCE = re.compile(
    r"\[Hardware Error\]: (?:CPU \d{1,6}: Machine Check|RIP[ !]|TSC |PROCESSOR |PPIN: |Run the above through |"
    r"No human readable |This is not a software problem|CPU:\d{1,6} \(|Error Addr: |IPID: |[\w /]* Ext\. Error Code: |"
    r"cache level: |MC\d Error|Corrected error|Deferred error|System Fatal error|Uncorrected, software)"
)
#: What no other report's head tells: of a machine check, or worse than that head can be.
_ITS_OWN = re.compile(r"\b(?:mce|MCE): |\btype: (?:fatal|recoverable)\b")


def report_of(text: str) -> tuple[str, str]:
    """The report that a line belongs to, by whose count and by its number there; without one, by its kind."""
    match = _NUMBER.search(text)
    if match:
        return match.group("where") or "", match.group("number")
    if _OF_MCE.search(text):
        return "", "of a machine check"
    return "", "" if _ITS_OWN.search(text) else "of the firmware"


def told_by_head(told_of: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The reports whose head tells what they are, so that their other lines are no errors; told_of: name and text.

    That events were logged heads no report: it says nothing of what they were.
    """
    heads = {one.name for one in ROWS if one.pattern.pattern.startswith(_REPORT)} - {UNNAMED, "mce_logged"}
    return {report_of(text) for name, text in told_of if name in heads} - {("", "")}
