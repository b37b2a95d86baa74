# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What helps against each Xid, wherever a gate reads of one. PRIVATE to the collection.

The catalogue's immediate actions are the start. Where a row departs from them, its source says why. ``none`` is for
what an application did to itself, or for what only tells about another Xid: it is reported, and does not fail a node.
A number that is not here is a failure that a person has to look at.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import NamedTuple

_CATALOG = "NVIDIA Xid catalogue 2025-10-29"
_RMA = "NVIDIA GPU memory error management: a failed row remap is an RMA condition (awsome-distributed-ai#1190)"
_REMAP = "own rule: a node that is to be admitted gets the reset with which a remapped row takes effect"
_LINK5 = "NVIDIA Xid catalogue 2025-10-29, NVLink5 rules; the word in the line decides first"
_SMOOTH = "NVIDIA Xid catalogue 2025-10-29: named, without an action"
_OWN = "own rule: the catalogue names it without an action"


class Row(NamedTuple):
    """words: for a person, in ours. remedy: of verdict.REMEDIES. source: why that remedy."""

    words: str
    remedy: str
    source: str = _CATALOG


def _copy_engine(number: int) -> Row:
    return Row(f"copy engine {number} failed for an application", "none")


def _decoder(name: str) -> Row:
    return Row(f"{name} failed for an application", "none")


