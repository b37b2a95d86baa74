# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the SXid errors of NVSwitches mean: a table. PRIVATE to the collection.

The word in the line, Fatal or Non-fatal, decides; the table answers only where the driver wrote none. Lists in use
contradict the driver there (12028 is called fatal by some, and the driver writes Non-fatal).

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import NamedTuple

_GPUD = "leptonai/gpud sxid catalogue 4a8de33a"
_FM = "NVIDIA/NVSentinel sxid list b6180c37: check the set-up of Fabric Manager"


class Row(NamedTuple):
    """words: for a person, in ours. fatal: where the line does not say."""

    words: str
    fatal: bool
    remedy: str
    source: str = _GPUD


#: The first two digits name the part of the switch.
PARTS: dict[int, str] = {
    10: "host interface",
    11: "ingress",
    12: "egress",
    14: "transaction state",
    15: "routing",
    18: "link signal",
    19: "port memory",
    20: "link layer",
    22: "link controller",
    23: "port buffers",
    24: "source tracking",
}

SXIDS: dict[int, Row] = {
    10001: Row("register access failed", False, "none"),
    10002: Row("register access timed out", False, "none"),
    10003: Row("interrupt without a handler", False, "none"),
    10004: Row("too hot", False, "none"),
    10005: Row("no longer too hot", False, "none"),
    11001: Row("invalid command came in", True, "reboot"),
    11004: Row("access list refused a packet", True, "remediate_config", _FM),
    11009: Row("invalid virtual channel came in", True, "reboot"),
    11013: Row("uncorrectable error in a header", True, "reboot"),
    11018: Row("uncorrectable error in the request table", True, "reboot"),
    11019: Row("uncorrectable error in the local address table", True, "reboot"),
    11020: Row("parity error", True, "reboot"),
    12001: Row("crossbar overflow", True, "reboot"),
    12002: Row("packet for no route", True, "reboot"),
    12020: Row("sequence number is wrong", True, "reboot"),
    12022: Row("uncorrectable error on the way in", True, "reboot"),
    12024: Row("uncorrectable error on the way out", True, "reboot"),
    12025: Row("credit overflow", True, "reboot"),
    12026: Row("wrong request destination", True, "reboot"),
    12027: Row("wrong response destination", True, "reboot"),
    12028: Row("privileged write failed", True, "reboot"),
    12030: Row("parity error", False, "none"),
    12031: Row("credit parity error", True, "reboot"),
    12032: Row("wrong kind of flit", True, "reboot"),
    14017: Row("time-out of an operation", True, "reboot"),
    15001: Row("buffer overflow or underflow", True, "reboot"),
    15006: Row("transfer counter overflow or underflow", True, "reboot"),
    15009: Row("uncorrectable error in the link table", True, "reboot"),
    15010: Row("parity error", True, "reboot"),
    15012: Row("uncorrectable error on the way in", True, "reboot"),
    15013: Row("credit parity error", True, "reboot"),
    19084: Row("heartbeat timed out", True, "reboot"),
    20001: Row("replays on the way out", False, "none"),
    20009: Row("short error rate on the way in", False, "none"),
    20012: Row("broken or inconsistent connection", False, "none"),
    20034: Row("link training failed", True, "reboot"),
    22003: Row("halted", True, "reboot"),
    22011: Row("external error", True, "reboot"),
    22012: Row("fatal interrupt", True, "reboot"),
    22013: Row("request interrupt", False, "none"),
    24007: Row("time-out of a transaction", True, "reboot"),
}
#: Families of one meaning.
# fmt: off
_CORRECTED = (
    11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065, 19068,
    19071, 24001, 24002, 24003,
)
_UNCORRECTED = (
    19047, 19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064, 19066, 19067, 19069, 19070, 24004, 24005,
    24006,
)
_BUFFERS = (
    23001, 23002, 23003, 23004, 23005, 23006, 23007, 23008, 23009, 23010, 23011, 23012, 23013, 23014, 23015,
    23016, 23017,
)
# fmt: on
SXIDS.update({number: Row("corrected memory error", False, "none") for number in _CORRECTED})
SXIDS.update({number: Row("uncorrectable memory error", True, "reboot") for number in _UNCORRECTED})
SXIDS.update({number: Row("broken packet or buffer", True, "reboot") for number in _BUFFERS})


def look_up(number: int) -> Row:
    """The row of an SXid; an unknown one is fatal, for a person."""
    known = SXIDS.get(number)
    part = PARTS.get(number // 1000, "switch")
    if known is None:
        return Row(
            f"{part}: an SXid without a known cause", True, "field_diag", "own rule: what nobody knows is a failure"
        )
    return known._replace(words=f"{part}: {known.words}")
