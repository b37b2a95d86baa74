# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several nodes at once, as many of which may be written to as the scheduler takes: one of them spoils no other."""

from __future__ import annotations

import threading
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Changed, ConfigError, Fenced
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.contract import WORK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.of_all import of_all
from ansible_collections.gpufleet.baremetal.plugins.module_utils._together import Peers
from contract.scheduler.verbs import TOKEN


def test_holds_of_several_spare_the_one_that_has_changed(keeper: Any) -> None:
    driver = keeper.open()
    views = driver.states(keeper.names)
    first, changed, last = keeper.names
    keeper.hold(changed, "hands inside")
    failed = driver.hold_each([(views[name], TOKEN, WORK) for name in keeper.names])
    assert set(failed) == {changed} and isinstance(failed[changed], Changed)
    assert keeper.texts(changed) == ["hands inside"]
    held = keeper.open().states(keeper.names)
    for name in (first, last):
        assert [hold.text for hold in held[name].holds if hold.text.startswith(TOKEN)], held[name]
    again = keeper.open()
    assert again.resume_each([again.states([first])[first], again.states([last])[last]]) == {}
    assert all(not view.held for name, view in again.states(keeper.names).items() if name != changed)


def test_what_may_be_written_no_more_is_not_and_spoils_no_other(keeper: Any) -> None:
    """A batch writes late: the run of one of them may have ended since it was told that it may."""
    driver = keeper.open()
    first, over, last = keeper.names

    def still(name: str) -> None:
        if name == over:
            raise Fenced("the run is gone", node=name)

    views = driver.states(keeper.names)
    failed = driver.hold_each([(views[name], TOKEN, WORK) for name in keeper.names], still)
    assert set(failed) == {over} and isinstance(failed[over], Fenced)
    assert not keeper.texts(over) and all(keeper.texts(name) for name in (first, last))
    again = keeper.open()
    held = again.states(keeper.names)
    failed = again.resume_each([held[first], held[last]], lambda name: still(over if name == last else name))
    assert set(failed) == {last} and not keeper.texts(first) and keeper.texts(last)


def test_nobody_is_asked_for_nobody(keeper: Any) -> None:
    driver = keeper.open()
    assert driver.hold_each([]) == {} == driver.resume_each([])
    assert not keeper.faults.writes


def test_verbs_at_work_at_once_ask_together_and_each_hears_of_its_own(keeper: Any) -> None:
    """A name that could mean several is its own verb's trouble, and so is an unknown node."""
    peers, told = Peers(), {}
    asked = (*keeper.names, keeper.unknown, *keeper.wrong_names[:1])

    def look(name: str) -> None:
        with peers.rounds.one():
            try:
                told[name] = of_all(keeper.open(), peers).states([name])[name]
            except ConfigError as exc:
                told[name] = exc

    threads = [threading.Thread(target=look, args=(name,)) for name in asked]
    for _one in threads:
        peers.rounds.enter()
    keeper.faults.forget()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    reads = len(keeper.faults.reads)
    for name in keeper.names:
        assert told[name].name == name and told[name].in_service
    assert told[keeper.unknown].absent and all(isinstance(told[name], ConfigError) for name in keeper.wrong_names[:1])
    keeper.faults.forget()
    keeper.open().states([*keeper.names, keeper.unknown])
    assert reads == len(keeper.faults.reads), "one question"
