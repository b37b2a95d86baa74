# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cmsh prints and takes, and what a node of BCM is doing by it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import recorded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.bcm import install_log, record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image
from hypothesis import given
from hypothesis import strategies as st

MAC = "44:38:39:22:AA:04"
IMAGE = Image(name="gold", version="1", url="http://x/gold.img", sha256="1" * 64, named="gold-1", deploy_id="d-1")
ORDERED = {"order": "install", "named": "gold-1", "seen": "down"}
#: Whatever a person may have typed into a field of one line.
LINE = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=40).map(str.strip)


def values(name: str = "node001", **told: str) -> dict[str, str]:
    known = {"mac": MAC, "status": f"{name} .................. [   UP   ]", **told}
    return {key: known.get(key, "") for key in record.PROPERTIES}


# -- what it prints ----------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.from_regex(r"n[0-9]{1,2}", fullmatch=True), st.tuples(LINE, st.booleans()), max_size=5))
def test_each_value_is_read_back_whatever_stands_in_it(nodes: dict[str, tuple[str, bool]]) -> None:
    """Empty, with a line of its own or without one; and like a node's name, its own or another one's."""
    lines: list[str] = []
    for name, (value, blank) in nodes.items():
        lines += [name, *([value] if value or blank else []), name]
    assert record.pairs(lines) == {name: value for name, (value, _blank) in nodes.items()}


@given(st.lists(st.sampled_from(["n1", "n2", "n3"]), min_size=3, max_size=3), st.booleans())
def test_a_value_that_reads_like_a_name_is_a_value(values: list[str], blank: bool) -> None:
    lines = [line for name, value in zip(("n1", "n2", "n3"), values) for line in (name, value, name)]
    assert record.pairs([*lines, "n4", *([""] if blank else []), "n4"]) == {
        **dict(zip(("n1", "n2", "n3"), values)),
        "n4": "",
    }


@given(st.lists(st.text(max_size=5).map(lambda line: line.replace("\n", " ")), max_size=12))
def test_no_answer_whatever_it_is_makes_a_value_of_two_lines(lines: list[str]) -> None:
    for name, value in (record.pairs(lines) or {}).items():
        assert name and [line.strip() for line in lines].count(name) >= 2 and "\n" not in value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n1\nx", "it ends before its value does"),
        ("n1\nx\ny\nn1", "a value of two lines"),
        ("n1\nx\nn1\nn2\ny\nn2\nn1\nz\nn1", "a node twice"),
    ],
)
def test_what_is_no_whole_answer_is_none(text: str, why: str) -> None:
    assert record.pairs(text.split("\n")) is None, why


@pytest.mark.parametrize(
    ("line", "status", "closed", "told"),
    [
        ("node001 .................. [   UP   ]", "up", "", ""),
        (
            "node001 ............. [ UP ] restart-required, health check failed",
            "up",
            "",
            "restart-required, health check",
        ),
        ("node001 ...[ DOWN/CLOSED ] (fan dead)", "down", "yes", "(fan dead)"),
        ("node001 ... [ DOWN/CLOSED ] (fan dead)", "down", "yes", "(fan dead)"),
        ("node001 ... [ CLOSED ] (UP)", "up", "yes", "(UP)"),
        (
            "node001 ..... [ INSTALLER_CALLINGINIT ] (switching to local root)",
            "installer_callinginit",
            "",
            "(switching",
        ),
        ("node001 ..... [  NO DATA  ]", "no_data", "", ""),
    ],
)
def test_a_status_as_the_manual_shows_it(line: str, status: str, closed: str, told: str) -> None:
    found = record.read("node001", values(status=line))
    assert found is not None and (found["status"], found["closed"]) == (status, closed)
    assert found["told"].startswith(told)


def test_another_ones_status_and_no_card_are_no_record() -> None:
    assert record.read("node001", values(status="node002 .... [   UP   ]")) is None
    assert record.read("node001", values(mac="no such property")) is None
    found = record.read("node001", values(mac="00:00:00:00:00:00"))
    assert found is not None and found["mac"] == ""


def test_of_what_a_value_was_inherited_is_no_part_of_it() -> None:
    found = record.read("node001", values(softwareimage="gold-1 (category:default)", kernelparameters="a=b (c) d"))
    assert found is not None and found["softwareimage"] == "gold-1" and found["kernelparameters"] == "a=b (c) d"


