# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploy templates: the site's steps that come with a deployment, by the traits of a node. PRIVATE to the collection.

Ironic takes those whose names stand in ``instance_info`` under ``traits``, which must be the node's as well, and none
for the node's traits alone (_get_deployment_templates in ``ironic/conductor/steps.py`` and
validate_instance_info_traits in ``ironic/conductor/utils.py`` of Ironic 39.0). An undeploy empties that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError, NotOurs, Refused
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.api import IronicApi
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.ironic.work import WRITES
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Wanted

#: Of instance_info, and of the option ``driver``.
TRAITS = "traits"


def asked(extras: Mapping[str, Any]) -> list[str]:
    """The traits that the site gives a node, each of which may be the name of a template."""
    return sorted({str(one) for one in extras.get(TRAITS) or ()})


def writing(api: IronicApi, wanted: Wanted) -> FleetError | None:
    """Why the templates of these traits are not taken; None where none writes the image, or a person says why.

    No verdict on the image covers what they write.
    """
    names = set(asked(wanted.extras))
    if not names or wanted.forced:
        return None
    try:
        known = api.listed("/deploy_templates", "deploy_templates", detail=True)
    except (NotOurs, Refused) as exc:
        return Refused(
            "Ironic does not tell this login which steps its deploy templates have",
            address=api.address,
            wanted="that none of those of its traits writes the image",
            seen=str(exc),
            do="let it read them (baremetal:deploy_template:get), give force_reason, or leave out traits",
        )
    odd = [str(one["name"]) for one in known if one.get("name") in names and _writes(one.get("steps") or ())]
    if not odd:
        return None
    return Refused(
        "a deploy template has steps that write the image, which nobody has verified",
        address=api.address,
        wanted=f"templates without steps of the interface {WRITES}, or force_reason",
        seen=", ".join(odd),
        do="leave their traits out of the option driver, or say why in force_reason; nothing was changed",
    )


def _writes(steps: Any) -> bool:
    return any(isinstance(one, Mapping) and one.get("interface") == WRITES for one in steps)
