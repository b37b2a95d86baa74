# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people and other writers do to a node of xCAT while leave to write is waited for, and while a command runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, WrongMachine
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.record import bmc_host
from calls import Waits, await_all, deployed, lead, ready, watch_all

TAKEN = "somebody has taken, held or given back"


@pytest.fixture
def site(xcat_site: Any) -> Any:
    return xcat_site


def held(site: Any, name: str) -> None:
    """As another run of ours does it."""
    words = site.record(name).get("usercomment", "")
    site.record(name)["usercomment"] = f"{words} gpufleet-hold=gpufleet:keep:other:Anna".strip()


def set_up(site: Any, name: str) -> None:
    site.management.run(["nodeset", name, "osimage=gold-2"])


def sent(site: Any, *words: str) -> list[str]:
    return [call.what for call in site.faults.writes if call.what.startswith(words)]


#: What somebody does to the node, and what the refusal says of it.
MARKS = (
    (lambda site, name: site.hold_by_somebody(name), "hands-off"),
    (held, "gpufleet:keep:other:Anna"),
    (set_up, "provmethod: gold-2"),
    (lambda site, name: site.record(name).update(bmc="127.99.0.1"), "bmc: 127.99.0.1"),
)


@pytest.mark.parametrize(("mark", "seen"), MARKS, ids=["group", "hold", "image", "bmc"])
def test_whoever_takes_a_node_while_leave_is_waited_for_keeps_it(
    site: Any, mark: Callable[[Any, str], None], seen: str
) -> None:
    """Before each write of an order and of a release."""
    for state, nth, may_have_sent in (
        ("deployed", 1, ()),
        ("deployed", 2, ("chdef",)),
        ("released", 1, ()),
        ("released", 3, ("nodeset", "rpower")),
    ):
        options = ready(site) if state == "deployed" else deployed(site)
        name = options["name"]
        options = {**options, "image": site.image(), "deploy_id": "d-1"}
        with pytest.raises(Changed, match=TAKEN) as caught:
            lead(options, state, line=Waits(nth, functools.partial(mark, site, name)))
        assert seen in str(caught.value), (state, nth)
        assert [call.what.split(" ")[0] for call in site.faults.writes] == list(may_have_sent), (state, nth)
        assert "order:clear" not in site.record(name).get("usercomment", "")
        site.faults.forget()


def test_who_is_taken_out_of_a_batch_is_out_of_its_commands_alone(site: Any) -> None:
    batch = [{**ready(site), "image": site.image()} for _number in range(3)]
    taken = batch[1]["name"]
    site.faults.forget()
    line = Waits(2, lambda: site.hold_by_somebody(taken))
    verdicts = await_all(site, "deployed", *batch, line=line)["verdicts"]
    assert [verdicts[one["name"]]["ok"] for one in batch] == [True, False, True], verdicts
    assert "hands-off" in verdicts[taken]["reason"] and site.deployments() == 2
    assert not any(taken in told for told in sent(site, "nodeset", "rsetboot", "rpower"))


def while_told(site: Any, monkeypatch: pytest.MonkeyPatch, command: str, do: Callable[[], None]) -> None:
    """Somebody does this right after this command."""
    real = site.management.run

    def run(argv: Any, stdin: str = "") -> Any:
        answer = real(argv, stdin)
        if " ".join(argv).startswith(command):
            do()
        return answer

    monkeypatch.setattr(site.management, "run", run, raising=False)


@pytest.mark.parametrize("mark", [MARKS[0][0], MARKS[1][0]], ids=["group", "hold"])
def test_who_is_taken_while_its_boot_is_set_up_is_not_booted_and_installs_nothing_later(
    site: Any, monkeypatch: pytest.MonkeyPatch, mark: Callable[[Any, str], None]
) -> None:
    options = {**ready(site), "image": site.image()}
    name = options["name"]
    while_told(site, monkeypatch, "rsetboot", functools.partial(mark, site, name))
    with pytest.raises(Changed, match=TAKEN):
        lead(options, "deployed")
    record = site.record(name)
    assert site.deployments() == 0 and record["currstate"] == "offline" and "provmethod" not in record


def test_an_image_that_somebody_sets_up_while_ours_is_set_up_stays_set_up(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To take our own order back would take theirs."""
    options = {**ready(site), "image": site.image()}
    name = options["name"]
    while_told(site, monkeypatch, "rsetboot", functools.partial(set_up, site, name))
    with pytest.raises(Changed, match="provmethod: gold-2") as caught:
        lead(options, "deployed")
    record = site.record(name)
    assert site.deployments() == 0 and record["provmethod"] == "gold-2" and record["currstate"].startswith("netboot")
    assert "still set to install" not in str(caught.value)


def test_what_people_write_into_a_comment_while_leave_is_waited_for_stays(site: Any) -> None:
    options = {**ready(site), "image": site.image()}
    record = site.record(options["name"])

    def writes() -> None:
        words = record.get("usercomment", "")
        record["usercomment"] = f"{words} rack 7".strip() if "rack 7" not in words else f"{words} slot 3"
        record["groups"] += ",rack7"

    more = {"driver": {"groups": "gpu"}}
    lead({**options, **more}, "ready", line=Waits(1, writes))
    assert record["groups"] == "all,rack7,gpu" and record["usercomment"] == "rack 7"
    lead(options, "maintenance", line=Waits(1, writes))
    assert record["usercomment"].startswith("rack 7 slot 3 gpufleet-hold=")
    record["usercomment"] = "one"
    lead(options, "deployed", line=Waits(1, lambda: record.update(usercomment="two")))
    note = record["usercomment"].removeprefix("two ")
    assert note.startswith("gpufleet-note=order:deploy")
    line = Waits(1, lambda: record.update(usercomment=f"three {note}"))
    lead(options, "deployed", annotations={"row": "12"}, line=line)
    assert record["usercomment"] == f"three {note} gpufleet-mark.row=12"


def test_a_hold_of_ours_is_written_over_nobodys(site: Any) -> None:
    options = ready(site)
    with pytest.raises(Changed, match="gpufleet:keep:other:Anna"):
        lead(options, "maintenance", line=Waits(1, functools.partial(held, site, options["name"])))
    assert site.faults.writes == []


def test_the_word_that_an_order_was_given_keeps_what_was_written_since(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where xCAT keeps no news of a node (``site.nodestatus``), our own word of it stands in the comment."""
    options = {**ready(site), "image": site.image()}
    record = site.record(options["name"])

    def writes() -> None:
        record["usercomment"] = f"rack 7 {record['usercomment']}"

    monkeypatch.setattr(site.management, "tells", lambda name, status: None)
    while_told(site, monkeypatch, "rpower", writes)
    lead(options, "deployed")
    assert record["usercomment"].startswith("rack 7 gpufleet-note=") and "given:yes" in record["usercomment"]
    assert (
        watch_all(site, "deployed", options, timeout=0.3)["verdicts"][options["name"]]["provision_state"] == "ordered"
    )


def test_a_bmc_that_is_entered_for_another_node_while_leave_is_waited_for_is_theirs(site: Any) -> None:
    theirs, ours = ready(site), ready(site)
    free = site.moved_bmc(ours)
    host = bmc_host(free["bmc_address"])
    line = Waits(1, lambda: site.record(theirs["name"]).update(bmc=host))
    with pytest.raises(WrongMachine, match="BMC belongs to"):
        lead(free, "enrolled", line=line)
    assert site.faults.writes == [] and site.record(ours["name"])["bmc"] != host