XIDS: dict[int, Row] = {
    8: Row("the GPU stopped for an application", "none"),
    11: Row("bad commands of an application", "none"),
    13: Row("an application's kernel failed", "none"),
    14: Row("a faked error", "none"),
    25: Row("bad commands of an application", "none"),
    31: Row("an application touched memory that is not its own", "none"),
    32: Row("bad commands of an application", "none"),
    37: Row("the driver's firmware complained", "none"),
    38: Row("the driver's firmware timed out", "none"),
    **{39 + at: _copy_engine(at) for at in range(3)},
    43: Row("an application's channel was reset", "none"),
    44: Row("a fault while the GPU changed its context", "none"),
    45: Row("an application was cleared away after another error", "none"),
    46: Row("the GPU stopped answering", "reset_gpu"),
    48: Row("double-bit memory error", "reset_gpu", "NVIDIA Xid catalogue 2025-10-29, workflow 48: drain and reset"),
    54: Row("the auxiliary power is not connected", "reseat"),
    60: Row("the video processor failed for an application", "none"),
    62: Row("the GPU's controller halted", "reset_gpu"),
    63: Row("a memory row was remapped and waits for a reset", "reset_gpu", _REMAP),
    64: Row("row remap failure", "rma", _RMA),
    66: Row("the driver touched a register that is not its own", "none"),
    67: Row("the driver touched a register that is not its own", "none"),
    68: _decoder("video decoder 0"),
    69: Row("an application used a class that the GPU does not have", "none"),
    **{70 + at: _copy_engine(3 + at) for at in range(3)},
    74: Row("NVLink error", "reset_gpu", "NVIDIA Xid catalogue 2025-10-29, workflow NVLINK_ERR: reset first"),
    **{75 + at: _copy_engine(6 + at) for at in range(3)},
    78: Row("a vGPU did not start", "remediate_config"),
    79: Row("fallen off the bus", "power_cycle", "NVIDIA Xid catalogue 2025-10-29: restart the machine, then support"),
    80: Row("commands arrived damaged at the GPU", "none"),
    82: _decoder("JPEG engine 0"),
    83: _decoder("video decoder 1"),
    84: _decoder("video decoder 2"),
    85: _copy_engine(9),
    86: _decoder("the optical flow engine"),
    88: _decoder("video decoder 3"),
    89: _decoder("video decoder 4"),
    92: Row("many corrected memory errors", "retest", "own rule: the rate is measured again; the catalogue ignores it"),
    93: Row("the InfoROM is written too often", "none"),
    94: Row("contained memory error", "reset_gpu", _REMAP),
    95: Row("uncontained memory error", "reset_gpu"),
    96: _decoder("video decoder 5"),
    97: _decoder("video decoder 6"),
    98: _decoder("video decoder 7"),
    **{99 + at: _decoder(f"JPEG engine {1 + at}") for at in range(7)},
    106: Row("a test message of the management bus", "none"),
    107: Row("a test message of the management bus", "none"),
    108: Row("a peer's NVLink address was not translated", "none"),
    109: Row("timed out while the GPU changed its context", "reset_gpu"),
    110: Row("security fault", "reset_gpu"),
    119: Row("the GPU's system processor does not answer", "reset_gpu"),
    120: Row("the GPU's system processor failed", "reset_gpu"),
    121: Row("corrected error on the link to the CPU", "none"),
    **{126 + at: _copy_engine(10 + at) for at in range(10)},
    136: Row("the training of a link failed", "reset_gpu"),
    137: Row("a peer touched memory over NVLink that is not its own", "none"),
    139: _decoder("optical flow engine 1"),
    140: Row("memory error that was not recovered from", "reset_gpu"),
    141: Row("CUDA fast path error", "none"),
    142: Row("video encoder 3 failed", "field_diag"),
    143: Row("the GPU could not be initialised", "reset_gpu"),
    144: Row("NVLink error (SAW)", "reset_gpu", _LINK5),
    145: Row("NVLink error (RLW)", "reset_gpu", _LINK5),
    146: Row("NVLink error (TLW)", "reset_gpu", _LINK5),
    147: Row("NVLink error (TREX)", "reset_gpu", _LINK5),
    148: Row("NVLink error (NVLPW)", "reset_gpu", _LINK5),
    149: Row("NVLink error (NETIR)", "reset_gpu", _LINK5),
    150: Row("NVLink error (MSE)", "reset_gpu", _LINK5),
    151: Row("the rotation of keys failed", "reboot"),
    152: Row("error of the deep learning accelerator's memory unit", "none"),
    153: Row("the deep learning accelerator timed out", "none"),
    154: Row(
        "the GPU asks for another recovery", "none", "NVIDIA Xid catalogue 2025-10-29: the text in the line decides"
    ),
    155: Row("NVLink error found by the driver", "reset_gpu"),
    156: Row("a part of the GPU was retired and waits for a reset", "reset_gpu"),
    157: Row("a part of the GPU could not be retired", "field_diag", "own rule: as a row that cannot be remapped"),
    158: Row("fatal time-out of the GPU", "reset_gpu"),
    159: Row("the link to the CPU reported an error", "retest", "own rule: the catalogue asks to look at the driver"),
    160: Row("a memory channel was retired", "none"),
    161: Row("a memory channel could not be retired", "field_diag", "own rule: as a row that cannot be remapped"),
    162: Row("power smoothing is back", "none", _SMOOTH),
    163: Row("power smoothing is off", "none", _SMOOTH),
    164: Row("power smoothing is nearly worn out", "none", _SMOOTH),
    165: Row("power smoothing is worn out", "field_diag", _OWN),
    166: Row("unencrypted traffic on a confidential link", "remediate_config", _OWN),
    167: Row("fatal PCIe time-out", "power_cycle", _OWN),
    168: Row("the GPU lost a part of its memory", "field_diag", _OWN),
    169: Row("the GPU's security processor halted", "reset_gpu", _OWN),
    170: Row("an interrupt in confidential mode", "remediate_config", _OWN),
    171: Row("uncorrectable DRAM error", "reset_gpu", "NVIDIA Xid catalogue 2025-10-29: a detail of Xid 48"),
    172: Row("uncorrectable SRAM error", "reset_gpu", "NVIDIA Xid catalogue 2025-10-29: a detail of Xid 48"),
}

#: NVLink 5: the driver itself says whether it is fatal.
LINK5 = frozenset(range(144, 151))
#: What only follows from an error before it, when one of CAUSES came first on any GPU of the node.
FOLLOWERS = frozenset({13, 31, 43, 45})
CAUSES = frozenset({48, 74, 94, 95, *LINK5})
#: Seconds in which errors of one GPU belong together.
BURST_SECONDS = 60.0

#: Xid 154: the recovery the GPU asks for, as the driver words it. The last one of a GPU counts.
RECOVERY: dict[str, str] = {
    "none": "none",
    "gpu reset": "reset_gpu",
    "gpu reset required": "reset_gpu",
    "node reboot": "reboot",
    "node reboot required": "reboot",
    "drain p2p": "reset_gpu",
    "drain and reset": "reset_gpu",
    "recover imex domain": "remediate_config",
    "bus reset": "reset_gpu",
    "system reboot": "reboot",
}


def look_up(number: int) -> Row:
    """The row of an Xid; one that the catalogue leaves unused, or does not have, is for a person."""
    known = XIDS.get(number)
    if known is not None:
        return known
    return Row("an Xid without a known cause", "field_diag", "own rule: what nobody knows is a failure")
