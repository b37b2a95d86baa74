# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of nodes, passports and holds when hardware is swapped, whichever database keeps the ledger."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.action.node_identity import ActionModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import identity, lease
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import Holder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import status
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.strangers import former_serials, noted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import standing
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._admission import lacks
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._history import evidence
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import Door

GPU = "GPU-00000000-0000-4000-8000-000000000001"
MAC, MAC2 = "52:54:00:00:00:01", "52:54:00:00:00:02"
OLD = {"gpufleet_serial": "OLD0001", "gpufleet_boot_mac": MAC}
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(url: str, tmp_path: Path) -> Ask:
    """The verb as a task of gpu001 that says what the inventory has for it now, and hostvars what it has for others."""

    def call(said: dict[str, str], *, check_mode: bool = False, hostvars: Any = (), **args: Any) -> dict[str, Any]:
        args.setdefault("reason", "RMA 4711")
        shared = {"gpufleet_ledger_url": url}
        door = Door(
            tmp_path, identity.node_identity, base=ActionModule, name="node_identity", own_spec=identity.SPEC,
            args=args, check_mode=check_mode, diff=True, hostvars={**dict(hostvars), "gpu001": said}, **shared, **said,
        )  # fmt: skip
        return door.run()

    return call


def in_service(ledger: Ledger, name: str = "gpu001", serial: str = "OLD0001", mac: str = MAC) -> str:
    """A node that was imaged, judged and admitted, with a passport of that deployment."""
    node = ledger.identify(name, aliases=[("serial", serial), ("mac", mac)])
    ledger.confirm(node, [("serial", serial)], "bmc")
    ledger.append("r0", [(node, Event("state", "imaging", {"deploy_id": "d1"}))])
    ledger.append("r0", [(node, Event("verdict", "image_verify", {"verdict": "pass"}))])
    ledger.append("r0", [(node, Event("evidence", "not_in_scheduler", {"scheduler": "none"}))])
    ledger.append("r0", [(node, Event("state", state)) for state in ("validating", "admitted")])
    statement = {"predicate": {"deployment": {"id": "d1"}, "last_event": ledger.moment().event}}
    envelope = {
        "payloadType": "application/vnd.in-toto+json",
        "payload": base64.b64encode(json.dumps(statement).encode()).decode(),
    }
    now = ledger.now()
    ledger.save_passport("r0", node, issued=now, expires=now + 9999, digest="d", envelope=envelope)
    return node


def state(ledger: Ledger, node: str) -> str:
    return str(ledger.latest([node], "state")[node]["name"])


def known(ledger: Ledger, node: str) -> dict[str, str]:
    return {row["kind"]: row["value"] for row in ledger.aliases(node)}


def rows(ledger: Ledger) -> list[Any]:
    return [ledger._rows(f"SELECT * FROM {table}") for table in ("aliases", "events", "nodes")]


def test_u3_a_board_that_was_swapped_keeps_the_history_and_no_passport(ledger: Ledger, ask: Ask) -> None:
    node = in_service(ledger)
    assert lacks(ledger, node, looked=False) == ""
    new = {"gpufleet_serial": "NEW0001", "gpufleet_boot_mac": MAC2}
    bmc = {"identity": {"serial": "NEW0001", "uuid": ""}, "machine": {"agrees": ["serial"], "contradicts": []}}
    before = rows(ledger)
    foreseen = ask(new, check_mode=True, state="replaced", part="board", bmc=bmc)
    assert foreseen["changed"] and rows(ledger) == before
    done = ask(new, state="replaced", part="board", bmc=bmc)
    assert done["changed"] and done["node_id"] == node, done
    assert known(ledger, node) == {"serial": "NEW0001", "mac": MAC2} and state(ledger, node) == "quarantined"
    assert list(foreseen["after"].values())[0][-1] == "state quarantined" == list(done["after"].values())[0][-1]
    assert [one["confirmed_by"] for one in done["aliases"]] == ["", "bmc"]
    assert lacks(ledger, node, looked=False)
    found = evidence(ledger, node)
    assert (found["imaged"]["kind"], found["deploy_id"], found["verdicts"]) == ("identity", "", [])
    told = ledger.history(node, kinds=("identity",))[-1]["data"]
    assert told["reason"] == "RMA 4711" and "OLD0001" in told["was"] and "NEW0001" in told["now"]
    # Said once more, nothing happens; after the node has gone on, it is another swap.
    again = rows(ledger)
    assert not ask(new, state="replaced", part="board", bmc=bmc)["changed"] and rows(ledger) == again
    ledger.append("r1", [(node, Event("state", "validating"))])
    assert ask(new, state="replaced", part="board")["changed"] and state(ledger, node) == "quarantined"


