# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each test of an action is a run of its own."""

from __future__ import annotations

import pytest
from ansible import constants as C


@pytest.fixture(autouse=True)
def of_this_run(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible's folder for what lasts as long as a run. Where pytest keeps no folders, the next test has the same path
    for another ledger."""
    monkeypatch.setattr(C, "DEFAULT_LOCAL_TMP", str(tmp_path_factory.mktemp("of-this-run")))
