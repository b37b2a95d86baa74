# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of an automation controller: found by the job's number, and told what to launch next."""

from __future__ import annotations

import os

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import job
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import for_tenant
from ansible_collections.gpufleet.baremetal.plugins.module_utils._stranger import AGAIN, not_adopted

SET = (
    *("AWX_HOST", "TOWER_HOST", "CONTROLLER_HOST", "AWX_PRIVATE_DATA_DIR", "JOB_ID", "AWX_JOB_ID", "TOWER_JOB_ID"),
    "GPUFLEET_RUN_ID",
)
DAY_2 = "ansible-playbook gpufleet.baremetal.day2_recycle -i INVENTORY --limit {}"


@pytest.mark.parametrize(
    ("env", "begins"),
    [
        ({"AWX_HOST": "https://awx.example", "JOB_ID": "812"}, "awx-812-"),
        ({"TOWER_HOST": "https://awx.example", "JOB_ID": "812"}, "awx-812-"),
        ({"CONTROLLER_HOST": "https://awx.example", "JOB_ID": "812"}, "awx-812-"),
        ({"AWX_PRIVATE_DATA_DIR": "/tmp/awx_812_x1y2", "JOB_ID": "812"}, "awx-812-"),
        ({"AWX_JOB_ID": "812"}, "awx-812-"),
        ({"TOWER_JOB_ID": "812"}, "awx-812-"),
        ({"JOB_ID": "812"}, ""),  # of a batch system
        ({"AWX_HOST": "https://awx.example"}, ""),
        ({"AWX_HOST": "https://awx.example", "JOB_ID": "812", "GPUFLEET_RUN_ID": "night"}, "night-"),
    ],
)
def test_w4_a_run_is_called_as_its_job(monkeypatch: pytest.MonkeyPatch, env: dict[str, str], begins: str) -> None:
    for name in SET:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    pid = os.getpid()
    run_id = this_run(pid).run_id
    assert run_id.startswith(begins or f"{os.uname().nodename}-") and f"-{pid}-" in run_id
    assert job.is_one() is (bool(begins) or "AWX_HOST" in env), "whoever has a number is one"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (DAY_2.format("gpu1"), 'launch the template "GPU day 2" with limit gpu1'),
        (
            DAY_2.format("gpu1 -e day2_recycle_all=true"),
            'launch the template "GPU day 2" with limit gpu1 and extra variables {"day2_recycle_all": "true"}',
        ),
        (DAY_2.format("'~gpu(1|2)$'"), 'launch the template "GPU day 2" with limit ~gpu(1|2)$'),
        (
            f"{DAY_2.format('gpu1')} {for_tenant(chr(39).join(['Ann', 's lab']))}",
            'launch the template "GPU day 2" with limit gpu1 and extra variables {"gpufleet_for_tenant": "Ann\'s lab"}',
        ),
        (
            AGAIN.format(host="a.b"),
            "launch the template that runs gpufleet.baremetal.adopt with limit a.b"
            ' and extra variables {"adopt_again": "true"}',
        ),
        (
            f"as you like ({DAY_2.format('gpu1')}). Or not",
            'as you like (launch the template "GPU day 2" with limit gpu1). Or not',
        ),
        ("no command of ours: ansible-playbook site.yml --limit x", None),
        # A file of variables is answered by no form, and the playbook has no template.
        (DAY_2.format("gpu1 -e @MIGRATE_TO"), None),
        # As anybody may write it into the reason of a node, which each report shows.
        (DAY_2.format("a\\"), None),
        (DAY_2.format("gpu1 -e '{'"), None),
        (DAY_2.format("gpu1 -e '" + '{"a":' * 9999 + "'"), None),
        ("", None),
    ],
)
def test_w8_a_next_step_is_the_template_to_launch(text: str, wanted: str | None) -> None:
    assert job.launched(text, {"day2_recycle": "GPU day 2"}) == (text if wanted is None else wanted)


def test_w8_a_step_in_a_sentence_ends_where_it_ends() -> None:
    told = job.launched_all({"nodes": [str(not_adopted("gpu001", "its jobs"))], "count": 1}, {})
    text = "adopt it: launch the template that runs gpufleet.baremetal.adopt with limit gpu001; if another ledger"
    assert text in told["nodes"][0] and told["count"] == 1