def test_u3_a_serial_that_a_board_took_with_it_is_the_machines_former_one_until_another_has_it(
    ledger: Ledger, ask: Ask
) -> None:
    node = in_service(ledger)
    for serial in ("NEW0001", "NEW0002"):
        ask({"gpufleet_serial": serial, "gpufleet_boot_mac": MAC}, state="replaced", part="board")
    former = noted(ledger, [node])[node]
    assert former_serials(ledger, node, former) == ["OLD0001", "NEW0001"]
    in_service(ledger, "gpu002", "OLD0001", MAC2)
    assert former_serials(ledger, node, former) == ["NEW0001"]


def test_u3_what_followed_the_old_board_counts_for_nothing_though_the_aliases_stay(ledger: Ledger, ask: Ask) -> None:
    """Many boards take the serial of their chassis over."""
    node = in_service(ledger)
    assert ask(OLD, state="replaced", part="board")["changed"]
    assert known(ledger, node) == {"serial": "OLD0001", "mac": MAC} and evidence(ledger, node)["deploy_id"] == ""
    ledger.append("r1", [(node, Event("state", name)) for name in ("validating",)])
    assert "passport" in lacks(ledger, node, looked=False)


def test_u3_what_the_old_board_failed_and_what_was_tried_on_it_go_with_it(ledger: Ledger, ask: Ask) -> None:
    node = in_service(ledger)
    xid = {"verdict": "fail", "remedy": "rma", "findings": [{"id": "xid_79", "remedy": "rma", "text": "Xid 79"}]}
    ledger.append("r1", [(node, Event("verdict", "kernel_log_gate", xid))])
    for _recycle in range(2):
        ledger.record_attempt("r1", node, "reimage", "Xid 79")
        ledger.append("r1", [(node, Event("state", "quarantined", {"reason": "Xid 79", "remedy": "reset_gpu"}))])
    assert standing(evidence(ledger, node), {}) and status(ledger, {"gpu001": node})["gpu001"]["attempts"] == 2
    assert ask({"gpufleet_serial": "NEW0001"}, state="replaced", part="board")["changed"]
    one = status(ledger, {"gpu001": node})["gpu001"]
    assert (one["attempts"], one["left"]) == (0, "") and "day2_recycle_all" not in one["next"], one
    ledger.append("r2", [(node, Event("state", "imaging", {"deploy_id": "d2"}))])
    assert standing(evidence(ledger, node), {}) == [], "the log of the old board"
    ledger.append("r2", [(node, Event("verdict", "kernel_log_gate", xid))])
    assert standing(evidence(ledger, node), {}), "what the new one fails stands"


