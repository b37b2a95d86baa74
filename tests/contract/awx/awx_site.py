# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's set-up of a controller: the playbook awx_setup with the modules of awx.awx, and what it has written."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from awx_server.jobs import Jobs
from awx_server.server import AwxServer
from suite import interpreter, playbook

ROOT = Path(__file__).resolve().parents[3]
#: `make setup` puts it there.
MODULES = ROOT / "build" / "awx" / "collections"
GIT = "https://git.example.com/gpu/fleet.git"
SITE: dict[str, Any] = {
    "awx_organization": "Accelerators",
    "awx_prefix": "GPU",
    "awx_names": {"day2_recycle": "Recycle GPU nodes", "bring_up": "New rack"},
    "awx_project_url": GIT,
    "awx_environment_image": "registry.example.com/gpu/gpufleet-ee:0.1.0",
    "awx_credentials": ["BMCs of Ulm"],
    "awx_gone_delay": 1,
    "awx_slices": 4,
    "awx_files": "/srv/gpufleet",
    "awx_verify_queue": "spare",
    "awx_timezone": "Europe/Berlin",
    "awx_schedules": {"nightly_look": {"rule": "FREQ=DAILY;INTERVAL=2"}},
    "awx_notification": {
        "type": "webhook",
        "configuration": {"url": "https://hooks.example.com/gpu", "http_method": "POST", "headers": {}},
    },
}

#: What stands at the end of the identifier of a node that was made here.
MARK = " [gpufleet.baremetal]"
NODES = "workflow_job_template_nodes"
TABLES = yaml.safe_load((ROOT / "roles" / "awx" / "vars" / "main" / "jobs.yml").read_text(encoding="utf-8"))


def setup(awx: AwxServer, *more: str, **site: Any) -> subprocess.CompletedProcess[str]:
    """Of what is secret there is the token alone, and that is in the environment."""
    settings = {
        "CONTROLLER_HOST": awx.url,
        "CONTROLLER_OAUTH_TOKEN": awx.token,
        "ANSIBLE_COLLECTIONS_PATH": f"{ROOT / 'build' / 'collections'}:{MODULES}",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        # The server speaks plain HTTP, and each of the modules would read all authorities for it.
        "SSL_CERT_FILE": os.devnull,
        "SSL_CERT_DIR": os.devnull,
    }
    said = json.dumps({**SITE, "ansible_python_interpreter": interpreter.forking(), **site})
    return playbook.run(["gpufleet.baremetal.awx_setup", "-e", said, *more], {**os.environ, **settings}, timeout=600)


def changed(done: subprocess.CompletedProcess[str]) -> int:
    assert done.returncode == 0 and "duplicate mapping key" not in done.stdout + done.stderr, done.stdout + done.stderr
    return int(re.findall(r"changed=(\d+)", done.stdout)[-1])


def wrote(awx: AwxServer) -> list[tuple[str, str]]:
    """Since the last look."""
    found = list(awx.writes)
    awx.writes.clear()
    return found


def nodes(awx: AwxServer, workflow: str) -> dict[str, Mapping[str, Any]]:
    number = awx.named("workflow_job_templates", workflow)["id"]
    all_of_them = awx.store.all("workflow_job_template_nodes")
    return {one["identifier"].removesuffix(MARK): one for one in all_of_them if one["workflow_job_template"] == number}


def part(made: AwxServer, workflow: str = "recycle") -> dict[str, Any]:
    """The tables of one workflow and of what it runs: of the others a run would say the same, a minute later."""
    table = TABLES["awx_workflows"][workflow]
    run = {one["run"] for one in table["nodes"].values() if "run" in one}
    return {
        "awx_workflows": {workflow: table},
        "awx_templates": {name: TABLES["awx_templates"][name] for name in sorted(run)},
        "awx_extra_vars": json.loads(made.named("job_templates", "GPU status")["extra_vars"]),
        "awx_names": {key: name for key, name in SITE["awx_names"].items() if key in run},
        **dict.fromkeys(("awx_own_schedules", "awx_schedules"), {}),
    }


@contextlib.contextmanager
def copied(made: AwxServer) -> Iterator[AwxServer]:
    """Another controller that has the same."""
    server = AwxServer({})
    server.store = copy.deepcopy(made.store)
    server.jobs = Jobs(server.store)
    yield server
    server.close()


def of_workflows(flows: dict[str, Any]) -> dict[str, Any]:
    """What set-up is told where it is to make these workflows, the templates that they run, and no more."""
    run = sorted({one["run"] for flow in flows.values() for one in flow["nodes"].values() if "run" in one})
    return {
        "awx_workflows": flows,
        "awx_templates": {name: TABLES["awx_templates"][name] for name in run},
        **dict.fromkeys(("awx_own_schedules", "awx_names", "awx_schedules", "awx_extra_vars"), {}),
        "awx_credentials": [],
    }
