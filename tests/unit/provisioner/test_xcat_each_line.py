# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""xCAT's words: what is read out of them, what is written in them, and what they say of a node."""

from __future__ import annotations

import string

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.command import Answer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    DEPLOYED,
    DEPLOYING,
    READY,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat import record, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.cli import (
    blocks,
    errors,
    failures,
    said,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.xcat.find import state
from hypothesis import given
from hypothesis import strategies as st

TEXT = st.text(max_size=30)
KEYS = st.text(min_size=1, max_size=12)
NAMES = st.text(alphabet=string.ascii_lowercase + string.digits, min_size=1, max_size=8)
#: What people write there: words without ours among them.
PEOPLES = st.lists(st.text(alphabet=string.ascii_letters + "=:,%'\"#|!-", min_size=1, max_size=8), max_size=5).map(
    lambda words: " ".join(words).lstrip('" ').rstrip('" :')  # such ends xCAT's stanzas lose
)
NOT_GIVEN = {"order": "deploy", "named": "u24", "since": "11-23-2026 10:00:00"}
ORDER = {**NOT_GIVEN, "given": "yes"}
LATER = "11-23-2026 10:07:00"


# -- our words in a comment --------------------------------------------------------------------------------------------


@given(TEXT, st.dictionaries(NAMES, TEXT, max_size=4), st.dictionaries(KEYS, TEXT.filter(bool), max_size=3), PEOPLES)
def test_what_is_written_into_a_comment_is_read_out_of_it(
    hold: str, note: dict[str, str], marks: dict[str, str], theirs: str
) -> None:
    told = {key: value for key, value in note.items() if value}
    text = record.Words(hold, note, marks, theirs).text()
    assert record.words(text) == record.Words(hold, told, marks, theirs)
    assert text.isprintable() and text.startswith(theirs)


@given(st.text(max_size=60))
def test_any_comment_is_read_and_written_again_as_it_reads(comment: str) -> None:
    found = record.words(comment)
    assert record.words(found.text()) == found


# -- what it prints ----------------------------------------------------------------------------------------------------

VALUES = st.text(alphabet=string.ascii_letters + string.digits + " :=!|,._-/%", max_size=20).map(str.strip)
RECORDS = st.dictionaries(NAMES, st.dictionaries(st.sampled_from(record.ATTRIBUTES), VALUES, min_size=1), max_size=4)


@given(RECORDS)
def test_a_list_is_read_as_it_was_printed(nodes: dict[str, dict[str, str]]) -> None:
    lines = [f"{name}: {key}={value}" for name, fields in nodes.items() for key, value in fields.items()]
    assert record.attributes("".join(f"{line}\n" for line in lines)) == record.Told(nodes)


@given(st.text(max_size=80))
def test_whatever_is_printed_is_a_list_or_none(text: str) -> None:
    found = record.attributes(text)
    assert found is None or all(isinstance(fields, dict) for fields in found.found.values())


def test_what_is_no_list_is_none() -> None:
    assert record.attributes("<h1>Wartung</h1>\n") is None and record.attributes("site.master is not set!\n") is None
    assert record.attributes("No object definitions have been found\n") == record.Told()
    assert record.absent("Error: Could not find an object named 'n9' of type 'node'.\n") == {"n9"}


def test_a_comment_of_several_lines_is_one_nodes() -> None:
    found = record.attributes("n1: usercomment=ask Anna\nor Bob: x=1 y\nn2: status=booted\n")
    assert found == record.Told({"n1": {"usercomment": "ask Anna\nor Bob: x=1 y"}, "n2": {"status": "booted"}})
    assert record.Words(theirs=record.words("ask Anna\n or Bob").theirs).text() == "ask Anna or Bob"


def test_a_line_of_a_comment_is_no_attribute_of_what_was_not_asked_for() -> None:
    text = "n1: usercomment=ask Anna\nTicket: status=open\nn2: colour=red\nn1: xcatmaster=\nn2: status=booted\n"
    assert record.attributes(text, ("n1", "n2"), ("status", "usercomment", "xcatmaster")) == record.Told(
        {
            "n1": {"usercomment": "ask Anna\nTicket: status=open\nn2: colour=red", "xcatmaster": ""},
            "n2": {"status": "booted"},
        }
    )


def test_a_line_of_a_comment_that_reads_like_another_nodes_attribute_is_told() -> None:
    text = "n1: usercomment=x\nn2: status=booted\nand more\nn1: xcatmaster=\nn2: status=failed\nand more\n"
    found = record.attributes(text, ("n1", "n2"), ("status", "usercomment", "xcatmaster"))
    assert found is not None and found.broken == {"n2": "status"}, "nobody can tell whose it is"
    found = record.attributes(text.replace("and more\n", ""), ("n1", "n2"), ("status", "usercomment", "xcatmaster"))
    assert found is not None and found.twice == {"n2"} and found.broken == {}


@pytest.mark.parametrize(
    ("theirs", "read"),
    [
        ("ask\tAnna", "ask Anna"),
        ("ask \u00a0 Anna", "ask Anna"),
        ("ask\u200bAnna\x07", "ask Anna"),
        ("two  blanks", "two  blanks"),
        ("a \r\n\r\n b", "a b"),
    ],
)
def test_a_comment_is_written_as_one_line_that_a_stanza_takes(theirs: str, read: str) -> None:
    text = record.words(f"{theirs} gpufleet-hold=gpufleet:r:x").text()
    assert text == f"{read} gpufleet-hold=gpufleet:r:x"
    assert f"usercomment={text}" in record.stanza({"n1": {"usercomment": text}})


def test_errors_are_told_of_those_whom_they_name() -> None:
    names = ["n1", "n2", "n3", "n4"]
    out = "n1: on reset\nn2: [sn1]: Error: ERROR: timeout\n"
    err = "n3: Error: Incorrect password\nError: Failed to run 'rpower' against the nodes: n4,n9\n"
    told = errors(Answer(1, out, err), names)
    assert told == {
        "n2": "ERROR: timeout",
        "n3": "Incorrect password",
        "n4": "Failed to run 'rpower' against the nodes: n4,n9",
    }
    assert set(errors(Answer(0, "site.master is not set!\n", ""), names)) == set(names)
    assert errors(Answer(0, "n1: on reset\nn2: on\n", ""), names) == {}


def test_what_stops_a_command_for_nobody_by_name_stops_it_for_all() -> None:
    names = ["n1", "n2"]
    down = "Error: dhcp server is not running. please start the dhcp server."
    assert failures(Answer(1, "n1: install u\nn2: install u\n", down), names) == dict.fromkeys(names, down)
    both = failures(Answer(1, "n1: install u\n", f"n2: Error: no template\n[sn1]: {down}"), names)
    assert both == {"n1": f"[sn1]: {down}", "n2": "no template"}
    summary = "n2: Error: no template\nError: Failed to generate grub2 configurations for some node(s) on mn. Check"
    assert failures(Answer(1, "n1: install u\n", summary), names) == {"n2": "no template"}
    named = "Error: Failed to run 'nodeset' against the following nodes: n2"
    assert set(failures(Answer(1, "n1: install u\n", named), names)) == {"n2"}
    assert set(failures(Answer(1, "n1: install u\n", ""), names)) == {"n1", "n2"}, "and does not say for whom"
    assert failures(Answer(0, "n1: install u\nn2: install u\n", ""), names) == {}


def test_as_many_names_go_to_a_command_as_a_system_takes() -> None:
    short = [f"n{number}" for number in range(2500)]
    assert [len(block) for block in blocks(short)] == [1000, 1000, 500]
    long = [f"{number:0200d}" for number in range(1000)]
    assert sum(blocks(long), []) == long and max(len(",".join(block)) for block in blocks(long)) <= 100_000
    assert list(blocks([])) == []


def test_what_a_command_said_is_shown_without_passwords() -> None:
    shown = said(Answer(1, "n1: status=booted\nn1: bmcpassword=cal vin\nn2: x\n", ""))
    assert "status=booted" in shown and "cal" not in shown and "vin" not in shown and "n2: x" in shown


def test_cards_are_read_in_all_spellings() -> None:
    assert record.macs({"mac": "AA:BB:CC:00:00:01!eth0|aa:bb:cc:00:00:02!*NOIP*"}) == {
        "aa:bb:cc:00:00:01",
        "aa:bb:cc:00:00:02",
    }
    assert record.macs({"mac": ""}) == record.macs({}) == frozenset()


@pytest.mark.parametrize("name", ["n1.example.com", "12", "n1-n5", "-n1", "rack1,rack2", "/n.*/", "@gpu", "n[1-5]", ""])
def test_what_xcat_takes_for_no_node_or_for_many_is_refused_as_a_name(name: str) -> None:
    assert not record.NODE.match(name)
    assert all(record.NODE.match(one) for one in ("n1", "gpu-001", "r1-n5-a", "1a", "n_1"))


# -- what it reads -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["z9\nb", "z9\n\nn2:\n    mgt=x", " z9", "z9 ", "z9\x1bb", "z9\u2028b", '"z9', 'z9"', "z9:"]
)
def test_what_a_stanza_would_read_as_something_else_is_not_written(value: str) -> None:
    with pytest.raises(ConfigError, match="bmcpassword cannot be written") as caught:
        record.stanza({"n1": {"bmcpassword": value}})
    assert "z9" not in str(caught.value)


