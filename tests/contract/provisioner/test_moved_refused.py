# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the playbook migrate_provisioner refuses: nothing was written anywhere then, and nothing was held."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from calls import lead
from moving import Move
from pxe_files.site import PxeSite
from site_warewulf import WarewulfSite

pytestmark = pytest.mark.slow
BOOK = Path(__file__).resolve().parents[3] / "playbooks" / "migrate_provisioner.yml"


@pytest.fixture
def move(started: Any, tmp_path: Path) -> Iterator[Move]:
    """From the boot server to Warewulf."""
    with contextlib.ExitStack() as stack:
        old, new = (stack.enter_context(started(kind).in_good_health()) for kind in (PxeSite, WarewulfSite))
        yield Move(old, new, tmp_path)


def there(move: Move, **more: Any) -> dict[str, Any]:
    """Options of the node at the new one, as others have entered it."""
    return {**move.node, **move.new.connection(), "driver": move.new.extras, **more}


def another(move: Move) -> dict[str, Any]:
    return there(move, boot_mac="52:54:99:00:00:01", serial="S-ANOTHER")


def owned(move: Move) -> str:
    lead(there(move), "enrolled")
    move.new.owned_by_somebody(move.name)
    return "owner is tenant-7"


def other_machine(move: Move) -> str:
    lead(another(move), "enrolled")
    return "the provisioner's node is another machine"


def card_of_another(move: Move) -> str:
    lead(there(move, name="someone"), "enrolled")
    return "its MAC belongs to another node of Warewulf"


def nothing_in_common(move: Move) -> str:
    move.new.server.conf.change(move.name, lambda node: node.update(profiles=["default"]))
    return "nothing shows that this record of warewulf is the one of this machine"


def deployed_there(move: Move) -> str:
    lead(there(move), "enrolled")
    move.new.server.conf.change(move.name, lambda node: node.update({"image name": "gold-1"}))
    return "our ledger has no note that we deployed or adopted it"


def held_at_the_old_one(move: Move) -> str:
    move.old.hold_by_somebody(move.name)
    return "Anna swaps a DIMM"


def other_machine_at_the_old_one(move: Move) -> str:
    move.old.other_serial(move.name, "S-ANOTHER")
    return "the provisioner's node is another machine"


TROUBLES = (
    *(owned, other_machine, card_of_another, nothing_in_common, deployed_there),
    *(held_at_the_old_one, other_machine_at_the_old_one),
)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
def test_who_it_is_and_whose_is_asked_of_both_before_anything_is_written(
    move: Move, trouble: Callable[[Move], str]
) -> None:
    words = trouble(move)
    if trouble is deployed_there:  # what we have deployed at the old one says nothing of that
        with Ledger(f"sqlite:///{move.controller.ledger}") as ledger:
            node = ledger.identify(move.name, aliases=[("serial", move.node["serial"])])
            ledger.append("r1", [(node, Event("intent", "provisioner_node", {"orders": "deployed"}))])
    move.forget()
    for more in ((), ("--check",)):
        told = move.play(*more, ok=False)
        assert words in told and move.name in told and "Do: " in told, told[-3000:]
        assert move.writes() == [] and move.events() == []
    [(name, note)] = move.events("note")  # no word of what the old one told, and none of the check mode
    why = "gpufleet.baremetal.adopt" if trouble is deployed_there else words
    assert name == "stopped" and why in note["reason"], note["reason"]


def test_what_the_ledger_does_not_know_is_not_moved(move: Move) -> None:
    with Ledger(f"sqlite:///{move.controller.ledger}") as ledger:
        node = ledger.identify(move.name, aliases=[("serial", move.node["serial"])])
        ledger.append("r1", [(node, Event("state", "retired", {"reason": "sold"}))])
    assert "This machine was retired (sold): nothing of it is ours to move" in move.play(ok=False)
    with Ledger(f"sqlite:///{move.controller.ledger}") as ledger:
        ledger.append("r1", [(node, Event("state", "discovered", {"reason": "back"}))])
    assert "The ledger does not know this node" in move.play(ok=False) and move.writes() == []