def test_recorded_statuses_and_lines_of_the_log_are_read() -> None:
    text = (recorded.demanded("provisioners/bcm", "cmsh_*.txt") / "cmsh_outputs_quoted.txt").read_text(encoding="utf-8")
    lines = re.findall(r"^(\S+) \.{3,} \[   UP   \]$", text, re.MULTILINE)
    assert {"bcm-head", "node001", "node002"} <= set(lines)
    for name in ("bcm-head", "node001", "node002"):
        told = next(line for line in text.split("\n") if line.startswith(f"{name} ."))
        found = record.read(name, values(name, status=told))
        assert found is not None and found["status"] == "up"
    lines_of_it = [(0, line) for line in text.encode().split(b"\n")]
    log = install_log._by_node(lines_of_it, {"node001": 0})["node001"]
    assert install_log.mode(log) == "AUTO" and "Creating new disk layout." in install_log.last(log)


# -- our words ---------------------------------------------------------------------------------------------------------


@given(LINE, LINE, st.dictionaries(st.sampled_from(["name", "of", "seen", "log"]), LINE), LINE)
def test_our_words_are_read_back_and_those_of_people_stay(
    hold: str, serial: str, note: dict[str, str], mark: str
) -> None:
    words = record.Words(hold=hold, note=note, serial=serial, marks={"m": mark} if mark else {}, theirs="ask Anna, x=1")
    again = record.words({"userdefined1": words.text()})
    assert again.hold == hold and again.theirs == "ask Anna, x=1" and again.marks == words.marks
    assert dict(again.note) == {key: value for key, value in note.items() if value}
    record.quoted(words.text(), "userdefined1", "node001")
    assert again.serial in (serial, "")


def test_the_image_of_an_order_is_known_by_all_that_was_declared_of_it() -> None:
    note = record.note(IMAGE, {"status": "down"}, "1.2", "")
    assert record.is_noted(IMAGE, note) and record.is_noted(
        Image("gold", "1", IMAGE.url, IMAGE.sha256, named="gold-1"), note
    )
    for changed in (
        {"sha256": "2" * 64},
        {"url": "http://y"},
        {"version": "2"},
        {"deploy_id": "d-2"},
        {"named": "gold-2"},
    ):
        assert not record.is_noted(Image(**{**vars(IMAGE), **changed}), note), changed


# -- what it takes -----------------------------------------------------------------------------------------------------


@given(st.text(max_size=60))
def test_no_text_ends_a_command_or_begins_one_of_a_shell(text: str) -> None:
    """Either it is refused, or nothing in it is read but as itself."""
    try:
        [command] = record.writes({"node001": {"userdefined1": text or "x"}})
    except ConfigError as exc:
        with pytest.raises(ConfigError) as of_another:
            record.writes({"node001": {"userdefined1": ";"}})
        assert str(exc) == str(of_another.value), "nothing of it is told, which may be a secret"
        return
    assert not set(command[len("set node001 userdefined1 ") + 1 : -1]) & set("\"'`!;|<>$&(){}[]#^\\\n\r\t*?~")
    assert command.count('"') == 2


@pytest.mark.parametrize(
    "name", ["node001..node004", "node00[1-4]", "a,b", "-n", "^/x", "*", "a b", "a;b", "", "node001.", "a\n"]
)
def test_a_list_of_nodes_is_no_name(name: str) -> None:
    assert not record.NAME.match(name)


def test_parameters_of_its_own_are_told_from_those_of_its_image() -> None:
    passed_on = ("quiet a=1", "", "quiet a=1")
    known = {"userdefined1": record.Words(note={"base": record.digest("quiet")}).text()}
    for text, own in (
        ("", None),
        ("quiet  a=1", None),
        ("quiet gpufleet.deploy=d-1", None),
        ("quiet b=2 gpufleet.deploy=d-1", "quiet b=2"),
    ):
        assert record.own_parameters({**known, "kernelparameters": text}, passed_on) == own, text


# -- what it is doing --------------------------------------------------------------------------------------------------


LEFT = {"seen": "up", "image": "gold-1"}


def test_an_installation_by_others_is_hidden_by_no_later_boot() -> None:
    lines = ["Installmode is: FULL", "x", "Installmode is: AUTO"]
    assert install_log.mode(lines) == "AUTO" and install_log.mode(lines, of_any=True) == "FULL"
    assert install_log.mode(lines[1:], of_any=True) == "AUTO"


