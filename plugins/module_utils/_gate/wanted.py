# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a profile wants to see, as the gates on a node read it. PRIVATE to the collection.

The controller loads and checks the profile (``profiles.py``); here its mapping arrives as an option. Whatever is
missing in it is an error, never a default: a gate without numbers cannot pass anything. What a machine is stands there
for all of them; beside it each gate has a section of its own name, and asks for that one alone.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import json_digest

SCHEMA = 1
_WHERE = "docs/reference/profiles.md"
T = TypeVar("T")
#: What a profile may break with that is not shaped as it must be.
_BROKEN = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class Wanted:
    """What a profile says of the machine, for all gates."""

    sku: str
    digest: str
    gpu_count: int
    gpu_count_source: str
    device_ids: tuple[str, ...]
    profile: Mapping[str, Any]

    def reference(self) -> dict[str, str]:
        return {"sku": self.sku, "digest": self.digest}

    def section(self, name: str, read: Callable[[Mapping[str, Any]], T], without: str = "") -> T:
        """What stands there for one gate.

        :param read: makes of the section what the gate uses; it may break with what breaks on a wrong shape.
        :param without: the setting that leaves the gate out, where there is one.
        :raises ConfigError: where the profile has none, or one that cannot be read.
        """
        found = self.profile.get(name)
        if not isinstance(found, Mapping) or not found:
            raise ConfigError(
                f"the SKU profile {self.sku} has no section {name}",
                wanted=f"that section, or the gate left out by {without}" if without else "",
                do=f"add what this gate must see there; {_WHERE} shows how",
            )
        try:
            return read(found)
        except _BROKEN as exc:
            raise _unreadable(exc) from exc


def version_of(text: Any) -> tuple[int, int, int]:
    """The three numbers of a version that a profile names, such as ``4.2``."""
    numbers = [int(part) for part in str(text).split(".")]
    major, minor, patch = (numbers + [0, 0, 0])[:3]
    return major, minor, patch


def wanted_of(profile: Any) -> Wanted:
    """Read a profile's mapping.

    :raises ConfigError: when it is no profile, or lacks a number that all gates need.
    """
    if not isinstance(profile, Mapping) or not profile:
        raise ConfigError("no SKU profile was handed over", do="set gpufleet_sku, or give the option profile")
    try:
        if int(profile["schema"]) != SCHEMA:
            raise ValueError(f"schema {profile['schema']} is not {SCHEMA}")
        count = profile["gpu"]["count"]
        wanted = Wanted(
            sku=str(profile["sku"]),
            digest=json_digest(profile),
            gpu_count=int(count["value"]),
            gpu_count_source=str(count["source"]),
            device_ids=tuple(str(item).lower() for item in profile["gpu"]["device_ids"]["value"]),
            profile=profile,
        )
    except _BROKEN as exc:
        raise _unreadable(exc) from exc
    if wanted.gpu_count < 1:
        raise ConfigError("the SKU profile wants no GPU at all", seen=str(wanted.gpu_count))
    return wanted


def _unreadable(exc: Exception) -> ConfigError:
    return ConfigError(
        f"the SKU profile cannot be read: {type(exc).__name__}: {exc}",
        do=f"check it against {_WHERE}",
    )
