# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be deployed as it is declared is told before anything is written, and says nothing of the machine."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import WHOSE
from calls import await_all, deployed, lead, watch_all

pytestmark = pytest.mark.many_runs


def declarations(site: Any) -> list[tuple[dict[str, Any], str]]:
    """What no provisioner of this kind can deploy, and what this one cannot."""
    lacking = [({"image": {**site.image("2"), key: ""}}, f"the image lacks {key}") for key in site.driver.image_needs]
    odd = {"image": {**site.image("2"), "format": "floppy"}}
    return [*lacking, (odd, "unknown image format floppy"), *site.undeployable()]


def refused(words: str, call: Any) -> str:
    """The kind of its refusal."""
    with pytest.raises(FleetError) as caught:
        call()
    assert words in str(caught.value), str(caught.value)
    assert WHOSE[caught.value.kind] in ("site", "service"), "it would be told of the machine"
    return caught.value.kind


def test_no_record_is_made_of_what_cannot_be_deployed(site: Any) -> None:
    """Day 0 enrols, inspects and waits for long before it comes to the deployment."""
    for more, words in declarations(site):
        options = {**site.new(), **more}
        site.faults.forget()
        for check in (True, False):
            refused(words, lambda options=options, check=check: lead(options, "ready", check=check))
        assert site.faults.writes == [], words


def test_a_node_that_is_deployed_stays_so_where_the_next_image_cannot_be_deployed(site: Any) -> None:
    """With some it would be released first, and stay without any image."""
    good, stays = deployed(site), deployed(site)
    before = site.native(stays["name"])
    for more, words in declarations(site):
        options = {**stays, **more, "image_verified": None}
        site.faults.forget()
        kind = refused(words, lambda options=options: lead(options, "deployed"))
        verdicts = await_all(site, "deployed", good, options)["verdicts"]
        verdict = verdicts[stays["name"]]
        assert not verdict["ok"] and words in verdict["reason"] and verdict["kind"] == kind, verdict
        assert verdicts[good["name"]]["ok"], "it is a verdict of one node, and ends no wait of the others"
        assert site.faults.writes == [] and site.native(stays["name"]) == before, words


def test_what_cannot_be_deployed_stops_neither_a_record_nor_a_release(site: Any) -> None:
    """Adoption asks so: what runs there may stay for long, and its next image is declared later."""
    options = deployed(site)
    assert lead(options, "enrolled", check=True)["undeployable"] == {}
    for more, words in declarations(site):
        looked = lead({**options, **more}, "enrolled", check=True)
        assert words in looked["undeployable"]["reason"] and words in looked["warnings"][-1], looked
        assert WHOSE[looked["undeployable"]["kind"]] in ("site", "service")
        assert looked["state"] == "deployed" and not looked["changed"]
    flawed = {**options, **declarations(site)[0][0]}
    assert not lead(flawed, "enrolled")["changed"]
    assert lead(flawed, "released")["changed"]
    assert watch_all(site, "released", flawed)["verdicts"][options["name"]]["ok"]


def test_a_hold_of_somebodys_is_told_before_what_cannot_be_deployed(site: Any) -> None:
    """Whoever has the node is to be asked first; the declaration is ours to mend at any time."""
    options = {**deployed(site), **declarations(site)[-1][0]}
    site.marks[0](options["name"])
    with pytest.raises(NotOurs):
        lead(options, "enrolled", check=True)
    with pytest.raises(NotOurs):
        lead(options, "deployed")
