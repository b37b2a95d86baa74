# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that has no room for one more process, while dialogues with BMCs go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from contract.permit.test_ipmi_side_by_side import silent

#: Root is held by no limit, so it becomes nobody first. The limit is the first process's alone, which forks the others.
SPEAKS = """
import json, os, resource, sys, time
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import apart
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until
apart.links.PATIENCE = 0.5
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
speakers, end = apart.Speakers(), time.monotonic() + 60
def link():
    return apart.LinkApart(sys.argv[1], "ADMIN", "secret", begin=speakers.begin, wait=wait_until, deadline=end)
def asks(one):
    try:
        return one.command(6, 1, what="a look").hex()
    except FleetError as exc:
        return str(exc)
before, limit = link(), resource.prlimit(speakers._first, resource.RLIMIT_NPROC)
told = [asks(before)]
resource.prlimit(speakers._first, resource.RLIMIT_NPROC, (1, limit[1]))
told += [asks(link()), asks(before)]
resource.prlimit(speakers._first, resource.RLIMIT_NPROC, limit)
told += [asks(link())]
print(json.dumps(told))
before.close()
speakers.end()
"""


def test_a_process_that_cannot_be_begun_is_one_hosts_verdict_and_ends_no_others_dialogue(tmp_path: Path) -> None:
    with silent() as bmc:
        done = subprocess.run(
            [sys.executable, "-c", SPEAKS, bmc], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
        )
    assert done.returncode == 0, done.stderr
    before, refused, meanwhile, after = json.loads(done.stdout)
    assert "did not come to its end" in refused and "memory and processes" in refused, refused
    for told in (before, meanwhile, after):
        assert "did not come to its end" not in told and bmc in told, told