def test_u3_a_chassis_that_was_swapped_is_another_node(ledger: Ledger, ask: Ask) -> None:
    """The network card was kept, and so is the hold, which keeps jobs off until day 0 is through."""
    old = in_service(ledger)
    ledger.append("r0", [(old, Event("hold", "taken", {"hold_token": "gpufleet:r0:work"}))])
    ledger.record_attempt("r0", old, "reboot", "xid")
    new = {**OLD, "gpufleet_serial": "NEW0001"}
    for said in (OLD, {"gpufleet_serial": "", "gpufleet_boot_mac": MAC2}, {**new, "gpufleet_node_id": old}):
        before = rows(ledger)
        assert ask(said, state="replaced", part="chassis").get("failed") and rows(ledger) == before
    done = ask(new, state="replaced", part="chassis")
    its = done["node_id"]
    assert done["retired_node"] == old != its and ledger.retired(old), done
    assert (known(ledger, old), known(ledger, its)) == ({"serial": "OLD0001"}, {"serial": "NEW0001", "mac": MAC})
    assert [one["name"] for one in ledger.history(old, kinds=("state",))][-2:] == ["quarantined", "retired"]
    assert ledger.passport(its) is None and ledger.attempts(its) == []
    assert ledger.latest([its], "hold")[its]["data"]["hold_token"] == "gpufleet:r0:work"
    assert ledger.identify("gpu001", aliases=[("serial", "NEW0001"), ("mac", MAC)], create=False) == its
    again = rows(ledger)
    assert ask(new, state="replaced", part="chassis")["node_id"] == its and rows(ledger) == again


@pytest.mark.parametrize("kind", ["mac", "gpu"])
def test_u3_a_part_that_moved_leaves_neither_machine_its_passport(ledger: Ledger, ask: Ask, kind: str) -> None:
    node, other = in_service(ledger), in_service(ledger, "gpu002", "OLD0002", MAC2)
    value = {"mac": MAC2.upper(), "gpu": GPU}[kind]
    said = {**OLD, "gpufleet_boot_mac": MAC2} if kind == "mac" else OLD
    force = {} if kind == "mac" else {"force_reason": "out of a node of before this ledger"}
    done = ask(said, state="moved", kind=kind, value=value, **force)
    told = ledger.history(node, kinds=("identity",))[-1]["data"]
    assert told.get("forced") == force.get("force_reason"), "which is recorded"
    assert done["changed"] and done["from_node"] == (other if kind == "mac" else ""), done
    assert ledger.owner(kind, value) == node and "mac" not in known(ledger, other) or kind == "gpu"
    for one in [node, other] if kind == "mac" else [node]:
        assert state(ledger, one) == "quarantined"
        ledger.append("r1", [(one, Event("state", "validating"))])
        assert "passport" in lacks(ledger, one, looked=False)
    assert not ask(said, state="moved", kind=kind, value=value)["changed"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("mac", "52:54:00:00:00:77"), ("gpu", GPU), ("system_uuid", "5ac00000-0000-4000-8000-0000000000aa")],
)
def test_y6_a_part_that_the_ledger_has_in_no_machine_came_from_none(
    ledger: Ledger, ask: Ask, kind: str, value: str
) -> None:
    """A slip in its number, and the machine that gave it goes on serving without it."""
    in_service(ledger)
    before = rows(ledger)
    for dry in (True, False):
        done = ask(OLD, state="moved", kind=kind, value=value, check_mode=dry)
        assert "in no machine" in done["msg"] and f"{kind} {value}" in done["msg"] and rows(ledger) == before, done
    assert ask(OLD, state="moved", kind=kind, value=value, force_reason="ticket 9")["changed"]


@pytest.mark.parametrize("typed", ["GPU-1", "gpu002", "00000000-0000-4000-8000-000000000001", f"{GPU}0", f"MIG-{GPU}"])
def test_y6_what_is_no_gpu_moves_nowhere(ledger: Ledger, ask: Ask, typed: str) -> None:
    node = in_service(ledger)
    before = rows(ledger)
    done = ask(OLD, state="moved", kind="gpu", value=typed, force_reason="whatever it is")
    assert (
        f"gpu {typed!r} is not the name of a GPU" in done["msg"]
        and "nvidia-smi -L" in done["msg"]
        and rows(ledger) == before
    )
    ledger.identify("gpu001", aliases=[("serial", "OLD0001"), ("gpu", typed)])  # as a release of before took it down
    assert ledger.owner("gpu", typed) == node and ask(OLD, state="retired", kind="gpu", value=typed)["changed"]


