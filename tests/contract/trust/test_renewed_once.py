# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A renewal of all passports that is run again renews none twice, and each that does not hold any more."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from contract.trust.trust_site import EVENT, IMAGED, Site, passport

#: Each test starts ansible-playbook, some of them several times.
pytestmark = pytest.mark.slow


@pytest.fixture
def served(site: Site) -> Site:
    """A node in service, with a passport of just now."""
    site.play(*IMAGED)
    site.gates("dcgm_gate", "kernel_log_gate")
    issued, entered = (told["result"] for told in site.play(passport("issued"), {EVENT: {"state": "admitted"}}))
    assert issued["valid"] and entered["changed"], (issued, entered)
    return site


def taken(site: Site, **variables: Any) -> bool:
    """Did the renewal take the node? This one has no BMC, with which a renewal begins: it then stops, on record."""
    asked = {
        "passports_renew": True,
        "passports_all": True,
        "gpufleet_scheduler": "none",
        "ansible_connection": "at_machine",
        "machine_folder": "{{ node_paths.dmi_path | dirname }}",
        **variables,
    }
    before = site.events()
    site.book("gpufleet.baremetal.passports", "-e", json.dumps(asked))
    after = site.events()[len(before) :]
    assert after in ([], [("note", "stopped")]), (after, site.said[-4000:])
    return bool(after)


def test_q6_a_passport_that_is_new_and_holds_is_not_renewed_again(served: Site) -> None:
    assert not taken(served), served.said[-4000:]
    assert taken(served, passports_all_hours=0), "a person says so"
    assert taken(served, passports_days=45), "it is due all the same"


def test_q6_a_new_passport_that_does_not_hold_is_renewed(served: Site) -> None:
    """By a key that was taken away, a policy that has become stricter, a failure since, or another machine's."""
    stolen = served.folder / "other.pem"
    for argv in (["genpkey", "-algorithm", "ed25519"], ["pkey", "-in", str(stolen), "-pubout"]):
        out = stolen.with_suffix(".pub") if argv[0] == "pkey" else stolen
        subprocess.run(["openssl", *argv, "-out", str(out)], check=True, capture_output=True)
    assert taken(served, gpufleet_passport_public_keys=[str(stolen.with_suffix(".pub"))])
    assert taken(served, join_policy={"gates": {"dcgm_gate": {"level": 4}}})
    assert taken(served, machine_folder="/nonexistent"), "a node that does not say who it is"
    assert not taken(served)
    served.gates("dcgm_gate", verdict="fail")
    assert taken(served)
