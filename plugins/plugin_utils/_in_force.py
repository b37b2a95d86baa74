# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SKU profile and the policy that are in force on this controller. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, MissingLibrary
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate import profiles, weakened
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust import policy as policies
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._of_run import CHECKED_FILES

_ROLES = Path(__file__).resolve().parents[2] / "roles"
OWN_PROFILES = _ROLES / "gate" / "files" / "profiles"
PROFILE_SCHEMA = _ROLES / "gate" / "files" / "schemas" / "profile.schema.json"
POLICY_SCHEMA = _ROLES / "passport" / "files" / "schemas" / "policy.schema.json"


def profile_of(params: Mapping[str, Any]) -> profiles.Profile:
    """The profile of the options ``sku`` and ``profile_path``.

    :raises ConfigError: where there is none, or a broken one.
    """
    if not params.get("sku"):
        raise ConfigError("the node's SKU is not known", do="set gpufleet_sku in the inventory")
    folders = profiles.search_path(params.get("profile_path") or [], OWN_PROFILES)
    return profiles.load(str(params["sku"]), folders, PROFILE_SCHEMA, CHECKED_FILES)


def used(params: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The profile by which a gate judges, and where it stands.

    :raises ConfigError: where there is none, or a broken one.
    """
    if params.get("profile"):
        profiles.check(params["profile"], PROFILE_SCHEMA)
        return params["profile"], "the option profile"
    found = profile_of(params)
    return found.data, found.path


def weakened_of(gate: str, profile: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """What a profile demands less of this gate than the one that is shipped for its SKU, and than our own rules."""
    if Path(where).parent == OWN_PROFILES:
        return []
    try:
        shipped = profiles.load(str(profile["sku"]), [OWN_PROFILES], PROFILE_SCHEMA, CHECKED_FILES).data
    except ConfigError:
        shipped = {}
    return weakened.of_gate(gate, shipped, profile, where)


def of_the_site(params: Mapping[str, Any]) -> bool:
    """May another profile be in force than one that is shipped?"""
    return bool(params.get("profile")) or len(profiles.search_path(params.get("profile_path") or [], OWN_PROFILES)) > 1


def policy_of(params: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The policy of the options, whole: its file, or what the task says, over the strict default.

    With it comes why the profile that it demands is not known; empty where it is.

    :raises ConfigError: where the policy is none.
    """
    given = dict(params.get("policy") or {})
    if params.get("policy_file"):
        given = policies.read(str(params["policy_file"]), POLICY_SCHEMA)
    else:
        policies.check(given, POLICY_SCHEMA)
    digest, problem = policies.digest_for(given, str(params.get("sku") or "")), ""
    if not digest:
        try:
            digest = profile_of(params).digest
        except MissingLibrary:
            raise
        except ConfigError as exc:
            problem = f"which profile is in force is not known: {exc}"
    return {**given, "gates": policies.least(given), "profile_digest": digest or None}, problem
