# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An order at Warewulf that comes in several parts: its leave ends while overlays are built, or its run is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Optional

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import PermitDue
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import Leave, LeaveOfAll, clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from calls import Killed, Line, lead, ready, watch_all

IMAGE_SET, BUILT, ORDERED = "image", "build", "order"
_WORDS = {"image name=": IMAGE_SET, "/overlays/build": BUILT, "ordered ": ORDERED}

Change = Callable[[Any, str], object]


def of_the_node(site: Any, name: str) -> None:
    site.server.conf.change(name, lambda one: one["network devices"]["default"].update(ipaddr="127.9.9.9"))


def of_its_profile(site: Any, name: str) -> None:
    more = {"cluster name": f"{site.record(name).get('cluster name', 'c')}1"}
    site.server.conf.change("default", lambda one: one.update(more), "nodeprofiles")


def of_a_tag(site: Any, name: str) -> None:
    """Templates read tags as well."""
    site.tag(name, "rack", "r7")


CHANGES = (of_the_node, of_its_profile, of_a_tag)


@pytest.fixture
def site(warewulf_site: Any) -> Iterator[Any]:
    """Which other tests have after this one."""
    yield warewulf_site
    warewulf_site.server.conf.change("default", lambda one: one.pop("cluster name", None), "nodeprofiles")


def ordering(site: Any) -> dict[str, Any]:
    return {**ready(site), "image": site.image(), "deploy_id": "d-1"}


def told(words: str) -> str:
    return next(short for part, short in _WORDS.items() if part in words)


def is_build(asked: Any) -> bool:
    return bool(asked.is_write and asked.path.endswith("/overlays/build"))


class Parts:
    """Parts of one call. The leave of each ends while overlays are built.

    :param change: somebody does this between the first two parts.
    """

    def __init__(self, site: Any, change: Optional[Change]) -> None:
        self.site, self.options, self._change = site, ordering(site), change
        self.writes: list[str] = []
        self.given: dict[str, Any] = {}
        self.count = 0

    def run(self, part: Callable[[Parts], bool]) -> Parts:
        for self.count in range(1, 7):
            now = clock()
            self.given = {"boot": now["boot"], "given": now["uptime"], "until": now["uptime"] + 60.0}
            self.site.proxy.fault = lambda asked: self.given.update(until=0.0) if is_build(asked) else None
            over = part(self)
            if over:
                break
            if self._change and self.count == 1:
                self._change(self.site, self.options["name"])
        self.site.proxy.fault = lambda _asked: None
        return self


def of_a_wait(parts: Parts) -> bool:
    name = parts.options["name"]
    parts.given.update(writes=[name], destroys=[name], timeout=100.0, elapsed=0.0)
    result = watch_all(parts.site, "deployed", parts.options, line=Leave(parts.given), slice=parts.given)
    parts.writes += map(told, result["asked"])
    assert result["verdicts"] or result["slice"]["due"] == {name: True}
    return bool(result["verdicts"])


def of_one_node(parts: Parts) -> bool:
    ctx = Context(node=parts.options["name"], lifeline=LeaveOfAll({**parts.given, "destroys": True}))
    parts.given = ctx.lifeline._given  # type: ignore[attr-defined]
    try:
        node({**parts.options, "state": "deployed"}, ctx)
    except PermitDue:
        return False
    finally:
        parts.writes += map(told, ctx.asked)
    return True


@pytest.mark.parametrize("part", [of_a_wait, of_one_node])
def test_a_build_that_lasts_longer_than_leave_is_asked_for_once_and_the_node_is_ordered(site: Any, part: Any) -> None:
    done = Parts(site, None).run(part)
    assert (done.writes, done.count) == ([IMAGE_SET, BUILT, ORDERED], 2) and site.deployments() == 1


@pytest.mark.parametrize("change", CHANGES)
def test_what_overlays_are_made_from_and_changes_between_two_parts_is_built_anew(site: Any, change: Change) -> None:
    done = Parts(site, change).run(of_a_wait)
    assert done.writes == [IMAGE_SET, BUILT, IMAGE_SET, BUILT, ORDERED] and site.deployments() == 1, done.writes


def killed(site: Any, at: int) -> dict[str, Any]:
    options = ordering(site)
    with pytest.raises(Killed):
        lead(options, "deployed", line=Line(die_at=at))
    return options


def goes_on(options: dict[str, Any], **more: Any) -> list[str]:
    line = Line()
    assert lead({**options, **more}, "deployed", line=line)["step"] == "boot"
    return [told(what) for what, _hard, _hosts in line.writes]


def test_an_order_of_a_run_that_was_killed_is_built_again_unless_it_was_built_of_what_stands_there(site: Any) -> None:
    assert goes_on(killed(site, 1)) == [BUILT, ORDERED], "its overlays are those from before it"
    assert goes_on(killed(site, 2)) == [ORDERED]
    anew = [IMAGE_SET, BUILT, ORDERED]
    assert goes_on(killed(site, 2), deploy_id="d-2") == anew
    assert goes_on(killed(site, 2), image=site.image("2")) == anew
    for change in CHANGES:
        options = killed(site, 2)
        change(site, options["name"])
        assert goes_on(options) == anew, change


def test_what_somebody_else_builds_right_before_the_image_is_set_was_built_without_it(site: Any) -> None:
    options, first = ordering(site), []

    def fault(asked: Any) -> None:
        if asked.is_write and not first:
            first.append(asked)
            site.server.build(options["name"], None, None)

    site.proxy.fault = fault
    with pytest.raises(Killed):
        lead(options, "deployed", line=Line(die_at=2))
    site.faults.forget()
    assert first and goes_on(options) == [BUILT, ORDERED]
