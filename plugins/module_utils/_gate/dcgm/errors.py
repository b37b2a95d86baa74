# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What helps against each DCGM error: the remedy table of the DCGM gate. PRIVATE to the collection.

One row an error id. The remedy is ours. DCGM's own severity is a hint and no more: it was changed for the same fault
between releases (80 was ISOLATE until 4.5.3 and is RESET since), it calls a missing GPU a matter of configuration
(20), and it asks for a reset where an X server runs (25). It decides for an id that this table does not know, and it
can make a remedy heavier: what DCGM wants isolated is not merely measured again.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

#: Where a remedy comes from. The ids and their meaning are those of dcgm_errors.h; ids were never renumbered.
_H = "NVIDIA/DCGM v4.6.0 dcgm_errors.h"
_SENTINEL = "NVIDIA/NVSentinel dcgmerrorsmapping.csv b6180c37"
_RMA = "NVIDIA GPU memory error management: a failed row remap or an exceeded retirement limit is an RMA condition"
_BUS = "own rule: a link or a device that is short is first a matter of seating, whatever the severity says"
_ENV = "own rule: the machine's set-up, not its hardware, is at fault"
_RETEST = "own rule: says nothing about the hardware; measure again"
_XID = "NVIDIA Xid catalogue 2025-10-29, the Xid behind this error"


class Row(NamedTuple):
    """words: for a person, in ours. remedy: of verdict.REMEDIES. source: why that remedy."""

    words: str
    remedy: str
    source: str


