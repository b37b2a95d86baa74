# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section ``dcgm`` of a SKU's profile, as its gate reads it. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.options import canonical
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, version_of


@dataclass(frozen=True)
class Section:
    """tests: the rows of the tests that DCGM must show: name, level, source, scope, since and until."""

    tests: tuple[Mapping[str, Any], ...]
    ignored_errors: tuple[int, ...]


def _read(section: Mapping[str, Any]) -> Section:
    tests = tuple(dict(row) for row in section["tests"])
    for row in tests:
        int(row["level"]), str(row["name"]), str(row["source"])
        version_of(row.get("since", "0")), version_of(row.get("until", "0"))
    names = [canonical(str(row["name"])) for row in tests]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:  # the last one would count, and could ask for less
        raise ValueError(f"two rows are of one test, whatever they call it: {', '.join(twice)}")
    return Section(tests, tuple(int(row["id"]) for row in section.get("ignore_errors") or []))


def section_of(wanted: Wanted) -> Section:
    """:raises ConfigError: where the profile has no such section, or one without what the gate needs."""
    return wanted.section("dcgm", _read)