def test_y6_a_gpu_is_one_however_it_is_typed(ledger: Ledger, ask: Ask) -> None:
    node, other = in_service(ledger), in_service(ledger, "gpu002", "OLD0002", MAC2)
    typed = GPU.replace("0000-4000", "abcd-4000")
    ledger.identify("gpu002", aliases=[("serial", "OLD0002"), ("gpu", typed)])
    done = ask(OLD, state="moved", kind="gpu", value=typed.upper())
    assert done["from_node"] == other and ledger.owner("gpu", typed) == node, done


def test_u3_what_nobody_has_and_nobody_lost_is_told(ledger: Ledger, ask: Ask) -> None:
    in_service(ledger)
    before = rows(ledger)
    for kind, value in (("mac", "52:54:00:00:00:77"), ("serial", "OLD0008"), ("gpu", GPU)):
        for dry in (True, False):
            done = ask(OLD, state="retired", kind=kind, value=value, check_mode=dry)
            assert "nobody has this, and nobody lost it" in done.get("msg", "") and rows(ledger) == before, done
    assert ask(OLD, state="retired", kind="mac", value=MAC)["changed"]
    before = rows(ledger)
    for spelling in (MAC, MAC.replace(":", "-").upper()):
        again = ask(OLD, state="retired", kind="mac", value=spelling)
        assert not again.get("failed") and not again["changed"] and rows(ledger) == before, again


def test_u3_what_a_swap_took_off_needs_not_be_retired(ledger: Ledger, ask: Ask) -> None:
    node = in_service(ledger)
    ledger.append("r0", [(node, Event("state", "drained"))])
    new = {"gpufleet_serial": "NEW0001", "gpufleet_boot_mac": MAC2}
    assert ask(new, state="replaced", part="board")["changed"]
    # A release of before has told the serials of boards alone.
    ledger.append("r0", [(node, Event("identity", "replaced", {"part": "board", "serials": ["OLD0000"]}))])
    before = rows(ledger)
    for kind, value in (("serial", "OLD0001"), ("mac", MAC.upper()), ("serial", "OLD0000")):
        done = ask(new, state="retired", kind=kind, value=value)
        assert not done.get("failed") and not done["changed"] and rows(ledger) == before, done


def test_u3_a_node_that_another_run_works_on_is_left_to_it(ledger: Ledger, ask: Ask) -> None:
    in_service(ledger)
    other = in_service(ledger, "gpu002", "OLD0002", MAC2)
    with ledger.transaction() as conn:
        lease.take_in(conn, ledger, other, Holder("another", "elsewhere", 1, 1, "boot"), node="gpu002")
    before = rows(ledger)
    done = ask({**OLD, "gpufleet_boot_mac": MAC2}, state="moved", kind="mac", value=MAC2)
    assert done["error"]["kind"] == "lease_held" and rows(ledger) == before


def test_u3_an_alias_that_is_retired_is_nobodys(ledger: Ledger, ask: Ask) -> None:
    node = in_service(ledger)
    before = rows(ledger)
    assert "confirmed by a peer" in ask(OLD, state="retired", kind="serial", value="old0001")["msg"]
    assert rows(ledger) == before
    assert ask(OLD, state="retired", kind="mac", value=MAC)["changed"] and known(ledger, node) == {"serial": "OLD0001"}
    told = ledger.history(node, kinds=("identity",))[-1]
    assert (told["name"], told["data"]["value"], told["data"]["reason"]) == ("retired", MAC, "RMA 4711")
    assert state(ledger, node) == "admitted" and lacks(ledger, node, looked=False) == ""
    assert not ask(OLD, state="retired", kind="mac", value=MAC)["changed"]


def test_u3_a_serial_that_was_mistyped_and_taken_out_of_the_inventory_is_taken_off_the_node(
    ledger: Ledger, ask: Ask
) -> None:
    node = ledger.identify("gpu001", aliases=[("serial", "TYPO1"), ("mac", MAC)])
    said = {"gpufleet_boot_mac": MAC}
    assert ask(said, state="retired", kind="serial", value="TYPO1")["changed"] and known(ledger, node) == {"mac": MAC}
    assert ledger.identify("gpu001", aliases=[("serial", "S1"), ("mac", MAC)], inventory=False) == node


