# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person gives with -e, and nobody reads, is told before anything is written by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.splitter import parse_kv
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._known_names import (
    ARTIFACTS,
    NUMBERS,
    PLAYBOOKS,
    ROLES,
    SWITCHES,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight_settings import OWN, demand_heard

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "troubleshooting.md"


def test_each_variable_that_a_message_names_is_read() -> None:
    """Whoever follows advice to set one that nobody reads is told the same again."""
    named = set(re.findall(r"\bgpufleet_[a-z0-9_]*[a-z0-9]", PAGE.read_text(encoding="utf-8")))
    others = {"gpufleet_services", "gpufleet_port"}  # a group, and a variable of a rulebook
    assert len(named) > 30 and named - OWN - {*ARTIFACTS} == others


def given(*words: str) -> dict[str, Any]:
    """As Ansible takes -e apart."""
    return {name: value for word in words for name, value in parse_kv(word).items()}


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("identity_wass", "identity_was"),  # another machine's swap
        ("identity_force_reasons", "identity_force_reason"),
        ("gpufleet_for_tenants", "gpufleet_for_tenant"),
        ("gpufleet_for_tenant2", "gpufleet_for_tenant"),
        ("gpufleet_ledger_ulr", "gpufleet_ledger_url"),
        ("maintenance_whys", "maintenance_why"),
        ("ledger_patth", "ledger_path"),
        ("day2_recycle_al", "day2_recycle_all"),
        ("join_polcy_file", "join_policy_file"),
    ],
)
def test_h2_a_slip_in_a_name_is_told_and_what_was_meant(slip: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        demand_heard(given(f"{slip}=x", "drain_why=y"))
    assert f"extra variable {slip}" in str(caught.value) and f"did you mean {meant}?" in str(caught.value)
    demand_heard(given(f"{slip}=x", f"{meant}=yes"))  # a name of the site's own, beside the one that is read


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("maintenance_why=disk swap", "1 words behind that, among the values of maintenance_why"),
        ("drain_why=x y=z and more", "2 words behind that, among the values of drain_why, y"),
        ("bmc_password=correct horse-Battery", "1 words behind that, among the values of bmc_password"),
    ],
)
def test_h2_a_reason_with_blanks_is_not_its_first_word(words: str, seen: str) -> None:
    """None of them is shown: they may be the rest of a password."""
    with pytest.raises(ConfigError) as caught:
        demand_heard(given(words))
    assert caught.value.seen == seen and '{"NAME": "a value with blanks"}' in caught.value.wanted


def test_h2_what_is_read_or_is_like_nothing_of_ours_is_let_through() -> None:
    """Whatever else a site gives to its own roles in the same run."""
    names = {*OWN, *(name for names in (*PLAYBOOKS.values(), *ROLES.values()) for name in names)}
    demand_heard(given(*(f"{name}={'1' if name in SWITCHES | NUMBERS else 'x'}" for name in names)))
    demand_heard(given("site_dns=10.0.0.1", "ntp_servers=a", "ansible_user=root", "maintenance_why='disk swap'"))
    demand_heard({"maintenance_why": "disk swap"})
    demand_heard({})
