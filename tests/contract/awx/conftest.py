# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller with a part of what a site has, a file's own ``SOME``: one for the file, and a copy for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from awx_server.server import AwxServer
from contract.awx.awx_site import GIT, ROOT, changed, copied, setup


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest) -> Iterator[AwxServer]:
    server = AwxServer({GIT: ROOT / "extensions" / "awx" / "project"})
    assert changed(setup(server, **request.module.SOME)) > 0
    yield server
    server.close()


@pytest.fixture
def awx(made: AwxServer) -> Iterator[AwxServer]:
    """A controller that has the same."""
    with copied(made) as server:
        yield server
