# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of all actions, over real objects of Ansible and a real ledger: what leaves it, and what it records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names as provisioners
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Event, Result
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.doors import SECRET, Door, Verb


def echoes(params: Any, ctx: Context) -> Result:
    """A peer that repeats what it was logged in with, wherever it can."""
    ctx.may_write(f"POST /power login={params['bmc_password']}")
    said = f"login admin:{params['bmc_password']} is known here"
    return Result(
        before={"power": said},
        after={"power": "off"},
        data={"msg": said, "list": [said, {"deep": (said, 7)}], "flag": True},
        events=[Event("note", "told", {"text": said})],
    )


def refuses(params: Any, ctx: Context) -> Result:
    ctx.may_write("POST /power")
    raise Refused(f"no power for {params['bmc_password']}", seen=f"HTTP 400: {params['bmc_password']}")


def test_t1_a_known_secret_leaves_in_no_result(tmp_path: Path) -> None:
    result = Door(tmp_path, echoes).run()
    assert SECRET not in str(result)
    assert result["msg"] == "login admin:******** is known here"
    assert result["list"][1]["deep"][1] == 7 and result["flag"] is True and result["changed"] is True


def test_t1_a_known_secret_leaves_in_no_failure(tmp_path: Path) -> None:
    result = Door(tmp_path, refuses).run()
    assert result["failed"] and result["error"]["kind"] == "refused" and result["error"]["node"] == "gpu001"
    assert SECRET not in str(result) and "no power for ********" in result["msg"]


@pytest.mark.parametrize("verb", [echoes, refuses])
def test_t1_a_known_secret_is_in_no_event(tmp_path: Path, verb: Verb) -> None:
    door = Door(tmp_path, verb)
    door.run()
    assert SECRET not in str(door.events())
    assert SECRET.encode() not in door.ledger.read_bytes()


def test_t1_a_write_has_its_intent_before_it_and_its_outcome_after_it(tmp_path: Path) -> None:
    door = Door(tmp_path, echoes)
    result = door.run()
    assert [event[:2] for event in door.events()] == [
        ("intent", "redfish_power"),
        ("note", "told"),
        ("outcome", "redfish_power"),
    ]
    assert result["events"][0]["id"] > 0


def test_t1_an_intent_tells_the_options_and_not_where_the_ledger_lies(tmp_path: Path) -> None:
    door = Door(tmp_path, echoes, gpufleet_bmc_address="https://10.0.0.1")
    door.run()
    intent = door.events()[0][2]
    assert "https://10.0.0.1" in intent and "ledger" not in intent


def test_t1_a_write_that_failed_has_an_outcome_as_well(tmp_path: Path) -> None:
    door = Door(tmp_path, refuses)
    door.run()
    assert [event[:2] for event in door.events()] == [("intent", "redfish_power"), ("outcome", "redfish_power")]
    assert '"kind": "refused"' in door.events()[-1][2]


def test_j7_what_a_verb_has_to_tell_is_told_where_it_fails(tmp_path: Path) -> None:
    def tells(params: Any, ctx: Context) -> Result:
        ctx.told.append(Event("outcome", "redfish_power", {"kind": "refused"}))
        raise Refused("no power")

    door = Door(tmp_path, tells)
    door.run()
    assert [event[:2] for event in door.events()] == [("outcome", "redfish_power")]


def test_t4_a_ledger_that_is_away_hides_no_error_of_a_verb(tmp_path: Path) -> None:
    def refuses_alone(params: Any, ctx: Context) -> Result:
        ctx.may_write("POST /power")
        door.ledger.rename(tmp_path / "away")
        raise Refused("no power")

    door = Door(tmp_path, refuses_alone)
    result = door.run()
    assert result["failed"] and result["error"]["kind"] == "refused" and "no power" in result["msg"]


def test_t1_check_mode_records_nothing(tmp_path: Path) -> None:
    door = Door(tmp_path, echoes, check_mode=True)
    assert door.run()["asked"] == []
    assert door.events() == []


def test_t1_a_look_records_no_outcome(tmp_path: Path) -> None:
    door = Door(tmp_path, lambda params, ctx: Result({"power": "on"}, {"power": "on"}))
    assert door.run()["changed"] is False
    assert door.events() == []


def test_t1_a_surprise_of_a_library_names_the_node(tmp_path: Path) -> None:
    def breaks(params: Any, ctx: Context) -> Result:
        raise KeyError("Members")

    result = Door(tmp_path, breaks).run()
    assert result["failed"] and result["error"]["kind"] == "bad_answer" and "gpu001" in result["msg"]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"gpufleet_serial": ""}, "nothing tells which machine this is"),
        ({"gpufleet_bmc_protocol": "smtp"}, "bmc_protocol"),
    ],
)
def test_t1_a_write_needs_a_machine_that_is_known_and_options_that_are(
    tmp_path: Path, variables: dict[str, Any], told: str
) -> None:
    door = Door(tmp_path, echoes, **variables)
    result = door.run()
    assert result["failed"] and told in result["msg"]
    assert door.events() == []


HOSTILE = "\x1b[2J\x1b]52;c;cm0=\x07 \x9b31m \u202e ok\rfailed"


def controls(params: Any, ctx: Context) -> Result:
    """A peer that writes to the terminal of whoever looks."""
    ctx.say(f"waits for {HOSTILE}")
    ctx.may_write(f"POST /{HOSTILE}")
    data = {"msg": HOSTILE, "list": [{HOSTILE: (HOSTILE,)}]}
    return Result({"power": HOSTILE}, {"power": "off"}, data=data, events=[Event("note", "told", {HOSTILE: HOSTILE})])


