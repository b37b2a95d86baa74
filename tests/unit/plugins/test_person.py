# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who has begun a run."""

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._person import launcher, logged_in


def test_a_job_tells_who_has_launched_it() -> None:
    assert launcher({"tower_user_name": "bob", "awx_user_name": "alice"}.get) == "alice"
    assert launcher({"tower_user_name": "bob", "awx_user_name": ""}.get) == "bob" and launcher({}.get) == ""


@pytest.mark.needs_root
def test_a_user_id_that_has_no_name_is_nobody_and_no_error() -> None:
    """As a container has it whose image knows no such user."""
    child = os.fork()
    if not child:
        os.setuid(54321)
        for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
            os.environ.pop(name, None)
        os._exit(0 if logged_in() == "" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
