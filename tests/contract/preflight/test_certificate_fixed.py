# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A preflight gives a BMC its login only where a run would."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.preflight import _Record
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import OlderLedger, Unreachable, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _preflight_machines as machines
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._causes import NOTE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._certificate import FIXED
from fake_bmc.redfish_server import PASSWORD, USER, FakeBmc
from fake_bmc.tls import Authority
from sound_site import SoundSite


@pytest.mark.parametrize(
    "silent",
    [
        Unreachable("the ledger does not answer"),
        OlderLedger("of an older release"),
        WrongMachine("two hosts are one node"),
    ],
)
def test_s3_where_nobody_can_say_which_certificate_was_fixed_the_bmc_is_told_no_login(
    site: SoundSite, tmp_path: Path, silent: Exception
) -> None:
    """``first`` takes any certificate of a BMC that was never seen."""

    whole = Ledger(f"sqlite:///{tmp_path}/whole.sqlite")
    of_the_node = isinstance(silent, WrongMachine)

    def away() -> Ledger:
        if not of_the_node:
            raise silent
        return whole

    def nobody(_host: str) -> str:
        raise silent

    with FakeBmc("plain", context=Authority(tmp_path).server_context("127.0.0.1")) as bmc:
        site.hosts = {"gpu001": {**site.hosts["gpu001"], "gpufleet_bmc_address": bmc.url}}
        site.shared.update(gpufleet_bmc_username=USER, gpufleet_bmc_password=PASSWORD)
        site.shared["gpufleet_bmc_tls_fingerprint"] = "first"
        record = _Record(away, nobody, ["gpu001"], lambda _name, _host: None)
        batch = site.batch(record=record)
        machines.look(batch)
        [cause] = batch.found["gpu001"]
        assert cause.kind == NOTE and "was not asked" in cause.what and not bmc.requests, cause
        with Ledger(f"sqlite:///{tmp_path}/ledger.sqlite") as ledger:
            machines.look(
                site.batch(record=_Record(lambda: ledger, lambda host: "", ["gpu001"], lambda _name, _host: None))
            )
            assert bmc.requests, "one that is new is asked"
            bmc.requests.clear()
            node = ledger.identify("gpu001", aliases=[("serial", "SN0001")])
            ledger.append("r1", [(node, Event("note", FIXED, {"sha256": "ab" * 32}))])
            batch = site.batch(record=_Record(lambda: ledger, lambda host: node, ["gpu001"], lambda _name, _host: None))
            machines.look(batch)
            [cause] = batch.found["gpu001"]
        assert "certificate" in cause.what and not bmc.requests, cause