def complains(params: Any, ctx: Context) -> Result:
    ctx.may_write("POST /power")
    raise Refused(f"no power for {HOSTILE}", seen=HOSTILE, address=HOSTILE, details={HOSTILE: HOSTILE})


def breaks_with_controls(params: Any, ctx: Context) -> Result:
    ctx.may_write("POST /power")
    raise KeyError(HOSTILE)


@pytest.mark.parametrize("verb", [controls, complains, breaks_with_controls])
def test_s3_what_a_terminal_acts_on_is_in_no_result_and_no_event(
    tmp_path: Path, verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    door = Door(tmp_path, verb, diff=True)
    found = [door.run(), *(json.loads(event[2]) for event in door.events())]
    written = [json.dumps(one, ensure_ascii=False) for one in found]
    said = capsys.readouterr().out
    assert len(written) > 1 and r"\\x1b[2J" in written[0]
    assert r"\x1b[2J" in said or verb is not controls
    for text in (*written, said):
        assert r"\u00" not in text, "JSON would hide a control so"
        assert not [char for char in "\x1b\x07\x9b\u202e\r" if char in text]


def test_s3_a_secret_is_in_no_line_of_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def tells(params: Any, ctx: Context) -> Result:
        ctx.say(f"the BMC says {params['bmc_password']}, see https://u:p4ssword@bmc/x")
        return Result()

    Door(tmp_path, tells).run()
    assert "the BMC says ********, see https://********@bmc/x" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [echoes, refuses])
def test_s3_check_mode_makes_no_ledger_and_no_folder_for_it(tmp_path: Path, verb: Verb) -> None:
    door = Door(tmp_path, verb, check_mode=True, gpufleet_ledger_url=f"sqlite:///{tmp_path}/state/ledger.sqlite")
    assert door._action is not None
    door.run()
    assert list(tmp_path.iterdir()) == []


def looks(self: Any, params: dict[str, Any]) -> dict[str, Any]:
    known = self.node_id()
    return {**params, "force_reason": f"{known}:{len(self.ledger().latest([known], 'state'))}"}


def test_s3_check_mode_reads_a_ledger_that_is_not_there_as_an_empty_one(tmp_path: Path) -> None:
    base = type("Looks", (VerbAction,), {"prepare": looks})
    said: list[str] = []

    def verb(params: Mapping[str, Any], ctx: Context) -> Result:
        said.append(params["force_reason"])
        return Result()

    assert not Door(tmp_path, verb, check_mode=True, base=base).run().get("failed")
    assert said == [":0"] and list(tmp_path.iterdir()) == []
    Door(tmp_path, verb, base=base).run()
    assert said[1].endswith(":0") and said[1] != ":0"
    before = (tmp_path / "ledger.sqlite").read_bytes()
    Door(tmp_path, verb, base=base, check_mode=True, gpufleet_serial="GF0002").run()
    assert said[2] == ":0", "a stranger becomes no node of the ledger"
    Door(tmp_path, verb, base=base, check_mode=True).run()
    assert said[3] == said[1] and (tmp_path / "ledger.sqlite").read_bytes() == before


@pytest.mark.parametrize(("holds", "word"), [(True, "with state maintenance"), (False, "deployed or released")])
def test_past_a_provisioner_the_advice_is_one_that_works_for_it(tmp_path: Path, holds: bool, word: str) -> None:
    lacking = provisioners.NO_MAINTENANCE
    lacking |= set() if holds else {"acme"}
    try:
        base = type("Past", (VerbAction,), {"PAST_PROVISIONER": True})
        told = Door(tmp_path, echoes, base=base, gpufleet_provisioner="acme").run()
    finally:
        lacking.discard("acme")
    assert told["failed"] and told["error"]["kind"] == "not_ours" and word in told["error"]["do"], told


@pytest.mark.parametrize(("url", "is_xcats"), [("/opt/xcat", True), ("https://mn.example.com/xcatws", False)])
def test_whose_the_power_of_a_node_is_follows_from_the_way_its_provisioner_is_asked(
    tmp_path: Path, url: str, is_xcats: bool
) -> None:
    """By its commands xCAT boots a machine, and by its web service it leaves that to the machine's BMC."""
    base = type("Past", (VerbAction,), {"PAST_PROVISIONER": True})
    told = Door(tmp_path, echoes, base=base, gpufleet_provisioner="xcat", gpufleet_provisioner_url=url).run()
    assert bool(told.get("failed")) == is_xcats, told
    assert ("belong to its provisioner (xcat)" in str(told.get("msg"))) == is_xcats


def silent(params: Any, ctx: Context) -> Result:
    raise AnsibleConnectionFailure("ssh: connect to host 10.0.0.1 port 22: No route to host")


def test_c3_a_node_that_falls_silent_comes_to_the_rescue_of_its_play(tmp_path: Path) -> None:
    """Ansible would drop it: held, and without a note. A play that asks for that is left to it."""
    door = Door(tmp_path, silent)
    failed = door.run()
    assert failed["failed"] and failed["error"]["kind"] == "unreachable" and "No route to host" in failed["msg"], failed
    assert not quarantines(failed), "a service's failure, which is noted"
    for jump in (None, "jump"):
        door = Door(tmp_path, silent)
        door.task.delegate_to, door.task.ignore_unreachable = jump, True
        with pytest.raises(AnsibleConnectionFailure):
            door.run()
