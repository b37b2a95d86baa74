# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which worker runs which test, under ``--dist loadgroup``: one for all of a group, the groups by xdist_group marks.

pytest-xdist has its workers add the group to the name of each test, and sends the tests of one such suffix to one
worker. Since pytest 9.2 a name is not changed so, nobody is told, and each worker starts each service anew. So the
first worker writes down the groups, and what hands out the tests reads them: no name is changed.
"""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

INPUT = "gpufleet_groups"
FIRST = "gw0"


class Together:
    """The plugin, in the main process and in the workers."""

    @functools.cached_property
    def file(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(prefix="gpufleet-groups-")
        return Path(self._folder.name, "groups.json")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[INPUT] = str(self.file)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Before pytest-xdist's own, which tells the main process that everything is collected."""
        told = getattr(session.config, "workerinput", {})
        if INPUT in told and told["workerid"] == FIRST:
            groups = {item.nodeid: mark.args[0] for item in session.items if (mark := _mark(item))}
            Path(told[INPUT]).write_text(json.dumps(groups), encoding="utf-8")

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        return _scheduler(config, log, self.file) if config.getvalue("dist") == "loadgroup" else None


def _mark(item: pytest.Item) -> Any:
    return item.get_closest_marker("xdist_group")


def _scheduler(config: pytest.Config, log: Any, file: Path) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        @functools.cached_property
        def groups(self) -> dict[str, str]:
            found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
            return found

        def _split_scope(self, nodeid: str) -> str:
            return self.groups.get(nodeid, nodeid)

    return Groups(config, log)