ERRORS: dict[int, Row] = {
    0: Row("an error without a cause", "retest", _RETEST),
    1: Row("unknown error", "field_diag", "own rule: what nobody knows is not retried for ever"),
    2: Row("unrecognised error", "field_diag", "own rule: what nobody knows is not retried for ever"),
    3: Row("too many PCIe replays", "reseat", _BUS),
    4: Row("uncorrectable memory error since the last reset", "reset_gpu", _SENTINEL),
    5: Row("too many corrected memory errors", "retest", _H),
    6: Row("memory pages wait for retirement", "reset_gpu", _H),
    7: Row("too many retired memory pages", "rma", _RMA),
    8: Row("too many memory pages retired for uncorrectable errors", "rma", _RMA),
    9: Row("InfoROM is corrupt", "field_diag", _H),
    10: Row("clocks lowered for heat", "retest", _H),
    11: Row("power cannot be read", "reboot", _SENTINEL),
    12: Row("clocks lowered for power", "retest", _H),
    13: Row("too many NVLink errors", "field_diag", _H),
    14: Row("NVLink is down", "reboot", _SENTINEL),
    15: Row("fatal NVSwitch error", "field_diag", _SENTINEL),
    16: Row("non-fatal NVSwitch error", "retest", _H),
    17: Row("NVSwitch is down", "reboot", _SENTINEL),
    18: Row("a file cannot be read", "remediate_config", _ENV),
    19: Row("NVML error", "retest", _RETEST),
    20: Row("the driver and the device files disagree on the number of GPUs", "reseat", _BUS),
    21: Row("DCGM was called with a bad parameter", "remediate_config", _ENV),
    22: Row("a library cannot be opened", "remediate_config", _ENV),
    23: Row("a driver is loaded that must not be (nouveau)", "remediate_config", _ENV),
    24: Row("the NVML library is incomplete", "remediate_config", _ENV),
    25: Row("graphics processes run on the GPU", "remediate_config", _ENV),
    26: Row("the DCGM host engine does not answer", "remediate_config", _ENV),
    27: Row("a field cannot be read", "retest", _RETEST),
    28: Row("environment variables disturb CUDA", "remediate_config", _ENV),
    29: Row("persistence mode is off", "remediate_config", _ENV),
    30: Row("PCIe bandwidth is too low", "reseat", _BUS),
    31: Row("PCIe latency is too high", "reseat", _BUS),
    32: Row("DCGM does not know a field", "retest", _RETEST),
    33: Row("an error counter is not zero", "field_diag", _H),
    34: Row("a counter is above its limit", "retest", _H),
    35: Row("an error counter is not zero", "field_diag", _H),
    36: Row("a counter is above its limit", "field_diag", _H),
    37: Row("a field has a type that DCGM cannot read", "retest", _RETEST),
    38: Row("a counter rose above its limit during the test", "field_diag", _H),
    39: Row("a counter rose above its limit during the test", "field_diag", _H),
    40: Row("clocks were cut for heat", "reseat", "own rule: look at fans, heat sink and inlet"),
    41: Row("clocks were cut for heat during the test", "reseat", "own rule: look at fans, heat sink and inlet"),
    42: Row("too hot", "reseat", "own rule: look at fans, heat sink and inlet"),
    43: Row("clocks were lowered for a reason that is not benign", "reboot", _SENTINEL),
    44: Row("internal error of DCGM", "retest", _RETEST),
    45: Row("PCIe generation is too low", "reseat", _BUS),
    46: Row("PCIe link is too narrow", "reseat", _BUS),
    47: Row("the test was stopped by a signal", "retest", _RETEST),
    48: Row("DCGM does not allow this test on this GPU", "remediate_config", _ENV),
    49: Row("a measurement is missing", "retest", _RETEST),
    50: Row("stress performance is too low", "reboot", _SENTINEL),
    51: Row("a CUDA call failed", "retest", _H),
    52: Row("faulty memory", "field_diag", _SENTINEL),
    53: Row("DCGM cannot watch its fields", "reboot", _SENTINEL),
    54: Row("the CUDA context was lost", "reboot", _SENTINEL),
    55: Row("ECC is off", "remediate_config", _ENV),
    56: Row("GPU memory cannot be allocated", "reboot", _SENTINEL),
    57: Row("double-bit memory error seen by CUDA", "field_diag", _SENTINEL),
    58: Row("memory returned something else than was written", "field_diag", _SENTINEL),
    59: Row("CUDA does not see the GPU", "reboot", _H),
    60: Row("this GPU has no ECC", "remediate_config", _ENV),
    61: Row("a change of the ECC mode is pending", "reboot", _SENTINEL),
    62: Row("memory bandwidth is too low", "reboot", _SENTINEL),
    63: Row("the target power is not reached", "retest", _H),
    64: Row("a call of the driver failed", "reboot", _SENTINEL),
    65: Row("a call of the driver failed for this GPU", "reboot", _SENTINEL),
    66: Row("no CUDA context can be made", "reboot", _H),
    67: Row("a call of DCGM failed", "reboot", _SENTINEL),
    68: Row("the test needs several GPUs", "remediate_config", _ENV),
    69: Row("more errors than DCGM can report", "retest", _RETEST),
    70: Row("NVLink CRC errors above 100 a second", "field_diag", _SENTINEL),
    71: Row("an NVLink counter that must be zero is not", "field_diag", _SENTINEL),
    72: Row("the power limit is set too low for the test", "remediate_config", _ENV),
    73: Row("host memory cannot be allocated", "remediate_config", _ENV),
    74: Row("the GPU's operating mode is wrong", "remediate_config", _ENV),
    75: Row("no fitting memory clock", "retest", _RETEST),
    76: Row("no fitting graphics clock", "retest", _RETEST),
    77: Row("DCGM had to restore the GPU's state", "reboot", _SENTINEL),
    78: Row("this GPU has no L1 tag test", "remediate_config", _ENV),
    79: Row("L1 cache returned something else than was written", "field_diag", _SENTINEL),
    80: Row("row remap failure", "rma", _RMA),
    81: Row("uncontained memory error (Xid 95)", "reset_gpu", _XID),
    82: Row("the test was given no GPU", "remediate_config", _ENV),
    83: Row("memory pages wait for retirement after an uncorrectable error", "reset_gpu", _H),
    84: Row("a memory row was remapped for an uncorrectable error", "reset_gpu", _H),
    85: Row("a row remap waits for a reset", "reset_gpu", _H),
    86: Row("copies to this GPU's memory arrive damaged", "field_diag", _H),
    87: Row("copies from this GPU arrive damaged", "field_diag", _H),
    88: Row("an NVLink of an NVSwitch is down", "reboot", _H),
    89: Row("the field diagnostic may not be run", "remediate_config", _ENV),
    90: Row("the field diagnostic needs root", "remediate_config", _ENV),
    91: Row("the field diagnostic did not start", "remediate_config", _ENV),
    92: Row("the field diagnostic timed out", "retest", _RETEST),
    93: Row("the field diagnostic did not end", "retest", _RETEST),
    94: Row("the field diagnostic ended with an error", "retest", _RETEST),
    95: Row("the field diagnostic failed", "rma", "own rule: the remedy of field_diag has been applied, and said no"),
    96: Row("a file cannot be written", "remediate_config", _ENV),
    97: Row("DCGM could not pause or resume", "retest", _RETEST),
    98: Row("correctable PCIe errors", "reseat", _BUS),
    99: Row("fewer NVLinks are up than expected", "reboot", _SENTINEL),
    100: Row("fewer NVLinks of an NVSwitch are up than expected", "reboot", _SENTINEL),
    101: Row("an Xid was raised", "reset_gpu", "own rule: kernel_log_gate names the Xid"),
    102: Row("corrected memory errors", "field_diag", _SENTINEL),
    103: Row("uncorrectable memory errors", "field_diag", _SENTINEL),
    104: Row("PCIe replays", "reseat", _BUS),
    105: Row("corrected memory errors above the limit", "field_diag", _SENTINEL),
    106: Row("uncorrectable memory errors above the limit", "field_diag", _SENTINEL),
    107: Row("PCIe replays above the limit", "reseat", _BUS),
    108: Row("Fabric Manager is not ready", "remediate_config", _ENV),
    109: Row("fatal NVSwitch error (SXid)", "reboot", _SENTINEL),
    110: Row("computing speed is too low", "field_diag", _H),
    111: Row("a computation gave no number", "field_diag", _SENTINEL),
    112: Row("Fabric Manager did not finish the training of the links", "reboot", _SENTINEL),
    113: Row("copies to this GPU over PCIe arrive damaged", "field_diag", _H),
    114: Row("copies from this GPU over PCIe arrive damaged", "field_diag", _H),
    115: Row("copies to this GPU over NVLink arrive damaged", "field_diag", _H),
    116: Row("copies from this GPU over NVLink arrive damaged", "field_diag", _H),
    117: Row("the test was skipped", "remediate_config", _ENV),
    118: Row("SRAM error limit exceeded", "rma", _RMA),
    119: Row("NVLink effective bit error rate is too high", "field_diag", _H),
    120: Row("the GPU has fallen off the bus", "power_cycle", _XID),
    121: Row("NVLink symbol error rate is too high", "field_diag", _H),
    122: Row(
        "IMEX is not healthy",
        "remediate_config",
        "NVIDIA/NVSentinel#1471: raised on single-node NVSwitch machines, which have no IMEX domain at all",
    ),
    123: Row("the fabric state of the GPU is wrong", "reboot", _H),
    124: Row("a program may not be run", "remediate_config", _ENV),
    125: Row("the GPU asks for a reset", "reset_gpu", _H),
    126: Row("the GPU asks for a reboot of the node", "reboot", _H),
    127: Row("peer-to-peer traffic must be drained", "reset_gpu", _H),
    128: Row("the GPU runs at reduced capacity and asks for a reset", "reset_gpu", _H),
    129: Row("NCCL failed", "reset_gpu", _H),
    130: Row("DCGM asks to be run again", "retest", _H),
    131: Row("contained memory error", "reset_gpu", "own rule: the row remap that follows takes effect with a reset"),
    132: Row("limit of remapped rows exceeded", "rma", _RMA),
}