@pytest.mark.parametrize(
    ("standing", "deploy_id", "persists", "written"),
    [
        ("", "d2", False, "gpufleet.deploy=d2"),
        ("quiet gpufleet.deploy=d1 R::nosmt", "d2", False, "quiet R::nosmt gpufleet.deploy=d2"),
        ("R::gpufleet.deploy=d1", "d2", True, "R::gpufleet.deploy=d2"),
        ("quiet R::gpufleet.deploy=d1", "", True, "quiet"),
    ],
)
def test_a_command_line_has_the_id_of_one_deployment(
    standing: str, deploy_id: str, persists: bool, written: str
) -> None:
    assert record.command_line({"addkcmdline": standing}, deploy_id, persists) == written


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://10.0.0.5:8443/redfish", "10.0.0.5"),
        ("10.0.0.5", "10.0.0.5"),
        ("bmc1:623", "bmc1"),
        ("https://[FD00::05]", "fd00::5"),
        ("fd00::5", "fd00::5"),
        ("", ""),
        ("[", ""),
    ],
)
def test_a_bmc_is_known_by_its_host_alone(address: str, host: str) -> None:
    assert record.bmc_host(address) == host


@pytest.mark.parametrize(
    ("fields", "other", "shared"),
    [
        ({"ip": "fd00::1"}, {"ip": "10.0.0.1, FD00:0::1"}, "ip"),
        ({"ip": "10.0.0.1"}, {"ip": "10.0.0.10"}, ""),
        ({"bmc": "fd00::1"}, {"bmc": "FD00::01"}, "bmc"),
        ({"bmc": "fd00::1"}, {"bmc": "fd00::2"}, ""),
    ],
)
def test_an_address_is_shared_however_it_is_spelled(fields: dict[str, str], other: dict[str, str], shared: str) -> None:
    assert record.shared(fields, other) == shared


