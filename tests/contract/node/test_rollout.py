# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll-out over many runs: what any of them has shown of an image counts, until a person says it was mended."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._waves.rollout import image_of
from ansible_collections.gpufleet.baremetal.tests.contract.node.in_service import PLAYBOOKS, Nodes, in_service
from ansible_collections.gpufleet.baremetal.tests.contract.node.test_recycle_waves import (
    ALL,
    given,
    taken,
    without_images,
)

pytestmark = pytest.mark.slow

IMAGE = {"name": "gpu-golden", "version": "2026.11.2", "format": "whole-disk", "url": "https://images.example.com/x"}
NAME = image_of(IMAGE)
RESET = ("-e", json.dumps({"waves": "reset", "waves_why": "the image's driver mended", "waves_by": "alice"}))


def rollout(nodes: Nodes, *flags: str, ok: bool) -> str:
    """The shipped playbook; what it imports lies beside it, and images nothing."""
    [imported] = yaml.safe_load((PLAYBOOKS / "rollout.yml").read_text(encoding="utf-8"))
    assert imported["ansible.builtin.import_playbook"] == "day2_recycle.yml"
    plays = without_images()
    for play in plays:
        play.setdefault("vars", {}).update(imported["vars"])
    nodes.shared.setdefault("gpufleet_image", IMAGE)
    return nodes.plays(plays, "-e", "day2_recycle_all=true", *flags, ok=ok)


def begun(nodes: Nodes, name: str) -> list[dict[str, Any]]:
    return [data for what, data in nodes.events(name, "wave") if what == "begun"]


