# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a profile wants to see, as the gates on a node read it. PRIVATE to the collection.

The controller loads and checks the profile (``profiles.py``); here its mapping arrives as an option. Whatever is
missing in it is an error, never a default: a gate without numbers cannot pass anything.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.verdict import json_digest

SCHEMA = 1


@dataclass(frozen=True)
class Wanted:
    """The part of a profile that the gates use."""

    sku: str
    digest: str
    gpu_count: int
    gpu_count_source: str
    device_ids: tuple[str, ...]
    ignored_errors: tuple[int, ...]
    #: The rows of the tests that DCGM must show: name, level, source, scope, since and until.
    dcgm_tests: tuple[Mapping[str, Any], ...]

    def reference(self) -> dict[str, str]:
        return {"sku": self.sku, "digest": self.digest}


def version_of(text: Any) -> tuple[int, int, int]:
    """The three numbers of a version that a profile names, such as ``4.2``."""
    numbers = [int(part) for part in str(text).split(".")]
    major, minor, patch = (numbers + [0, 0, 0])[:3]
    return major, minor, patch


def wanted_of(profile: Any) -> Wanted:
    """Read a profile's mapping.

    :raises ConfigError: when it is no profile, or lacks a number that the gates need.
    """
    if not isinstance(profile, Mapping) or not profile:
        raise ConfigError("no SKU profile was handed over", do="set gpufleet_sku, or give the option profile")
    try:
        if int(profile["schema"]) != SCHEMA:
            raise ValueError(f"schema {profile['schema']} is not {SCHEMA}")
        count = profile["gpu"]["count"]
        dcgm = profile["dcgm"]
        wanted = Wanted(
            sku=str(profile["sku"]),
            digest=json_digest(profile),
            gpu_count=int(count["value"]),
            gpu_count_source=str(count["source"]),
            device_ids=tuple(str(item).lower() for item in profile["gpu"]["device_ids"]["value"]),
            ignored_errors=tuple(int(row["id"]) for row in dcgm.get("ignore_errors") or []),
            dcgm_tests=tuple(dict(row) for row in dcgm["tests"]),
        )
        for row in wanted.dcgm_tests:
            int(row["level"]), str(row["name"]), str(row["source"])
            version_of(row.get("since", "0")), version_of(row.get("until", "0"))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ConfigError(
            f"the SKU profile cannot be read: {type(exc).__name__}: {exc}",
            do="check it against docs/reference/profiles.md",
        ) from exc
    if wanted.gpu_count < 1:
        raise ConfigError("the SKU profile wants no GPU at all", seen=str(wanted.gpu_count))
    return wanted