@pytest.mark.parametrize("name", ["gpu[1-4]", "a,b", "/re.*/", "^file", "a@b", "-z", "", "a b", "n1+3"])
def test_a_noderange_is_no_name(name: str) -> None:
    with pytest.raises(ConfigError, match="noderange"):
        record.check(Wanted(host="h1", provisioner_id=name or " "))


# -- what it says of a node --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "order", "native"),
    [
        # Under an order of ours nothing counts but what is newer.
        ({"provmethod": "u24", "status": "booted", "statustime": ORDER["since"]}, ORDER, "ordered"),
        ({"provmethod": "u24", "status": "booted", "statustime": LATER}, ORDER, "booted"),
        ({"provmethod": "u24", "status": "installing", "statustime": LATER}, ORDER, "installing"),
        ({"provmethod": "u24", "status": "unreachable", "statustime": LATER}, ORDER, "unreachable"),
        ({"provmethod": "u24", "status": "failed", "statustime": LATER}, ORDER, "failed"),
        ({"provmethod": "u24", "status": "failed", "statustime": ORDER["since"]}, ORDER, "ordered"),
        # Nothing is newer, and whether the order was given the note says.
        ({"provmethod": "u24", "status": "booted", "statustime": ORDER["since"]}, NOT_GIVEN, "noted"),
        ({"provmethod": "u24", "status": "powering-on", "statustime": LATER}, NOT_GIVEN, "powering-on"),
        # Booted, and not installed.
        (
            {"provmethod": "u24", "status": "booted", "statustime": LATER, "currstate": "install u-x86_64-compute"},
            ORDER,
            "not installed",
        ),
        ({"provmethod": "u24", "status": "booted", "statustime": LATER, "currstate": "boot"}, ORDER, "booted"),
        ({"provmethod": "u24", "status": "booted", "statustime": LATER, "currstate": "netboot u"}, ORDER, "booted"),
        # The order was not given, whatever runs there.
        ({"status": "booted", "statustime": ORDER["since"]}, ORDER, "noted"),
        ({"status": "booted", "statustime": LATER}, ORDER, "noted"),
        # Whoever deployed another image since: the note is void.
        ({"provmethod": "other", "status": "booted", "statustime": LATER}, ORDER, "booted"),
        ({"provmethod": "other", "status": "installing", "statustime": ORDER["since"]}, ORDER, "installing"),
        # Given back: what it said before is no news.
        ({"status": "booted", "statustime": LATER}, {"order": "clear", "since": LATER}, "defined"),
        ({"status": "booted", "statustime": LATER}, {"order": "clear", "since": ORDER["since"]}, "booted"),
        ({"status": "powering-off", "statustime": LATER}, {"order": "clear", "since": ORDER["since"]}, "defined"),
        ({"provmethod": "u24", "status": "booted", "statustime": LATER}, {"order": "clear", "since": LATER}, "booted"),
        # Nobody's, or somebody's.
        ({}, {}, "defined"),
        ({"provmethod": "u24"}, {}, "defined"),
        ({"provmethod": "u24", "currstate": "netboot u24-x86_64-compute"}, {}, "down"),
        ({"provmethod": "u24", "currstate": "boot", "status": "defined"}, {}, "down"),
        ({"provmethod": "u24", "currstate": "standby", "status": "standingby"}, {}, "defined"),
        ({"provmethod": "u24", "status": "unreachable"}, {}, "down"),
        ({"status": "powering-off"}, {}, "defined"),
        ({"status": "booted"}, {}, "booted"),
        ({"status": "discovering"}, {}, "discovering"),
        *[({"status": one}, {}, "defined") for one in ("bmcready", "discovered", "configured")],
        ({"provmethod": "u24", "status": "bmcready", "statustime": LATER}, ORDER, "ordered"),
        ({"status": "somebodys"}, {}, "somebodys"),
        # A person has it.
        ({"provmethod": "u24", "status": "booted", "statustime": LATER, "currstate": "shell"}, ORDER, "shell"),
        ({"currstate": "runcmd=bmcsetup"}, {}, "shell"),
    ],
)
def test_what_a_node_is_doing(fields: dict[str, str], order: dict[str, str], native: str) -> None:
    assert tables.native(fields, order) == native