def test_an_image_that_fails_on_its_canary_comes_to_no_other_node_whoever_starts_the_next_run(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        nodes.hosts["gpu001"]["broken"] = True
        nodes.hosts["gpu004"]["gpufleet_image"] = {**IMAGE, "name": "login", "version": "1"}
        budgets = given(budgets={"fleet": 3})
        told = rollout(nodes, *budgets, "--limit", "!gpu004", ok=False)
        assert taken(nodes) == ["gpu001"] and begun(nodes, "gpu001")[0]["image"] == NAME, told
        assert "1 of 1 are drained: the image" in told and f"the roll-out of {NAME} goes on" in told, told
        # Nor where another host declares another image since, or a run in waves has failed on the node again.
        nodes.hosts["gpu004"]["gpufleet_image"] = {**IMAGE, "name": "login", "version": "2"}
        nodes.plays(without_images(), *ALL, *budgets, "--limit", "gpu001", ok=False)
        told = rollout(nodes, *budgets, "--limit", "gpu002,gpu003", ok=False)
        assert "No wave was begun: the canary gpu001" in told and taken(nodes) == ["gpu001"], told
        shown = nodes.book("waves", *budgets, "-e", "waves_rollout=true", "--limit", "gpu002", ok=True)
        assert "no wave begins: the canary gpu001" in shown and "waves=reset" in shown, shown
        # Another image is another roll-out.
        rollout(nodes, *budgets, "--limit", "gpu004", ok=True)
        assert taken(nodes) == ["gpu001", "gpu004"]


def test_a_canary_that_was_brought_back_on_the_image_of_before_has_shown_nothing_of_the_new_one(tmp_path: Path) -> None:
    with in_service(tmp_path, 4) as nodes:
        nodes.hosts["gpu001"]["broken"] = True
        budgets = given(budgets={"fleet": 4}, growth=4)
        rollout(nodes, *budgets, ok=False)
        nodes.shared["gpufleet_image"] = {**IMAGE, "version": "2026.10.0"}
        nodes.hosts["gpu001"].pop("broken")
        nodes.plays(without_images(), "-e", "day2_recycle_all=true", "--limit", "gpu001", ok=True)
        nodes.shared["gpufleet_image"] = IMAGE
        told = rollout(nodes, *budgets, "--limit", "!gpu001", ok=False)
        assert "No wave was begun: the canary gpu001" in told and taken(nodes) == ["gpu001"], told


def test_a_roll_out_that_was_mended_goes_on_by_the_word_of_a_person_with_a_canary(tmp_path: Path) -> None:
    with in_service(tmp_path, 5) as nodes:
        nodes.hosts["gpu001"]["broken"] = nodes.hosts["gpu005"]["broken"] = True
        nodes.hosts["gpu005"]["gpufleet_image"] = {**IMAGE, "name": "login", "version": "1"}
        budgets = given(budgets={"fleet": 4})
        rollout(nodes, *budgets, "--limit", "gpu001,gpu002,gpu003,gpu004", ok=False)
        rollout(nodes, *budgets, "--limit", "gpu005", ok=False)
        assert "waves_why not set" in nodes.book("waves", "-e", "waves=reset", "-e", "waves_by=alice", ok=False)
        told = nodes.book("waves", *RESET, "--limit", "!gpu005", ok=True)
        assert "4 of 4 nodes reset by alice: the image's driver mended" in told, told
        rollout(nodes, *budgets, "--limit", "gpu002,gpu003,gpu004", ok=True)
        canaries = [begun(nodes, name)[0]["canary"] for name in ("gpu002", "gpu003", "gpu004")]
        assert canaries == [True, False, False]
        told = rollout(nodes, *budgets, "--limit", "gpu005", ok=False)
        assert "the canary gpu005 is not in service again" in told, "of its image nobody has said so"


@pytest.mark.parametrize(("growth", "waves"), [(1, "3 nodes in 3 waves"), (2, "3 nodes in 2 waves")])
def test_a_roll_out_is_taken_up_at_its_size(tmp_path: Path, growth: int, waves: str) -> None:
    with in_service(tmp_path, 6) as nodes:
        budgets = given(budgets={"fleet": 6}, growth=growth)
        rollout(nodes, *budgets, "--limit", "gpu001", ok=True)
        told = rollout(nodes, *budgets, "--limit", "gpu002,gpu003,gpu004", ok=True)
        assert waves in told and not begun(nodes, "gpu002")[0]["canary"], told


def test_what_was_brought_back_has_not_failed_and_what_came_through_does_not_fail_by_what_follows(
    tmp_path: Path,
) -> None:
    with in_service(tmp_path, 4) as nodes:
        budgets = given(budgets={"fleet": 4})
        rollout(nodes, *budgets, "--limit", "gpu001", ok=True)
        nodes.hosts["gpu002"]["broken"] = True
        rollout(nodes, *budgets, "--limit", "gpu002", ok=False)
        told = rollout(nodes, *budgets, "--limit", "gpu003,gpu004", ok=False)
        assert "1 of 2 nodes are not in service again (gpu002)" in told and len(taken(nodes)) == 2, told
        nodes.hosts["gpu002"].pop("broken")
        nodes.plays(without_images(), "-e", "day2_recycle_all=true", "--limit", "gpu002", ok=True)
        swap = {"maintenance": "on", "maintenance_why": "a fan", "maintenance_by": "bob"}
        nodes.book("maintenance", "-e", json.dumps(swap), "--limit", "gpu001", ok=True)
        rollout(nodes, *budgets, "--limit", "gpu003,gpu004", ok=True)
        assert taken(nodes) == list(nodes.hosts)


def test_what_a_killed_run_left_half_way_has_shown_nothing_and_goes_first(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        wave = {"canary": True, "size": 1, "image": NAME, "out": False, "holder": {}}
        with Ledger(nodes.url) as ledger:
            events = (Event("wave", "begun", wave), Event("state", "draining", {"from": "admitted"}))
            ledger.append("killed", [(nodes.node_id("gpu003"), event) for event in events])
        told = rollout(nodes, *given(budgets={"fleet": 3}), ok=True)
        order = [name for name in nodes.hosts if begun(nodes, name)[-1]["canary"]]
        assert order == ["gpu003"] and taken(nodes) == list(nodes.hosts), told
        assert nodes.states("gpu003")[-1] == "admitted"


def test_an_image_that_could_not_be_told_from_others_is_rolled_out_to_nobody(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        nodes.hosts["gpu002"]["gpufleet_image"] = {"name": "gpu-golden"}
        told = rollout(nodes, ok=False)
        assert "gpu002: a roll-out is known by the image" in told and taken(nodes) == [], told
        nodes.hosts["gpu002"]["gpufleet_image"] = {**IMAGE, "version": "{{ nowhere }}"}
        told = rollout(nodes, ok=False)
        assert "gpufleet_image cannot be read" in told and taken(nodes) == [], told
        rollout(nodes, "--limit", "!gpu002", ok=True)
        assert taken(nodes) == ["gpu001", "gpu003"]


def digest_of(nodes: Nodes, *flags: str) -> str:
    """As a person reads it, who is to approve of it."""
    shown = nodes.book("waves", "-e", "waves_rollout=true", *flags, ok=True)
    [digits] = re.findall(r" image \S+ \S+ ([0-9a-f]{12}) ", shown)
    return str(digits)


def approved(nodes: Nodes, said: dict[str, str], *flags: str, ok: bool, waves: bool) -> str:
    """The fleet's job, or that of the canaries, which knows no waves."""
    flags = ("-e", json.dumps({f"rollout_{name}": value for name, value in said.items()}), *flags)
    if waves:
        return rollout(nodes, *given(budgets={"fleet": 3}), *flags, ok=ok)
    return nodes.plays(without_images(), "-e", "day2_recycle_all=true", *flags, ok=ok)


@pytest.mark.parametrize("waves", [True, False])
def test_what_was_approved_is_one_image_and_the_next_one_begins_nothing(tmp_path: Path, waves: bool) -> None:
    with in_service(tmp_path, 3) as nodes:
        image = {**IMAGE, "sha256": f"sha256:{'0123456789ABCDEF' * 4}"}
        nodes.shared["gpufleet_image"] = image
        digest = digest_of(nodes)

        def of(version: str, digest: str, *flags: str, ok: bool) -> str:
            return approved(nodes, {"version": version, "digest": digest}, *flags, ok=ok, waves=waves)

        nodes.hosts["gpu002"]["gpufleet_image"] = {**image, "version": "2026.11.3"}
        told = of("2026.11.2", "", ok=False)
        assert "another one is declared for gpu002 2026.11.3 " in told and taken(nodes) == [], told
        # Other bytes under the version that was approved, as where an image was built once more.
        nodes.hosts["gpu002"]["gpufleet_image"] = {**image, "sha256": "f" * 64}
        other = digest_of(nodes, "--limit", "gpu002")
        told = of("2026.11.2", digest, ok=False)
        assert f"another one is declared for gpu002 2026.11.2 {other}" in told and taken(nodes) == [], told
        # Nor what would approve of any image, or of a sixteenth of all.
        for word in ("none", "sha256:", f"sha256:{digest}", digest[:11]):
            told = of("2026.11.2", word, "--limit", "!gpu002", ok=False)
            assert f"rollout_digest is {word}: the first 12" in told and taken(nodes) == [], told
        of("2026.11.2", digest.upper(), "--limit", "!gpu002", ok=True)
        # Who is asked for no version, as an empty answer of AWX has it, is held to none.
        of("", digest, "--limit", "gpu002", ok=False)
        of("", "", "--limit", "gpu002", ok=True)
        assert taken(nodes) == list(nodes.hosts)


KERNEL = {"format": "ramdisk", "kernel_url": "https://images.example.com/vmlinuz"}
BYTES = {"sha256": "ab" * 32}


@pytest.mark.parametrize(
    ("declared", "by_now", "same"),
    [
        ({**KERNEL, **BYTES}, {"kernel_url": "https://images.example.com/vmlinuz-next"}, False),
        ({**KERNEL, **BYTES}, {"format": "whole-disk"}, False),
        ({"url": "", "named": "golden-a"}, {"named": "golden-b"}, False),
        ({"url": "", "named": "golden-a"}, {"name": "other-golden"}, False),
        ({}, {"url": "https://images.example.com/y"}, False),
        (BYTES, {"url": "https://mirror.example.com/x", "size": 1}, True),
        # What is empty is not declared.
        ({}, {"sha256": ""}, True),
        ({"sha256": "", "named": None}, {}, True),
    ],
)
def test_what_was_approved_is_all_that_a_node_will_boot(
    tmp_path: Path, declared: dict[str, Any], by_now: dict[str, Any], same: bool
) -> None:
    """After the canary: whoever reads in another declaration meanwhile gets it to nobody, nor is it tried by waves that
    nobody approved, as an image that has come through."""
    with in_service(tmp_path, 3) as nodes:
        nodes.shared["gpufleet_image"] = {**IMAGE, **declared}
        said = {"version": IMAGE["version"], "digest": digest_of(nodes)}
        approved(nodes, said, "--limit", "gpu001", ok=True, waves=True)
        nodes.shared["gpufleet_image"] = {**IMAGE, **declared, **by_now}
        told = approved(nodes, said, "--limit", "!gpu001", ok=same, waves=True)
        assert taken(nodes) == (list(nodes.hosts) if same else ["gpu001"]), told
        if not same:
            assert f"another one is declared for gpu002 2026.11.2 {digest_of(nodes)}" in told, told
            rollout(nodes, *given(budgets={"fleet": 3}), "--limit", "!gpu001", ok=True)
        assert [begun(nodes, name)[-1]["canary"] for name in nodes.hosts] == [True, not same, False], told


def test_a_canary_that_failed_counts_when_its_row_is_taken_out(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        nodes.hosts["gpu001"]["broken"] = True
        budgets = given(budgets={"fleet": 3})
        rollout(nodes, *budgets, ok=False)
        row = nodes.hosts.pop("gpu001")
        told = rollout(nodes, *budgets, ok=False)
        assert "the canary gpu001 (not in the inventory) is not in service again" in told, told
        nodes.book("waves", *RESET, ok=True)
        rollout(nodes, *budgets, ok=True)
        nodes.hosts["gpu001"] = row
        assert sorted(taken(nodes)) == ["gpu001", "gpu002", "gpu003"]


def elsewhere() -> dict[str, Any]:
    """What a run of another controller notes of a canary that it begins."""
    holder = {"host": "other#1", "pid": 1, "pid_start": 1, "boot_id": "b"}
    return {"canary": True, "size": 1, "image": NAME, "out": False, "holder": holder}


@pytest.mark.parametrize("known", [True, False])
def test_one_canary_is_tried_at_a_time_whoever_tries_it(tmp_path: Path, known: bool) -> None:
    """Also on a node that this inventory does not have, and where its BMC is slow to prove itself."""
    with in_service(tmp_path, 3) as nodes:
        begun_at = "SELECT node_id, 'r9', ?, 'wave', 'begun', ? FROM nodes WHERE name = 'gpu003'"
        with sqlite3.connect(nodes.ledger) as ledger:
            into = "INSERT INTO events (node_id, run_id, at, kind, name, data)"
            ledger.execute(f"{into} {begun_at}", (time.time() - 1200, json.dumps(elsewhere())))
        if not known:
            nodes.hosts.pop("gpu003")
        told = rollout(nodes, *given(budgets={"fleet": 3}), ok=True)
        who = "gpu003" if known else "gpu003 (not in the inventory)"
        assert f"{who}, which another run tries it on, has not come through yet" in told, told
        assert not begun(nodes, "gpu001") and not begun(nodes, "gpu002") and taken(nodes) == []


def test_who_died_before_he_took_his_canary_is_waited_for_until_a_person_says_otherwise(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        with Ledger(nodes.url) as ledger:
            ledger.append("r9", [(nodes.node_id("gpu003"), Event("wave", "begun", elsewhere()))])
        budgets = given(budgets={"fleet": 3})
        rollout(nodes, *budgets, ok=True)
        assert taken(nodes) == []
        nodes.book("waves", *RESET, "--limit", "!gpu003", ok=True)
        rollout(nodes, *budgets, ok=True)
        assert taken(nodes) == [], "of that node nobody has said so"
        nodes.book("waves", *RESET, ok=True)
        told = rollout(nodes, *given(budgets={"fleet": 1}), ok=True)
        assert taken(nodes) == [] and "no room in fleet: 1 of 3" in told, "he may be at work with it: that counts"
        rollout(nodes, *budgets, ok=True)
        assert taken(nodes) == ["gpu001", "gpu002"], told


def test_of_two_runs_that_begin_their_canaries_at_once_the_later_one_gives_its_own_back(tmp_path: Path) -> None:
    with in_service(tmp_path, 3) as nodes:
        data = json.dumps(elsewhere()).replace("'", "''")
        # It comes between this run's look and what it writes, on the same node, where it hides behind this run's own.
        with sqlite3.connect(nodes.ledger) as ledger:
            ledger.execute(
                "CREATE TRIGGER beside BEFORE INSERT ON events WHEN NEW.name = 'begun' AND NEW.run_id != 'r9' BEGIN"
                " INSERT INTO events (node_id, run_id, at, kind, name, data)"
                f" SELECT NEW.node_id, 'r9', NEW.at, 'wave', 'begun', '{data}'"
                " WHERE NOT EXISTS (SELECT 1 FROM events WHERE run_id = 'r9'); END"
            )
        told = rollout(nodes, *given(budgets={"fleet": 3}), ok=True)
        names = [what for what, _data in nodes.events("gpu001", "wave")]
        assert names == ["planned", "begun", "begun", "withdrawn"] and taken(nodes) == [], told
        assert "the run r9 tries a canary of this image" in str(nodes.events("gpu001", "wave")[-1])