@pytest.mark.parametrize("said", [{}, {"provisioner": "warewulf"}])
def test_who_names_no_other_one_is_told(move: Move, said: dict[str, str]) -> None:
    (move.folder / "to.yml").write_text(yaml.safe_dump({"migrate_to": said}), encoding="utf-8")
    assert "migrate_to names" in move.play(ok=False) and move.writes() == []


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        ({"provisoner_id": "other", "provisioner_pasword": "x"}, "Nobody reads provisioner_pasword, provisoner_id of"),
        ({"provisioner_url": 17, "provisioner_id": None}, "No text in migrate_to: provisioner_id, provisioner_url."),
        (["warewulf"], "migrate_to is no mapping"),
    ],
)
def test_where_they_go_has_nothing_that_nobody_reads(move: Move, slip: Any, words: str) -> None:
    """Under a misspelt name the node would be released here, and entered there as another one."""
    said = {**move.to["migrate_to"], **slip} if isinstance(slip, dict) else slip
    (move.folder / "to.yml").write_text(yaml.safe_dump({"migrate_to": said}), encoding="utf-8")
    told = move.play(ok=False)
    assert words in told and "provisioner_login_host, all of them texts" in told, told[-3000:]
    assert move.writes() == [] and move.events() == []


def test_what_is_read_of_where_they_go_is_what_the_connection_has() -> None:
    [play, *_more] = yaml.safe_load(BOOK.read_text(encoding="utf-8"))
    read = re.findall(r"'(\w+)'", play["tasks"][0]["vars"]["migrate_read"])
    assert read == [names.OPTION, "provisioner_id", *names.OPTIONS]


def test_an_erasure_that_the_old_one_cannot_do_and_times_that_are_none_are_refused_before_jobs_have_ended_for_it(
    started: Any, tmp_path: Path
) -> None:
    with started(PxeSite).in_good_health() as old, started(WarewulfSite).in_good_health() as new:
        move = Move(old, new, tmp_path, deploy=True)
        stood = move.events("state")
        for option in ("migrate_timeout", "migrate_interval"):
            told = move.play("-e", f"{option}=2m", ok=False)
            assert "what is given with -e is no number" in told and f"{option}=2m" in told, told[-3000:]
            assert move.writes() == [] and move.events() == [] and move.events("state") == stood
        for more in ((), ("--check",)):
            told = move.play("-e", "migrate_erase=true", *more, ok=False)
            assert "pxe cannot do what is asked for: option erase" in told, told[-3000:]
            assert move.writes() == [] and move.events() == [] and move.events("state") == stood


def test_an_inventory_that_was_changed_before_the_move_is_no_proof_of_it(move: Move) -> None:
    move.says(**{f"gpufleet_{key}": value for key, value in move.new.connection().items()})
    told = move.play(ok=False)
    assert "the ledger has no word that the node was moved there" in told and move.writes() == [], told[-2000:]


def test_without_proof_that_it_left_the_new_one_is_told_nothing(move: Move) -> None:
    options = {"state": "moved", **move.new.connection()}
    task = {"gpufleet.baremetal.provisioner_node": options}
    [result] = move.controller.play(task, ok=False, forced=False)
    assert result["result"]["error"]["kind"] == "evidence_missing" and move.writes() == [], result
    move.controller.play(task)  # for a reason, which is recorded: the old one may be gone for good
    assert [name for name, _data in move.events()] == ["moved"] and move.look(move.new)[0] is not None


def test_no_login_of_the_old_one_is_offered_to_the_new_one() -> None:
    """An option that a task leaves out comes from the inventory, which names the other one."""
    [whole] = [one["block"] for one in yaml.safe_load(BOOK.read_text(encoding="utf-8"))[0]["tasks"] if "rescue" in one]
    asked = [one.get("gpufleet.baremetal.provisioner_node", {}) for one in whole]
    to_the_new = [one for one in asked if one.get("state") == "moved"]
    assert len(to_the_new) == 2
    for one in to_the_new:
        assert {names.OPTION, *names.OPTIONS, "provisioner_id", "name"} <= set(one)
