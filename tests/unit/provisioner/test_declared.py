# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a driver declares that it cannot: it defines no method for it, and refuses."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import EvidenceMissing, Unsupported
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import Driver, NodeState
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline


@pytest.mark.parametrize("cell", ["boot", ("image_current", "done", ("asked", "wait", "boot"))])
@pytest.mark.parametrize("goal", ["ready", "released"])
def test_a_boot_is_a_step_on_the_way_to_deployed_alone(goal: str, cell: Any) -> None:
    """On no other way a role has the machine booted: it would wait there for ever."""
    steps = {"deployed": {"set": cell}, goal: {"set": "done", "unset": cell}}
    with pytest.raises(Unsupported, match=f"Stuck says boot on the way to {goal}.*Seen: {goal}: unset"):
        type("Stuck", (Driver,), {"owns_power": False, "steps": steps})
    fine = {"deployed": {"set": cell}, goal: {"set": "done"}}
    type("Fine", (Driver,), {"owns_power": False, "steps": fine})


@pytest.mark.parametrize("cell", ["boot", ("image_current", "done", ("asked", "wait", "boot"))])
def test_a6_who_owns_the_power_has_no_machine_booted_by_others(cell: Any) -> None:
    """Past its provisioner no BMC is asked for a boot without its maintenance: the role would be refused there."""
    with pytest.raises(Unsupported, match="Owner says boot, and its power belongs to the provisioner.*deployed: set"):
        type("Owner", (Driver,), {"steps": {"deployed": {"unset": "wait", "set": cell}}})


def made(name: str, body: dict[str, Any], ctx: Context) -> Any:
    """A driver of a class that consists of this."""
    return type(name, (Driver,), body)(ctx)


@pytest.mark.parametrize(
    ("limit", "methods"), [("holds", ["hold", "lift"]), ("annotates", ["annotate"])], ids=["holds", "annotates"]
)
def test_what_a_driver_declares_that_it_cannot_it_neither_defines_nor_does(limit: str, methods: list[str]) -> None:
    owed: dict[str, Any] = {name: lambda self, *args: None for name in Driver.__abstractmethods__ - set(methods)}
    written = {**owed, "name": "plain", "address": "plain://"}
    cannot = made("Cannot", {**written, limit: False}, Context())
    for method in methods:
        with pytest.raises(Unsupported, match=f"plain cannot {method}.*{limit} = False"):
            getattr(cannot, method)("node", "gpufleet:r1:x", "wanted")
    with pytest.raises(TypeError, match="abstract"):
        made("Unfinished", written, Context())


class _Refusing(Lifeline):
    def before_write(self, what: str, *, destructive: bool, nodes: tuple[str, ...] = ()) -> str | None:
        if "n2" in nodes:
            raise EvidenceMissing("n2 may be at work", node="n2")
        return None


def test_a_bulk_order_of_which_one_node_is_refused_is_worded_for_the_others_alone() -> None:
    owed: dict[str, Any] = {name: lambda self, *args: None for name in Driver.__abstractmethods__}
    more = {"name": "plain", "destructive": frozenset({"deploy"})}
    ctx = Context(lifeline=_Refusing())
    driver = made("Bulk", {**owed, **more}, ctx)
    nodes = [(NodeState(host, host, "new", "ready"), Wanted(host=host)) for host in ("n1", "n2", "n3")]

    def worded(some: Any) -> str:
        return "deploy " + ",".join(node.name for node, _wanted in some)

    granted, refused = driver.permitted(worded, "deploy", nodes)
    assert [wanted.host for _node, wanted in granted] == ["n1", "n3"] and list(refused) == ["n2"]
    assert ctx.asked == ["deploy n1", "deploy n3"]
