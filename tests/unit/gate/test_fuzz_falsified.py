# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Falsifies what stands beside a clean diagnosis: how the tool ended, in which boot, and when.

Each case begins with evidence that passes, and changes one thing or several of it; what a pass then needs is said here
a second time. The names of the tests are those of the kinds; tests/mutants/gate.yml keeps a broken line for each.
"""

from __future__ import annotations

import calendar
import copy
import itertools
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.claimed import asked, lacking, own
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import Diagnosis, read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.ended import record_end
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import Wanted, wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.watch import ENDING_SECONDS, gate_wait
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.grounds import grounds
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet, digest, iso
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _history
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import FOLD, tried
from hypothesis import given
from hypothesis import strategies as st

try:
    from recorded import recorded_dir
except ImportError:  # a copy of the unit tests alone
    FOLDER = None
else:
    FOLDER = recorded_dir("gates")

# -- how the tool ended ------------------------------------------------------------------------------------------------

#: Every end that a process can come to but the good one, and those that none can.
STATUSES: tuple[Optional[int], ...] = (None, *range(-70, 0), *range(1, 257), 2**31 - 1, -(2**31))
ENDS = [("exit", rc) for rc in STATUSES]
ENDS += [(how, rc) for how in ("timeout", "flood", "missing", "denied", "unheard of") for rc in (None, 0, 1, -9)]


def perfect() -> Iterator[tuple[str, Diagnosis, Wanted]]:
    """What proves a healthy machine: our own documents, and each recorded one by a profile that it fits."""
    listed = {**made.dcgm3(), "GPU Device IDs": ["2330"] * 8}
    for name, document in (("of 4", made.dcgm4()), ("of 3", listed)):
        yield name, read(made.text(document)), wanted_of(made.profile())
    for path in sorted(FOLDER.glob("dcgm-diag/*.json")) if FOLDER else ():
        seen = read(path.read_text(encoding="utf-8"))
        if not seen.gpus:
            continue
        fitting = copy.deepcopy(made.profile(len(seen.gpus)))
        fitting["gpu"]["device_ids"]["value"] = sorted(set(seen.devices().values()))
        tests = sorted({cell.test for cell in seen.cells if cell.entity.startswith("GPU ")})
        fitting["dcgm"]["tests"] = [{**fitting["dcgm"]["tests"][0], "name": name, "level": 1} for name in tests]
        yield path.name, seen, wanted_of(fitting)


PERFECT = {name: (seen, wanted) for name, seen, wanted in perfect()}


def ended(name: str, how: str, rc: Optional[int]) -> str:
    seen, wanted = PERFECT[name]
    version = (3, 3, 9) if seen.shape == 3 else (4, 6, 0)
    run = Run(("dcgmi",), rc, b"", b"", how, 1.0)
    return judge(seen, run, wanted, wanted_tests(wanted, 2, [], version)).verdict


@pytest.mark.parametrize("name", PERFECT)
def test_no_end_of_the_tool_but_the_good_one_passes(name: str) -> None:
    assert name not in ("of 3", "of 4") or ended(name, "exit", 0) == "pass"
    # Of every other status one document is asked, of every seventh the others; for long of all.
    assert [end for end in ENDS[:: 1 if FOLD else 2 if name == "of 4" else 7] if ended(name, *end) == "pass"] == []


def test_no_end_of_any_gates_tool_but_the_good_one_passes() -> None:
    def verdict(how: str, rc: Optional[int]) -> str:
        sheet = Sheet()
        record_end(sheet, Run(("tool",), rc, b"", b"", how, 1.0))
        return sheet.verdict

    assert verdict("exit", 0) == "pass"
    assert [end for end in ENDS if verdict(*end) == "pass"] == []


def test_a_recorded_pass_is_one_of_a_profile_that_it_fits() -> None:
    """Or the test above would ask nothing of it."""
    told = [name for name in PERFECT if "pass_8gpu" in name]
    assert [ended(name, "exit", 0) for name in told] == ["pass"] * len(told)


# -- which boot, and when ----------------------------------------------------------------------------------------------

BOOT, OTHER = "3f0d4c4e-0a9e-4f7c-8f0e-2f6f4b1d9a51", "11111111-2222-4333-8444-555555555555"
#: As it is told at the start of a job, by the node now, and in the job's file. None: nobody tells it.
BOOTS = (BOOT, OTHER, BOOT.upper(), BOOT.replace("-", ""), BOOT[:-1], f"{BOOT}0", f"{BOOT}{OTHER}", "", "\0", None)
PROFILE = {"sku": "test-sku", "digest": digest(b"profile")}
NOW = float(int(time.time()))
LIMIT, WAITED = 900.0, 60.0
#: How each time is told of a job that passes.
TIMES = {"started": iso(NOW - 600), "begun": iso(NOW - 590), "ended": iso(NOW - 60), "clock": iso(NOW)}
CLAIMED = json.dumps(made.claimed(profile=PROFILE, started="@begun@"))
PLACES = ("started", "now", "file")


def text_of(boot: Optional[str], times: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    mark, stat = "gpufleet-look\n", "7 (py) S " + " ".join(["0"] * 18) + " 99 0"
    shown = "" if boot is None else f"{boot}\n"
    return f"{mark}{shown}{times['clock']}\n{mark}{stat}\n{mark}{json.dumps(said)}\n{mark}"


def collected(boots: Mapping[str, Optional[str]] = {}, times: Mapping[str, Any] = TIMES) -> str:
    """The verdict of a job's file, with these boot ids and times, the others as they were."""
    told = {**dict.fromkeys(PLACES, BOOT), **boots}
    verdict = {**json.loads(CLAIMED), "started": times["begun"], "ended": times["ended"]}
    said = {"schema": 1, "gate": "dcgm_gate", "job": "job-1", "boot_id": told["file"], "verdict": verdict}
    node = {
        "host": "n1", "gate": "dcgm_gate", "job": "job-1", "boot_id": told["started"], "pid": 7, "pid_start": 99,
        "limit": LIMIT, "started": times["started"], "profile": PROFILE, "question": made.asked(),
        "state_dir": "/run/x", "boot_id_path": "/boot_id",
    }  # fmt: skip
    look = {"n1": (text_of(told["now"], times, said), "")}
    params = {"gate": "dcgm_gate", "timeout": 0, "interval": 0.01, "grace": 0, "look": lambda waiting: look}
    params.update(nodes=[node], lacking=lacking, asked_of=asked, own=own)
    return str(gate_wait(params, Context()).data["verdicts"]["n1"]["verdict"])


