# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the log of a training or of a collective cries, whose fault that is, and what helps. PRIVATE to the collection.

What a GPU did wrong is a failure of its node. What may be the node's, another node's or the program's condemns nobody.
What the site's set-up lacks is told where the training came to no end: many programs say that a module is missing, and
go on without it.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.xids import look_up
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE

#: Whose fault it is.
OF_NODE, IN_DOUBT, OF_SITE = "node", "doubt", "site"
_CUDA = "NVIDIA CUDA runtime API, cudaError"
_DCGM = "NVIDIA/DCGM v4.6.0 dcgm_errors.h, the same error there"
_XID79 = "NVIDIA Xid catalogue 2025-10-29, Xid 79"
_DOUBT = "own rule: it may be the program's, or another node's; measure again"
_PATH = "own rule: the way between nodes gave up; look at ports, cables and switches"
_SITE = "own rule: the machine's set-up, not its hardware, is at fault"
#: So many Xids of a log are told.
_TOLD = 16


class Cry(NamedTuple):
    """words: for a person, in ours. remedy: of verdict.REMEDIES. source: why that remedy."""

    id: str
    form: re.Pattern[str]
    words: str
    whose: str
    remedy: str
    source: str


class Heard(NamedTuple):
    """One of them in a log. text: with the words of its line."""

    id: str
    entity: str
    text: str
    whose: str
    remedy: str


def _cry(id: str, form: str, words: str, whose: str, remedy: str, source: str) -> Cry:
    return Cry(id, re.compile(form, re.M), words, whose, remedy, source)


CRIES: tuple[Cry, ...] = (
    _cry(
        "ecc",
        r"uncorrectable ECC error|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",
        "an uncorrectable memory error",
        OF_NODE,
        "reset_gpu",
        _DCGM,
    ),
    _cry(
        "contained",
        r"cudaErrorContained|CUDA_ERROR_CONTAINED",
        "an uncorrectable memory error that was contained",
        OF_NODE,
        "reset_gpu",
        _CUDA,
    ),
    _cry(
        "nvlink",
        r"uncorrectable NVLink error|cudaErrorNvlinkUncorrectable|CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "an uncorrectable NVLink error",
        OF_NODE,
        "field_diag",
        _DCGM,
    ),
    _cry(
        "lost",
        r"GPU is lost|has fallen off the bus|NVML_ERROR_GPU_IS_LOST",
        "a GPU that is lost",
        OF_NODE,
        "power_cycle",
        _XID79,
    ),
    _cry(
        "ib",
        r"\bGot completion\b.{0,80}?\b(?:status=|error )12\b|IBV_WC_RETRY_EXC_ERR|NET/IB : \S{1,40} Got async event\b",
        "a transfer between nodes that was given up",
        IN_DOUBT,
        "fabric",
        _PATH,
    ),
    _cry(
        "nccl",
        r"Watchdog caught collective operation timeout|\bnccl(?:System|Internal|Remote|UnhandledCuda)Error\b"
        r"|NCCL error\b|NCCL WARN\b.{0,80}?\b[Tt]ime(?:d )?out",
        "a collective operation that failed",
        IN_DOUBT,
        "retest",
        _DOUBT,
    ),
    _cry(
        "cuda",
        r"CUDA error: (?!out of memory|no kernel image|CUDA driver version|no CUDA-capable)",
        "an error of CUDA",
        IN_DOUBT,
        "retest",
        _DOUBT,
    ),
    _cry(
        "missing",
        r"ModuleNotFoundError:|ImportError:|FileNotFoundError:|No such file or directory|: (?:command )?not found$",
        "a module, program or file that is not there",
        OF_SITE,
        "remediate_config",
        _SITE,
    ),
    _cry(
        "disk",
        r"No space left on device|Disk quota exceeded|Read-only file system",
        "no room to write",
        OF_SITE,
        "remediate_config",
        _SITE,
    ),
    _cry("denied", r"Permission denied|PermissionError:", "a place without access", OF_SITE, "remediate_config", _SITE),
    _cry(
        "driver",
        r"CUDA driver version is insufficient|NVIDIA driver on your system is too old|no kernel image is available"
        r"|forward compatibility was attempted",
        "a driver that does not fit the program",
        OF_SITE,
        "remediate_config",
        _SITE,
    ),
    _cry(
        "no_gpu",
        r"no CUDA-capable device is detected|No CUDA GPUs are available|Found no NVIDIA driver",
        "a program that sees no GPU",
        OF_SITE,
        "remediate_config",
        _SITE,
    ),
    _cry(
        "memory",
        r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError",
        "too little memory on a GPU: is it another program's, or the training too large?",
        OF_SITE,
        "remediate_config",
        _SITE,
    ),
    _cry(
        "address",
        r"[Aa]ddress already in use|EADDRINUSE|RendezvousConnectionError|DistNetworkError",
        "no way for its processes to meet",
        OF_SITE,
        "remediate_config",
        _SITE,
    ),
    _cry(
        "arguments",
        r"error: unrecognized arguments|error: the following arguments are required",
        "a command line that the program does not know",
        OF_SITE,
        "remediate_config",
        _SITE,
    ),
)
_XID = re.compile(r"\bXid \(PCI:([0-9a-fA-F:.]{7,16})\): (\d{1,4})\b")


def heard(text: str, *, whole: bool) -> Iterator[Heard]:
    """What a log cries, each once.

    :param whole: did the training come to its end? What the site lacks is then no matter.
    """
    for cry in CRIES:
        found = None if whole and cry.whose == OF_SITE else cry.form.search(text)
        if found:
            line = _line(text, found.start(), found.end())
            yield Heard(f"training:{cry.id}", NODE, f"{cry.words}: {line}", cry.whose, cry.remedy)
    yield from _xids(text)


def _line(text: str, start: int, end: int) -> str:
    """The words around it, no further than its line goes."""
    begin = max(text.rfind("\n", max(0, start - 80), start) + 1, start - 80, 0)
    stop = text.find("\n", end, end + 120)
    return short(text[begin : stop if stop >= 0 else end + 120], 160)


def _xids(text: str) -> Iterator[Heard]:
    for _at, (place, number) in zip(range(_TOLD), sorted(set(_XID.findall(text)))):
        row = look_up(int(number))
        whose = IN_DOUBT if row.remedy == "none" else OF_NODE
        remedy = "retest" if row.remedy == "none" else row.remedy
        yield Heard(f"xid:{number}", f"GPU {place.lower()}", f"{row.words} (Xid {number})", whose, remedy)