def test_u3_what_cannot_have_happened_is_not_written(ledger: Ledger, ask: Ask) -> None:
    in_service(ledger)
    in_service(ledger, "gpu002", "OLD0002", MAC2)
    new = {**OLD, "gpufleet_serial": "NEW0001"}
    wrong = {"identity": {"serial": "OLD0001"}, "machine": {"contradicts": ["serial"]}}
    before = rows(ledger)
    for said, args, told in (
        (new, {"state": "replaced", "part": "board", "bmc": wrong}, "the BMC tells another machine"),
        ({**OLD, "gpufleet_serial": "OLD0002"}, {"state": "replaced", "part": "board"}, "belongs to another node"),
        (OLD, {"state": "moved", "kind": "serial", "value": "OLD0002"}, "a serial goes with its chassis"),
        (new, {"state": "replaced", "part": "board", "was": "NOBODY"}, "knows no node by 'NOBODY'"),
        (new, {"state": "replaced", "part": "board", "reason": " "}, "for a reason"),
        (new, {"state": "replaced"}, "part"),
    ):
        done = ask(said, **args)
        assert told in done["msg"] and rows(ledger) == before, done


def test_u3_present_shows_who_says_what(ledger: Ledger, ask: Ask) -> None:
    node = in_service(ledger)
    before = rows(ledger)
    bmc = {"identity": {"serial": "NEW0001"}, "machine": {"contradicts": ["serial"]}}
    shown = ask({**OLD, "gpufleet_boot_mac": MAC2}, bmc=bmc)
    assert (shown["changed"], shown["node_id"], shown["name"]) == (False, node, "gpu001")
    told = {one["kind"]: (one["value"], one["confirmed"], one["confirmed_by"]) for one in shown["aliases"]}
    assert told == {"serial": ("OLD0001", True, "bmc"), "mac": (MAC, False, "")}
    assert shown["inventory"] == {"serial": "OLD0001", "mac": MAC2} and shown["bmc"] == ["serial NEW0001"]
    assert any(MAC2 in one for one in shown["differences"]) and rows(ledger) == before


@pytest.mark.parametrize(
    "typed", ["gpu018", "7c:c2:55:10:20:1", "00:00:00:00:00:00", "ff-ff-ff-ff-ff-ff", "7c:c2:55:10:20:11:99"]
)
def test_y3_what_is_no_mac_is_nobodys(ledger: Ledger, ask: Ask, typed: str) -> None:
    node = in_service(ledger)
    before = rows(ledger)
    for verb in ("moved", "retired"):
        assert f"mac {typed!r} is nothing that can be {verb}" in ask(OLD, state=verb, kind="mac", value=typed)["msg"]
    # A row that has it is one that has none.
    assert ledger.identify("gpu001", aliases=[("serial", "OLD0001"), ("mac", typed)]) == node
    assert rows(ledger) == before


def test_u3_of_whom_no_scheduler_was_ever_asked_nobody_knows_that_it_has_none(ledger: Ledger, ask: Ask) -> None:
    node = ledger.identify("gpu001", aliases=[("serial", "OLD0001"), ("mac", MAC)])
    ledger.append("r0", [(node, Event("state", name)) for name in ("enrolled", "imaging", "validating", "admitted")])
    before = rows(ledger)
    refused = ask({"gpufleet_serial": "NEW0001", "gpufleet_boot_mac": MAC}, state="replaced", part="board")
    assert refused.get("failed") and refused["error"]["kind"] == "not_ours" and rows(ledger) == before, refused
    ledger.append("r0", [(node, Event("evidence", "not_in_scheduler", {"scheduler": "none"}))])
    assert ask({"gpufleet_serial": "NEW0001", "gpufleet_boot_mac": MAC}, state="replaced", part="board")["changed"]