def test_no_boot_but_the_one_of_the_start_passes() -> None:
    assert collected() == "pass"
    for place, boot in itertools.product(PLACES, BOOTS[1:]):
        assert collected({place: boot}) != "pass", (place, boot)
    for one, other in itertools.permutations(PLACES, 2):  # two of them agree, and the third does not
        assert collected({one: OTHER, other: OTHER}) != "pass", (one, other)


@tried(20)
@given(st.fixed_dictionaries(dict.fromkeys(PLACES, st.sampled_from(BOOTS))))
def test_boots_that_differ_anywhere_do_not_pass(boots: dict[str, Optional[str]]) -> None:
    if collected(boots) == "pass":
        assert boots["started"] and len({str(boot).strip() for boot in boots.values()}) == 1


#: Seconds by which a time is moved: a tick, a jump of the clock, years.
MOVES = (-1e9, -86400, -7200, -3600, -900, -600, -121, -61, -2, 2, 61, 121, 3600, 7200, 86400, 1e9, 2.5e11)
ODD_TIMES = (
    "", "now", "2026-13-22T10:00:00Z", "-026-11-22T10:00:00Z", "0000-00-00T00:00:00Z", "99999-01-01T00:00:00Z", "1e9",
    "nan", None, 0, -1, NOW, 1e308, True, [], {},
)  # fmt: skip


def misspelled(told: str) -> list[str]:
    """The right time, as nobody writes it who writes verdicts: without a zone, in another, with parts of a second."""
    bare = told[:-1]
    forms = [bare, f"{bare}+00:00", f"{bare}+02:00", f"{bare}.5Z", f"{bare}z", told.replace("T", " "), told * 2]
    return [*forms, told.replace("T", "t"), told[:10], f"-{told}", f"1{told}"]


