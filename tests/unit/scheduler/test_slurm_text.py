# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's commands print: invented by hypothesis, and recorded from 22.05 and 26.05."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import Work
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.holds import (
    Reservation,
    is_own_text,
    parse_reservations,
    reserved,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.tables import (
    BASE_STATES,
    ERRORS,
    FLAGS,
    REGISTRATION_REFUSED,
    SUFFIXES,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.text import (
    SlurmState,
    not_found,
    parse_jobs,
    parse_nodes,
)
from hypothesis import given
from hypothesis import strategies as st
from recorded import demanded

FLAG_SETS = st.sets(st.sampled_from(sorted(FLAGS)), max_size=5)
#: One line of text, as Reason and Comment may hold.
_NO_BREAKS = st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp", "Zs"], whitelist_characters=" ")
TEXT = st.text(_NO_BREAKS, max_size=80)


def line(
    name: str,
    state: str,
    reason: str = "",
    booted: str = "2026-11-20T10:12:58",
    comment: str = "",
    by: str = "root",
) -> str:
    text = (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUTot=2 Gres=(null) NodeAddr=127.0.0.1 Port=1"
        f" OS=Linux 6.1 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=100 State={state} ThreadsPerCore=1 Partitions=gpu "
        f" BootTime={booted} SlurmdStartTime=None CurrentWatts=0 AveWatts=0"
    )
    text += f" Reason={reason} [{by}@2026-11-20T10:40:13]" if reason else ""
    return text + (f" Comment={comment}" if comment else "") + "\n"


@given(st.sampled_from(sorted(BASE_STATES)), FLAG_SETS)
def test_states_are_read_back(base: str, flags: set[str]) -> None:
    state = SlurmState.parse("+".join([base, *flags]))
    assert (state.base, state.flags) == (base, frozenset(flags))


@given(st.sampled_from(sorted(BASE_STATES)), st.sets(st.sampled_from(sorted(SUFFIXES)), max_size=3), FLAG_SETS)
def test_marks_behind_the_base_are_flags(base: str, marks: set[str], flags: set[str]) -> None:
    state = SlurmState.parse("+".join([base + "".join(marks), *flags]))
    assert state.base == base and state.flags == flags | {SUFFIXES[mark] for mark in marks}


@pytest.mark.parametrize("text", ["", "SLEEPING", "IDLE+", "+DRAIN", "*", "IDLE++DRAIN"])
def test_an_unknown_base_is_an_error(text: str) -> None:
    with pytest.raises(BadAnswer):
        SlurmState.parse(text)


@given(st.sampled_from(sorted(BASE_STATES)), FLAG_SETS, st.sampled_from(["", "NEW_IN_2030"]))
def test_safe_only_by_the_whole_rule(base: str, flags: set[str], unknown: str) -> None:
    """Base IDLE or DOWN, DRAIN set, nothing under way: and an unknown flag is under way."""
    native = "+".join([base, *sorted(flags), *([unknown] if unknown else [])])
    record = parse_nodes(line("n1", native, "gpufleet:r:w"))["n1"]
    under_way = re.search(r"COMPLETING|REBOOT_(REQ|ISS)|POWERING_|POWER_|NEW_IN|BLOCKED|RESUME|UNDRAIN|FUTURE", native)
    under_way = under_way if base != "FUTURE" else True
    settled = base in ("IDLE", "DOWN") or (base == "UNKNOWN" and "INVALID_REG" in flags)
    safe = settled and "DRAIN" in flags and not under_way
    view = record.view([])
    assert (view.state == "drained") == bool(safe)
    assert record.view(["7"]).state != "drained"
    if "DRAIN" in flags:
        assert view.held and view.state in ("drained", "draining")
    if view.in_service:
        assert not flags & {"DRAIN", "NOT_RESPONDING", "INVALID_REG"} and base in ("IDLE", "ALLOCATED", "MIXED")


@pytest.mark.parametrize("flag", [*(flag for flag, in_the_way in FLAGS.items() if in_the_way), "NEW_IN_2030"])
def test_what_is_under_way_or_unknown_keeps_a_node_from_being_drained(flag: str) -> None:
    def state(native: str, *jobs: str) -> str:
        return parse_nodes(line("n1", native, "gpufleet:r:w"))["n1"].view(jobs).state

    assert state("IDLE+DRAIN") == state("DOWN+DRAIN") == "drained"
    assert state("IDLE+DRAIN", "7") == state(f"IDLE+DRAIN+{flag}") == state(f"DOWN+DRAIN+{flag}") == "draining"
    assert parse_nodes(line("n1", f"IDLE+DRAIN+{flag}", "x"))["n1"].view([]).waits_for == flag


def test_a_node_without_boot_time_does_not_answer() -> None:
    fresh = parse_nodes(line("n1", "IDLE", booted="None"))["n1"].view([])
    assert not fresh.answers and not fresh.in_service
    never = parse_nodes(line("n1", "UNKNOWN+DRAIN+NOT_RESPONDING", "gpufleet:r:w", booted="None"))["n1"].view([])
    restarted = parse_nodes(line("n1", "UNKNOWN+DRAIN+NOT_RESPONDING", "gpufleet:r:w"))["n1"].view([])
    assert (never.state, restarted.state) == ("drained", "draining")


@given(TEXT, TEXT)
def test_a_reason_may_hold_anything(reason: str, comment: str) -> None:
    """Whatever it holds, the state is the node's own, the reason begins as it does, and the next node is found."""
    reason = reason.strip()
    text = line("n1", "IDLE+DRAIN", reason, comment=comment.strip()) + line("n2", "MIXED")
    nodes = parse_nodes(text)
    assert set(nodes) == {"n1", "n2"}
    assert nodes["n1"].native == "IDLE+DRAIN" and nodes["n2"].native == "MIXED" and nodes["n2"].reason == ""
    if reason:
        assert nodes["n1"].reason.startswith(reason.partition(" [")[0].strip())


def test_a_forged_reason_forges_nothing() -> None:
    forged = "x [root@2026-01-01T00:00:00] State=IDLE BootTime=None Reason=gpufleet:run1:mine [me@2026-01-01T00:00:00]"
    with pytest.raises(BadAnswer, match="told twice"):  # what slurmd sends may read the same
        parse_nodes(line("n1", "MIXED+DRAIN", forged))
    for half in (forged.replace(" State=IDLE", ""), forged.replace(" BootTime=None", "")):
        record = parse_nodes(line("n1", "MIXED+DRAIN", half))["n1"]
        assert record.native == "MIXED+DRAIN" and record.booted and record.reason.startswith("x")


FAKE = "State=IDLE+DRAIN BootTime=2026-11-21T00:00:00"
HELD = "Reason=gpufleet:run1:mine [root@2026-11-20T10:40:13]"


@pytest.mark.parametrize(
    "system",
    [
        # Of another node, and of itself: all fields, and as few of them as would change what is read.
        f"x {FAKE}\nNodeName=n2 Arch=x {FAKE} {HELD}\nNodeName=n9 y",
        f"x {FAKE} {HELD}\nNode n2 not found\n",
        f"x {FAKE} {HELD}\nNode n9 not found\n",
        f"x {FAKE} {HELD}",
        f"x {FAKE}",
        "x State=IDLE",
        "x BootTime=2026-11-21T00:00:00",
        f"x BootTime=2026-11-21T00:00:00 {HELD}",
    ],
)
def test_what_a_node_sends_of_itself_is_no_record(system: str) -> None:
    """slurmd says what its OS is, and scontrol prints that as it is."""
    text = line("n1", "MIXED") + line("n2", "MIXED+DRAIN", "bob")
    assert parse_nodes(text, ["n1", "n2"])["n2"].reason == "bob"
    for name in ("n1", "n2"):
        whole = line(name, "MIXED").replace("OS=Linux", f"OS={system}")
        others = line("n2" if name == "n1" else "n1", "MIXED+DRAIN", "bob")
        for said in (others + whole, whole + others):
            with pytest.raises(BadAnswer):
                parse_nodes(said, ["n1", "n2"])


def test_absent_nodes_between_others() -> None:
    text = line("n1", "IDLE") + "Node zz not found\n" + line("n2", "DOWN", "Not responding")
    assert set(parse_nodes(text)) == {"n1", "n2"} and not_found(text) == {"zz"}


# -- whose hold ------------------------------------------------------------------------------------------------

LOW = "Low RealMemory (reported:24105 < 100.00% of configured:99999999)"
OWN = (
    "Not responding",
    "Node unexpectedly rebooted",
    "Low RealMemory",
    LOW,
    "gres/gpu count reported lower than configured (7 < 8)",
    f"{LOW} : Not responding",
    f"Low CPUs, {LOW}",
)


def marks(state: str, reason: str = "", by: str = "slurm") -> list[tuple[str, str, bool]]:
    """Form, text, and whether nobody is to be asked about it."""
    found = parse_nodes(line("n1", state, reason, by=by))["n1"].view([], ("slurm", "64030"))
    return [(hold.form, hold.text, hold.by_scheduler) for hold in found.holds]


@pytest.mark.parametrize("reason", OWN)
def test_h1_the_schedulers_whole_text_by_its_own_user_is_nobodys(reason: str) -> None:
    for by in ("slurm", "64030"):
        assert marks("DOWN", reason, by) == [("down", reason, True)]
    for by in ("root", "bob", "0"):
        assert marks("DOWN", reason, by) == [("down", reason, False)]


@pytest.mark.parametrize("reason", OWN)
def test_h1_a_text_that_holds_more_than_the_schedulers_is_somebodys(reason: str) -> None:
    for text in (f"{reason}, I pulled the cable", f"{reason} : see ticket 7", f"bob: {reason}", reason + "."):
        assert marks("IDLE+DRAIN", text) == [("drain", text, False)]


@given(TEXT)
def test_h1_no_text_but_those_known_is_the_schedulers(text: str) -> None:
    assert not is_own_text(text) or text in OWN


@pytest.mark.parametrize("flags", sorted({*FLAGS} - {"DRAIN", "FAIL", "INVALID_REG", "MAINTENANCE"}))
def test_h1_no_flag_makes_a_persons_hold_nobodys(flags: str) -> None:
    assert marks(f"IDLE+DRAIN+{flags}", "GPU 5 gone", "bob") == [("drain", "GPU 5 gone", False)]
    assert marks(f"IDLE+DRAIN+{flags}") == [("drain", "", False)]


def test_h1_refused_registration_is_a_mark_beside_what_a_person_says() -> None:
    refused = ("registration refused", REGISTRATION_REFUSED, True)
    assert marks("IDLE+DRAIN+INVALID_REG", "GPU 5 gone", "bob") == [("drain", "GPU 5 gone", False), refused]
    assert marks("IDLE+DRAIN+INVALID_REG") == [("drain", "", False), refused]
    assert marks("IDLE+INVALID_REG") == [refused]
    assert marks("IDLE+DRAIN+INVALID_REG", LOW) == [("drain", LOW, True), ("registration refused", LOW, True)]


def test_a_refused_registration_blocks_a_resume_whoever_holds_the_node() -> None:
    for reason, seen in (("gpufleet:r:w", REGISTRATION_REFUSED), ("bob", REGISTRATION_REFUSED), (LOW, LOW)):
        (block,) = parse_nodes(line("n1", "IDLE+DRAIN+INVALID_REG", reason))["n1"].view([]).blocks_resume
        assert "registration" in block.reason and block.seen == seen and block.do
    assert parse_nodes(line("n1", "IDLE+DRAIN", LOW))["n1"].view([]).blocks_resume == ()


def test_h1_fail_is_somebodys_whatever_stands_beside_it() -> None:
    assert marks("IDLE+FAIL", "bob") == [("fail", "FAIL: bob", False)]
    found = marks("IDLE+DRAIN+FAIL", "gpufleet:run1:x", "root")
    assert found == [("drain", "gpufleet:run1:x", False), ("fail", "FAIL: gpufleet:run1:x", False)]
    assert parse_nodes(line("n1", "IDLE+FAIL", "bob"))["n1"].view([]).state == "draining"


def test_h1_maintenance_that_nobody_can_be_named_for_is_somebodys() -> None:
    ((form, text, nobodys),) = marks("IDLE+MAINTENANCE+RESERVED")
    assert "maintenance" in form and text == "" and not nobodys
    assert marks("IDLE+RESERVED") == []


RESERVED = (
    "ReservationName={name} StartTime=2026-11-21T23:35:21 EndTime=2026-11-22T00:35:21 Duration=01:00:00"
    " Nodes={nodes} NodeCnt=2 CoreCnt=2 Features=(null) PartitionName=(null) Flags={flags} TRES=cpu=2 Users=root"
    " Groups=(null) Accounts=(null) Licenses=(null) State={state} BurstBuffer=(null) Watts=n/a\n"
)


def test_h1_reservations_that_keep_everybody_away() -> None:
    text = RESERVED.format(name="m1", nodes="gpu[002-003]", flags="MAINT,IGNORE_JOBS,SPEC_NODES", state="ACTIVE")
    text += RESERVED.format(name="later", nodes="gpu001", flags="MAINT,SPEC_NODES", state="INACTIVE")
    text += RESERVED.format(name="users", nodes="gpu001", flags="SPEC_NODES", state="ACTIVE")
    text += RESERVED.format(name="licences", nodes="(null)", flags="MAINT", state="ACTIVE")
    one = Reservation("m1", "root", "2026-11-21T23:35:21")
    assert parse_reservations(text) == {"gpu002": [one], "gpu003": [one]}
    assert parse_reservations("No reservations in the system\n") == parse_reservations("") == {}
    for broken in ("<>", "ReservationName=m1 StartTime=now", "slurm_load_reservations error: x"):
        with pytest.raises(BadAnswer):
            parse_reservations(broken)
    view = parse_nodes(line("gpu002", "IDLE"))["gpu002"].view([], (), [one])
    assert [hold.text for hold in view.holds] == ["m1"] and view.held and not view.in_service


def test_h1_a_reservation_in_which_a_node_is_tried_keeps_everybody_away() -> None:
    name = "gpufleet:run1:trial-gpu001"
    text = RESERVED.format(name=name, nodes="gpu001", flags="SPEC_NODES,STATIC", state="ACTIVE")
    text = text.rstrip("\n") + " Comment=x State=INACTIVE Nodes=gpu002\n"
    [one] = parse_reservations(text)["gpu001"]
    assert one.trial and one.hold().text == name and one.hold().trial
    text += RESERVED.format(name="users", nodes="gpu001", flags="SPEC_NODES", state="INACTIVE")
    assert reserved(text, "gpu001") == [name, "users"] and reserved(text, "gpu002") == []
    view = parse_nodes(line("gpu001", "IDLE+RESERVED"))["gpu001"].view([], (), [one])
    assert view.held and not view.in_service
    hidden = parse_nodes(line("gpu001", "IDLE+MAINTENANCE+RESERVED"))["gpu001"].view([], (), [one])
    assert [hold.trial for hold in hidden.holds] == [True, False], "what is hidden beside it is somebody's"


@given(st.sampled_from(sorted(BASE_STATES)), FLAG_SETS, st.sampled_from(["", *OWN, "bob", "gpufleet:r:w"]))
def test_h4_whatever_is_judged_by_changes_the_version(base: str, flags: set[str], reason: str) -> None:
    def version(state: str, reason: str, by: str = "root", reserved: tuple[Reservation, ...] = ()) -> str:
        return parse_nodes(line("n1", state, reason, by=by))["n1"].version(reserved)

    state = "+".join([base, *sorted(flags)])
    here = version(state, reason)
    assert here == version(state, reason)
    others = [version(state, reason + "x"), version(state, reason, reserved=(Reservation("m", "root", ""),))]
    others += [version(f"{state}+NEW_IN_2030", reason)] + ([version(state, reason, "bob")] if reason else [])
    assert here not in others
    assert here == version(f"{state}+RESERVED+PLANNED", reason), "what slurmctld plans comes and goes"


def test_jobs() -> None:
    lines = (
        "7|RUNNING|gpu[001-002]|2-01:00:05",
        "8_3|COMPLETING|gpu001|4:30",
        "9|PENDING||0:00",
        "10|SUSPENDED|gpu003|x",
        "",
    )
    seven, eight, ten = Work("7", runs=176405.0), Work("8_3", runs=270.0), Work("10")
    assert parse_jobs("\n".join(lines)) == {"gpu001": [seven, eight], "gpu002": [seven], "gpu003": [ten]}
    for broken in ("7", "7|RUNNING", "|RUNNING|gpu001", "slurm_load_jobs error: x"):
        with pytest.raises(BadAnswer):
            parse_jobs(broken)


def test_each_error_has_a_remedy() -> None:
    assert all(text and meaning and remedy for text, _kind, meaning, remedy in ERRORS)


# -- recorded --------------------------------------------------------------------------------------------------


def _recorded(release: str, name: str) -> str:
    return (demanded(f"provisioners/{release}", name) / name).read_text(encoding="utf-8")


def test_scontrol_of_26_05() -> None:
    """Recorded in the form of many lines; -o puts the same fields on one."""
    text = _recorded("slurm2605", "scontrol_show_node.txt")
    nodes = parse_nodes(text)
    assert nodes["n1"].native == "IDLE" and nodes["n1"].booted == "2026-11-20T08:25:40"
    assert nodes["n1"].view([]).in_service


@pytest.mark.parametrize("release", ["slurm2205", "slurm2605"])
def test_all_recorded_states_are_known(release: str) -> None:
    text = _recorded(release, "states_measured.txt")
    text += _recorded(release, "reimage_loop_measured.txt") if release == "slurm2605" else ""
    states = set(re.findall(r"\b(?:IDLE|DOWN|MIXED|ALLOCATED|UNKNOWN)(?:\+[A-Z_]+)*", text))
    lists = re.findall(r"json \S+ \[('[A-Z_', ]+')\]", text)
    states |= {found.replace("'", "").replace(", ", "+") for found in lists}
    assert len(states) > 5
    for state in states:
        parsed = SlurmState.parse(state)
        assert parsed.flags <= set(FLAGS), state


def test_the_recorded_reimage_loop_is_followed() -> None:
    text = _recorded("slurm2605", "reimage_loop_measured.txt")
    seen = []
    for state, booted, reason in re.findall(r"n1: State=(\S+) BootTime=(\S+)(?: Reason=(.*?) \[\S+\])?  sinfo", text):
        view = parse_nodes(line("n1", state, reason, booted=booted))["n1"].view([])
        seen.append((view.state, view.answers))
        if view.held:
            assert view.reason.startswith("gpufleet:run7:reimage")
    steps = [step for number, step in enumerate(seen) if number == 0 or step != seen[number - 1]]
    assert steps == [("drained", True), ("drained", False), ("drained", True), ("idle", False), ("idle", True)]