@pytest.mark.parametrize(
    ("told", "note", "log", "native"),
    [
        # An order of ours.
        ({"nextinstallmode": "FULL", "status": "down"}, ORDERED, "", "ordered"),
        ({"nextinstallmode": "FULL", "status": "up"}, ORDERED, "", "ordered"),
        ({"nextinstallmode": "full", "status": "installing"}, ORDERED, "FULL", "installing"),
        ({"nextinstallmode": "FULL", "status": "installer_failed"}, ORDERED, "FULL", "failed"),
        (
            {"nextinstallmode": "FULL", "status": "installer_failed"},
            {**ORDERED, "seen": "installer_failed"},
            "",
            "ordered",
        ),
        (
            {"nextinstallmode": "FULL", "status": "installer_failed"},
            {**ORDERED, "seen": "installer_failed"},
            "FULL",
            "failed",
        ),
        ({"status": "installer_callinginit"}, ORDERED, "FULL", "installer_callinginit"),
        ({"status": "down"}, ORDERED, "FULL", "consumed"),
        ({"status": "up"}, ORDERED, "FULL", "installed"),
        ({"status": "up"}, ORDERED, None, "installed"),
        ({"status": "up"}, ORDERED, "?", "installed"),
        ({"status": "up"}, ORDERED, "AUTO", "not installed"),
        ({"status": "up"}, ORDERED, "", "not installed"),
        # One whose end was noted: its later boots pass the installer as well.
        ({"status": "up"}, {**ORDERED, "done": "yes"}, "", "up"),
        ({"status": "installing"}, {**ORDERED, "done": "yes"}, None, "installing"),
        ({"status": "down"}, {**ORDERED, "done": "yes"}, None, "down"),
        ({"status": "up", "nextinstallmode": "FULL"}, {**ORDERED, "done": "yes"}, None, "up"),
        # Of others, or of nobody.
        ({"status": "up", "softwareimage": "theirs"}, ORDERED, None, "up"),
        ({"status": "up"}, {}, None, "up"),
        ({"status": "down"}, {}, None, "down"),
        ({"status": "down", "mac": ""}, {}, None, "defined"),
        ({"status": "up", "mac": ""}, {}, None, "up"),
        ({"status": "installing"}, {}, None, "installing"),
        ({"status": "down"}, {"order": "entered", "seen": "down"}, None, "defined"),
        ({"status": "up"}, {"order": "entered", "seen": "down"}, None, "up"),
        ({"status": "up"}, {"order": "clear", "seen": "up"}, None, "defined"),
        ({"status": "down"}, {"order": "clear", "seen": "up"}, None, "defined"),
        ({"status": "up"}, {"order": "clear", "seen": "down"}, None, "up"),
        # One that we left, and that somebody has ordered or installed since.
        ({"status": "up"}, {**LEFT, "order": "clear"}, "", "defined"),
        ({"status": "up"}, {**LEFT, "order": "clear"}, "AUTO", "defined"),
        ({"status": "up"}, {**LEFT, "order": "clear"}, "FULL", "up"),
        ({"status": "up"}, {**LEFT, "order": "clear"}, "?", "up"),
        ({"status": "up", "softwareimage": "theirs"}, {**LEFT, "order": "clear"}, None, "up"),
        ({"status": "up", "nextinstallmode": "FULL"}, {**LEFT, "order": "clear"}, "", "up"),
        ({"status": "down"}, {**LEFT, "order": "clear"}, "FULL", "down"),
        ({"status": "down"}, {**LEFT, "order": "entered", "seen": "down"}, "AUTO", "down"),
        ({"status": "down", "softwareimage": "theirs"}, {**LEFT, "order": "entered", "seen": "down"}, "", "down"),
        # A person's.
        ({"status": "installing", "told": "(entered maintenance mode)"}, ORDERED, "FULL", "in a person's hands"),
        ({"status": "burning"}, {}, None, "in a person's hands"),
    ],
)
def test_what_a_node_is_doing(told: dict[str, str], note: dict[str, str], log: Any, native: str) -> None:
    assert tables.native({"mac": MAC, "softwareimage": "gold-1", **told}, note, log) == native