def plain(told: Any) -> Optional[float]:
    """Small letters are no other time."""
    form = r"(?i)[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
    if not isinstance(told, str) or not re.fullmatch(form, told):
        return None
    try:
        return float(calendar.timegm(time.strptime(told, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None


def timely(times: Mapping[str, Any]) -> bool:
    """Did it begin after the job, end after that and in its time, and not long ago, by a clock that goes on?"""
    read_as = {name: plain(told) for name, told in times.items()}
    if None in read_as.values():
        return False
    started, begun, end, clock = (read_as[name] or 0.0 for name in ("started", "begun", "ended", "clock"))
    recent = clock - end <= 3600 + WAITED + ENDING_SECONDS
    return started <= begun <= end <= clock + 2 and end - begun <= LIMIT + ENDING_SECONDS and recent


def moved(name: str, by: float) -> dict[str, str]:
    return {**TIMES, name: iso((plain(TIMES[name]) or 0.0) + by)}


def test_no_time_that_was_moved_passes() -> None:
    assert collected() == "pass" and timely(TIMES)
    cases = [moved(name, by) for name in TIMES for by in MOVES]
    cases += [{**TIMES, name: odd} for name, told in TIMES.items() for odd in (*ODD_TIMES, *misspelled(told))]
    cases += [{**TIMES, "begun": TIMES["ended"], "ended": TIMES["begun"]}]
    assert [times for times in cases if collected(times=times) == "pass" and not timely(times)] == []


@tried(20)
@given(
    st.dictionaries(
        st.sampled_from(sorted(TIMES)),
        st.one_of(st.integers(-8000, 8000), st.sampled_from(MOVES), st.sampled_from(ODD_TIMES)),
    )
)
def test_times_that_were_moved_together_pass_only_in_order(changes: dict[str, Any]) -> None:
    times: dict[str, Any] = dict(TIMES)
    for name, change in changes.items():
        numbers = isinstance(change, (int, float)) and not isinstance(change, bool) and abs(change) < 1e12
        times[name] = moved(name, change)[name] if numbers else change
    if collected(times=times) == "pass":
        assert timely(times), times


#: What a claimed pass may say in place of the status with which the tool ended.
@pytest.mark.parametrize("status", [1, 226, 205, -9, 255, 0.5, "0", None, [], {}])
def test_no_status_that_was_written_over_passes(status: Any) -> None:
    claim = json.loads(CLAIMED)
    for row in claim["checks"]:
        row["measured"] = status if row["id"] == "exit_status" else row["measured"]
    assert lacking(json.loads(CLAIMED), made.asked()) == ""
    assert lacking(claim, made.asked()) != ""


# -- looks before the imaging ------------------------------------------------------------------------------------------

POLICY = {"required_gates": ["dcgm_gate"], "max_gate_age": 3600, "gates": {"dcgm_gate": {"level": 1}}}
DAY = 86400.0


class Told:
    """A ledger of one node, as far as its history is read."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events

    def history(self, node: str, since: int = 0, kinds: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        return [event for event in self.events if event["id"] > since and (not kinds or event["kind"] in kinds)]

    def latest(self, nodes: list[str], kind: str, names: Any = None) -> dict[str, dict[str, Any]]:
        fits = [event for event in self.events if event["kind"] == kind and (not names or event["name"] in names)]
        return {nodes[0]: fits[-1]} if fits else {}

    def passport(self, node: str) -> None:
        return None

    def now(self) -> float:
        return NOW


def event(number: int, what: str, look: Any) -> dict[str, Any]:
    if what == "imaging":
        return {"id": number, "kind": "state", "name": "imaging", "at": NOW - 100 + number, "data": {}}
    after, at = look
    asked_of = {"level": 2, "tests": ["memory"], "profile": "sha256:p"}
    data = {"verdict": what, "asked": asked_of, "after_event": after, "looked_at": at, "remedy": "none"}
    return {"id": number, "kind": "verdict", "name": "dcgm_gate", "at": NOW - 100 + number, "data": data}


LOOKS = st.tuples(
    st.one_of(st.integers(-1, 9), st.sampled_from([None, "9", 1e9, True, []])),
    st.sampled_from([NOW - 90, NOW - 3000, NOW - 4000, NOW - DAY, 0.0, -1.0, None, "now", NOW + DAY, int(NOW)]),
)


@tried(30)
@given(st.lists(st.tuples(st.sampled_from(["imaging", "pass", "pass", "fail", "inconclusive"]), LOOKS), max_size=6))
def test_no_look_of_before_the_imaging_carries_a_passport(told: list[Any]) -> None:
    events = [event(number, *one) for number, one in enumerate(told, start=1)]
    found = grounds(_history.evidence(Told(events), "n1"), POLICY)  # type: ignore[arg-type]
    if not found.reasons and not found.aged:
        imaged = max([row["id"] for row in events if row["kind"] == "state"], default=0)
        good = [row for row in events if row["id"] > imaged and row["data"].get("verdict") == "pass"]
        assert good, events
        looks = [(row["data"]["after_event"], row["data"]["looked_at"]) for row in good]
        fit = [at for after, at in looks if not imaged or (isinstance(after, int) and after >= imaged)]
        assert [at for at in fit if isinstance(at, float) and NOW - at <= 3600], events


@pytest.mark.parametrize("after", [-1, 0, 1, 2, 3, None, "3", 2.0, 1e9, True, False, [], {}])
def test_of_looks_around_the_imaging_those_after_it_carry_a_passport(after: Any) -> None:
    """Each was written down after it, by a clock that shows the same."""
    events = [event(1, "pass", (0, NOW - 95)), event(2, "imaging", None), event(3, "pass", (after, NOW - 90))]
    found = grounds(_history.evidence(Told(events), "n1"), POLICY)  # type: ignore[arg-type]
    assert (not found.reasons and not found.aged) is (after in (2, 3) and isinstance(after, int)), after