#: DCGM's own severities by major version: the numbers were reassigned in 3.0 (dcgm_errors.h of each tag).
_SEVERITY_2 = {0: "monitor", 1: "isolate", 2: "unknown"}
_SEVERITY = {0: "none", 1: "monitor", 2: "isolate", 3: "unknown", 4: "triage", 5: "config", 6: "reset"}
#: For ids that the table does not know. Never lighter than a look by a person where DCGM would isolate.
_BY_SEVERITY = {
    "none": "field_diag",
    "monitor": "retest",
    "isolate": "field_diag",
    "unknown": "field_diag",
    "triage": "field_diag",
    "config": "remediate_config",
    "reset": "reset_gpu",
}

#: DCGM up to 3.2.5 prints no ids at all: what its sentences mean. The first that occurs decides.
PHRASES: tuple[tuple[str, int], ...] = (
    ("row remap failure", 80),
    ("row remapping failure", 80),
    ("pending row remap", 85),
    ("pending page retirement", 6),
    ("faulty memory", 52),
    ("fallen off the bus", 120),
    ("persistence mode", 29),
    ("ecc memory", 55),
    ("pcie generation", 45),
    ("pci generation", 45),
    ("pcie width", 46),
    ("pci link width", 46),
    ("graphics processes", 25),
    ("inforom", 9),
    ("double bit", 4),
    ("double-bit", 4),
    ("is currently down", 14),
    ("nvlink", 13),
    ("thermal", 40),
    ("bandwidth of gpu", 30),
    ("latency", 31),
    ("memory bandwidth", 62),
)


def _is_retried(row: Row) -> bool:
    return row.remedy in ("none", "retest")


def major(version: str) -> int:
    """The first number of a version; 0 where there is none."""
    head = version.split(".", 1)[0]
    return int(head) if head.isdigit() else 0


#: Remedies for what is wrong with the machine's set-up, or with nothing but the measurement.
_LIGHT = frozenset({"none", "retest", "remediate_config"})


def is_hardware(error_id: Optional[int]) -> bool:
    """Is this error one of the machine itself, by our table?"""
    return error_id in ERRORS and ERRORS[error_id].remedy not in _LIGHT


def isolates(error_id: Optional[int], *, severity: Optional[int], version: str) -> bool:
    """Does DCGM want the GPU isolated for it? Not where our table knows that the set-up is at fault (122)."""
    known = ERRORS.get(error_id) if error_id is not None else None
    return _severity(severity, version) == "isolate" and (known is None or known.remedy != "remediate_config")


def _severity(severity: Optional[int], version: str) -> str:
    scale = _SEVERITY_2 if major(version) == 2 else _SEVERITY
    return scale.get(severity if severity is not None else -1, "unknown")


def look_up(error_id: Optional[int], *, severity: Optional[int] = None, version: str = "", text: str = "") -> Row:
    """The row of an error as this version of DCGM reports it."""
    if error_id is None:
        lowered = text.lower()
        error_id = next((number for phrase, number in PHRASES if phrase in lowered), None)
        if error_id is None:
            return Row("a failure that DCGM gives no id", "field_diag", "own rule: what nobody knows is not retried")
    name = _severity(severity, version)
    if error_id in ERRORS:
        known = ERRORS[error_id]
        return known._replace(remedy="field_diag", source=_H) if name == "isolate" and _is_retried(known) else known
    return Row(f"an error this release does not know (DCGM says {name})", _BY_SEVERITY[name], _H)
