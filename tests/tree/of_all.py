# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each option of a verb that serves all hosts from one task is one machine's for itself, or may be said of them all:
one that nobody has sorted would be said of all, with what a template of it tells of the host that runs the task."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FOR_ALL
from ansible_collections.gpufleet.baremetal.tests.tree.code import PACKAGE
from ansible_collections.gpufleet.baremetal.tests.tree.listing import text, under
from ansible_collections.gpufleet.baremetal.tests.tree.parts import options

#: How one asks, where one asks, and with which of the site's logins.
_ASKED = {
    *FOR_ALL,
    *("ledger_url", "state", "timeout", "interval", "run_id", "why"),
    *("bmc_protocol", "bmc_verify_tls", "bmc_ca_path", "bmc_auth", "bmc_ipmi_privilege"),
    *("provisioner", "provisioner_url", "provisioner_username", "provisioner_password", "provisioner_api_key"),
    *("provisioner_ca_path", "provisioner_cloud", "provisioner_login_host"),
    *("scheduler", "scheduler_conf", "scheduler_user", "scheduler_url", "scheduler_token", "scheduler_token_path"),
    *("scheduler_slurm_user", "scheduler_ca_path", "scheduler_context", "scheduler_taints", "scheduler_evict"),
    *("scheduler_ready", "scheduler_login_host"),
}
#: What is wanted of all machines alike.
OF_ALL: dict[str, set[str]] = {
    "bmc_info": {"macs", "hardware", "firmware"},
    "hardware_verify": {"sku", "profile_path", "expected", "fail_on"},
    "ledger_event": {"kind", "name", "reason", "remedy", "data", "lifted_by"},
    "provisioner_node": {"image", "erase", "redeploy", "author", "update_password", "rescue_password"},
    "pxe_boot": {"target", "mode", "http_boot_uri", "power", "prove", "accept_inconclusive"},
    "redfish_power": {"graceful_timeout"},
    "scheduler_node": {"kind", "over_keep", "trial"},
}
_SERVES_ALL = re.compile(r"^class ActionModule\(.*\bForAll\b", re.MULTILINE)


def options_of_nobody(root: Path) -> list[str]:
    complaints = []
    for path in under(root, "plugins/action", suffix=".py"):
        verb = path.stem
        if not _SERVES_ALL.search(text(path)):
            continue
        there = options(root, root / "plugins" / "modules" / path.name)
        own = OF_ALL.get(verb, set())
        of_one = importlib.import_module(f"{PACKAGE}.action.{verb}").ActionModule.of_one
        sorted_twice = {name for name in there & (own | _ASKED) if of_one(name)}
        unsorted = {name for name in there - own - _ASKED if not of_one(name)}
        complaints += [
            *(f"{verb}: {name} is in OF_ONE of _for_all.py, and in OF_ALL here" for name in sorted(sorted_twice)),
            *(f"{verb}: {name} is neither in OF_ONE of _for_all.py nor in OF_ALL here" for name in sorted(unsorted)),
            *(f"{verb}: OF_ALL names {name}, which is no option of it" for name in sorted(own - there)),
        ]
    return complaints
