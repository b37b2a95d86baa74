# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person and a machine get to read when something goes wrong, and what check mode may do."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _errors
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, FLEET, require, spec
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    ConfigError,
    Fenced,
    FleetError,
    MissingLibrary,
    NotProven,
    unexpected,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline, Result


def test_a_message_names_node_address_wanted_seen_and_what_to_do() -> None:
    error = NotProven("the node stayed off", wanted="On", seen="Off", do="look at the PSU")
    text = str(error.located(node="gpu001", address="https://10.0.0.1"))
    assert text == "gpu001 (https://10.0.0.1): the node stayed off. Wanted: On. Seen: Off. Do: look at the PSU"


def test_the_place_that_knew_first_is_kept() -> None:
    error = NotProven("x", node="gpu001").located(node="other", address="https://10.0.0.1")
    assert (error.node, error.address) == ("gpu001", "https://10.0.0.1")


def test_every_error_has_a_kind_of_its_own_and_is_json() -> None:
    def below(kind: type) -> list[type]:
        return [kind, *(leaf for child in kind.__subclasses__() for leaf in below(child))]

    # One without a kind of its own never leaves the door: EvidenceOld is renewed there, or told as its parent.
    kinds = [kind for kind in below(FleetError) if kind.__module__ == _errors.__name__ and "kind" in vars(kind)]
    assert len({kind.kind for kind in kinds}) == len(kinds) > 10  # type: ignore[attr-defined]
    for kind in kinds:
        json.dumps(kind("x").as_result())


def test_details_cannot_hide_the_kind() -> None:
    error = FleetError("x", details={"kind": "fine", "traceback": "t"}).as_result()["error"]
    assert error["kind"] == "error" and error["traceback"] == "t"


def test_a_missing_library_names_the_fix() -> None:
    assert "pip install sushy" in str(MissingLibrary("sushy"))


def test_a_surprise_keeps_its_traceback_for_the_report() -> None:
    try:
        raise KeyError("Members")
    except KeyError as exc:
        error = unexpected(exc, node="gpu001")
        assert "KeyError" in str(error) and "Members" in error.as_result()["error"]["traceback"]


def test_require_names_all_that_is_missing_and_where_it_can_stand() -> None:
    with pytest.raises(ConfigError) as caught:
        require({"bmc_address": "", "state": None}, "bmc_address", "state", node="gpu001")
    assert "bmc_address, state" in str(caught.value)
    assert "gpufleet_bmc_address" in str(caught.value) and "gpufleet_state" not in str(caught.value)


def test_specs_are_copies() -> None:
    merged = spec(FLEET, BMC, state={"type": "str"})
    merged["bmc_password"]["no_log"] = False
    assert BMC["bmc_password"]["no_log"] is True


class Recorder(Lifeline):
    def __init__(self) -> None:
        self.writes: list[tuple[str, bool]] = []

    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        self.writes.append((what, destructive))
        return "event:7" if destructive else None


def test_check_mode_asks_nobody_and_says_no() -> None:
    line = Recorder()
    ctx = Context(check_mode=True, lifeline=line)
    assert ctx.may_write("POST x", destructive=True) is False
    assert not line.writes and not ctx.asked


def test_a_write_is_asked_for_remembered_and_carries_its_evidence() -> None:
    ctx = Context(lifeline=Recorder(), diff=True)
    assert ctx.may_write("POST x", destructive=True) and ctx.may_write("GET y")
    result = Result(before={"power": "On"}, after={"power": "Off"}).as_dict(ctx)
    assert result["changed"] is True
    assert result["asked"] == ["POST x", "GET y"]
    assert result["evidence"] == "event:7"
    assert result["diff"] == {"before": {"power": "On"}, "after": {"power": "Off"}}


def test_nothing_changed_where_before_is_after() -> None:
    assert Result(before={"a": 1}, after={"a": 1}).as_dict(Context())["changed"] is False


@pytest.mark.parametrize("destructive", [True, False])
def test_t1_check_mode_lets_no_write_through(destructive: bool) -> None:
    line = Recorder()
    assert Context(check_mode=True, lifeline=line).may_write("POST x", destructive=destructive) is False
    assert not line.writes


def test_t1_a_write_names_the_nodes_that_it_is_for() -> None:
    class Named(Lifeline):
        def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
            return ",".join(nodes)

    ctx = Context(lifeline=Named())
    assert ctx.may_write("POST x", nodes=("n1", "n2")) and ctx.evidence == "n1,n2"


def test_t1_a_wait_of_a_verb_ends_with_its_run() -> None:
    class Gone(Lifeline):
        def beat(self) -> None:
            raise Fenced("the run is gone")

    with pytest.raises(Fenced):
        Context(lifeline=Gone()).wait(lambda: True, bool, timeout=1, interval=1, wanted="anything")
