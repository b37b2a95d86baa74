# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which options a dcgmi has, and what its tests are called: tables. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Optional

Version = tuple  # tuple[int, int, int]; spelled so for Python 3.9's type aliases

#: The first version that has an option. NVIDIA/DCGM, CommandLineParser.cpp of each tag.
SINCE: dict[str, Version] = {
    "-i": (3, 3, 0),
    "-n": (3, 3, 0),
    "--ignoreErrorCodes": (4, 2, 3),
}

#: Level 1 of DCGM up to 3.x is nine tests of the machine (NvidiaValidationSuite.cpp); 4.x calls them all "software".
DEPLOYMENT = (
    "denylist",
    "nvml_library",
    "cuda_main_library",
    "permissions",
    "persistence_mode",
    "environment",
    "page_retirement",
    "graphics_processes",
    "inforom",
)

#: Names in the JSON, in lower case with underscores, that mean a test of another name.
ALIASES: dict[str, str] = {
    "blacklist": "denylist",
    "permissions_and_os_blocks": "permissions",
    "permissions_and_os_related_blocks": "permissions",
    "environment_variables": "environment",
    "environmental_variables": "environment",
    "page_retirement_row_remap": "page_retirement",
    "gpu_memory": "memory",
    "pulse": "pulse_test",
    "eud_test": "eud",
    "cpu_eud_test": "cpu_eud",
    "nccl_test": "nccl_tests",
}

#: Seconds after which a diagnostic of a level is surely hanging: three times what NVIDIA names for it.
TIMEOUTS: dict[int, int] = {1: 300, 2: 900, 3: 3600, 4: 14400}

_NUMBER = r"(\d{1,5})\.(\d{1,5})\.(\d{1,5})(?!\d)"
_VERSION, _PRINTED = re.compile(rf"\s*{_NUMBER}"), re.compile(rf"\bversion:\s*{_NUMBER}")


def parse_version(text: str) -> Optional[Version]:
    """A version as a document has it."""
    return _version(_VERSION.match(text))


def printed_version(text: str) -> Optional[Version]:
    """The version in what ``dcgmi --version`` prints; numbers of libraries that stand beside it are none."""
    return _version(_PRINTED.search(text))


def _version(match: Optional[re.Match[str]]) -> Optional[Version]:
    return (int(match.group(1)), int(match.group(2)), int(match.group(3))) if match else None


def dotted(version: Optional[Version]) -> str:
    return ".".join(str(part) for part in version) if version else ""


def has(option: str, version: Optional[Version]) -> bool:
    """Never pass an option that this version lacks: it would refuse the whole command."""
    return version is not None and version >= SINCE[option]


def canonical(name: str) -> str:
    """One name a test over all versions: ``GPU Memory`` is ``memory``, ``Page Retirement/Row Remap`` is one word."""
    slug = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
    return ALIASES.get(slug, slug)


def argv(
    dcgmi: str,
    what: str,
    version: Optional[Version],
    *,
    gpus: int = 0,
    only: Optional[int] = None,
    ignore: Sequence[int] = (),
    more: Sequence[str] = (),
) -> list[str]:
    """The command of one diagnostic.

    :param what: a level, or test names joined by commas.
    :param gpus: how many GPUs DCGM itself shall insist on, where it can.
    :param only: one GPU alone, for localising a fault.
    :param more: words that each version knows.
    """
    words = [dcgmi, "diag", "-r", what, "-j", *more]
    if only is not None:
        return [*words, "-i", f"gpu:{only}"]
    if gpus and has("-n", version):
        words += ["-n", f"gpu:{gpus}"]
    if ignore and has("--ignoreErrorCodes", version):
        words += ["--ignoreErrorCodes", ";".join(f"*:{number}" for number in ignore)]
    return words


def spelled(names: Iterable[str]) -> str:
    """Test names as ``-r`` takes them."""
    return ",".join(canonical(name) for name in names)