def test_a_state_that_no_table_knows_is_somebody_elses_to_understand() -> None:
    odd = state("n1", {"status": "somebodys"})
    assert odd.state == "other" and "chdef -t node NAME status=" in odd.last_error
    assert [state("n1", one).state for one in ({"status": "booted"}, {"status": "netbooting"}, {})] == [
        DEPLOYED,
        DEPLOYING,
        READY,
    ]


def test_the_deployment_is_told_while_its_image_is_the_nodes() -> None:
    note = record.Words(note={**ORDER, "deploy_id": "d1", "name": "gold", "version": "1"}).text()
    ours = state("n1", {"usercomment": note, "provmethod": "u24", "status": "booted", "statustime": LATER})
    assert (ours.deploy_id, ours.image["label"], ours.native) == ("d1", "gold-1", "booted")
    for method in ("", "other"):
        gone = state("n1", {"usercomment": note, "provmethod": method, "status": "booted", "statustime": LATER})
        assert gone.deploy_id == "" and gone.image.get("label", "") == method


@pytest.mark.parametrize(
    ("groups", "whose"), [("all,hands-off", "hands-off"), ("all, owner-x", "owner-x"), ("all,hands,my-owner-x", "")]
)
def test_groups_say_whose_a_node_is(groups: str, whose: str) -> None:
    told = state("n1", {"groups": groups}).foreign
    assert (whose in told) if whose else told == ""


def test_nothing_is_written_that_stands_there_already() -> None:
    wanted = Wanted(
        host="n1",
        boot_mac="AA-BB-CC-00-00-01",
        serial="S1",
        bmc={"bmc_address": "https://10.0.0.5", "bmc_username": "u"},
        image=Image.of({"name": "gold", "version": "1", "url": "http://x"}),
    )
    made = record.fields(wanted, None)
    assert made == {
        "mgt": "ipmi",
        "mac": "aa:bb:cc:00:00:01",
        "serial": "S1",
        "bmc": "10.0.0.5",
        "bmcusername": "u",
        "groups": "all",
    }
    assert record.fields(wanted, made) == {}
    assert record.fields(wanted, {**made, "mac": "aa:bb:cc:00:00:01!eth0", "mgt": "openbmc"}) == {}
    assert record.fields(wanted, {**made, "bmc": "10.0.0.6"}) == {"bmc": "10.0.0.5"}
