# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ironic's states, as tables. PRIVATE to the collection.

Source of both: the state machine in ``ironic/common/states.py`` of Ironic 39.0 and its documentation
(https://docs.openstack.org/ironic/latest/user/states.html), each edge that is used run against that version.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.cells import DONE, STOP, WAIT, StepTable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import (
    CLEANING,
    DEPLOYED,
    DEPLOYING,
    ENROLLED,
    FAILED,
    INSPECTING,
    OTHER,
    READY,
    RELEASING,
)

#: The API version that is asked for: 2023.1 and later have it, and it has every field that is used.
MICROVERSION = "1.81"
#: Of what came later: servicing with 2023.2 (1.87), runbooks with 2024.2 (1.92). ironic/api/controllers/v1/versions.py
SERVICE_VERSION, RUNBOOK_VERSION = "1.87", "1.92"

STATES: Mapping[str, str] = {
    "enroll": ENROLLED,
    "verifying": ENROLLED,
    "manageable": ENROLLED,
    "inspecting": INSPECTING,
    "inspect wait": INSPECTING,
    "inspect failed": FAILED,
    "available": READY,
    "deploying": DEPLOYING,
    "wait call-back": DEPLOYING,
    "deploy hold": DEPLOYING,
    "deploy complete": DEPLOYING,
    "deploy failed": FAILED,
    "active": DEPLOYED,
    "deleting": RELEASING,
    "deleted": RELEASING,
    "error": FAILED,
    "cleaning": CLEANING,
    "clean wait": CLEANING,
    "clean hold": CLEANING,
    "clean failed": FAILED,
    "adopting": OTHER,
    "adopt failed": FAILED,
    "rescue": OTHER,
    "rescuing": OTHER,
    "rescue wait": OTHER,
    "rescue failed": FAILED,
    "unrescuing": OTHER,
    "unrescue failed": FAILED,
    "servicing": OTHER,
    "service wait": OTHER,
    "service hold": OTHER,
    "service failed": FAILED,
}

_RESTARTED, _NO_IMAGE, _NO_BMC = "was restarted amid it", "could not fetch an image", "did not reach the BMC"
_NO_SWITCH, _UNTOLD = "could not switch the power by the BMC", "does not show this login why it failed"
#: What a conductor notes of a failure that says nothing of the node, each with what happened in our words: it ended, or
#: another took its nodes over; it could not fetch an image, which it does itself before the node has any part in it; it
#: lost the BMC, or was told by it of no other power state until its patience ended, as by one that is away as well; of
#: both whoever asks that BMC next tells more. Nor can a lessee tell whose failure it is, who is shown no word of any.
#: ironic/conductor/base_manager.py, _fail_transient_state; ironic/conductor/utils.py, abort_on_conductor_take_over;
#: ironic/common/exception.py, ImageRefValidationFailed to RedfishConnectionError, and
#: PowerStateFailure; sushy/exceptions.py, ConnectionError; ironic/api/controllers/v1/node.py, _node_sanitize_extended
EXCUSES: Mapping[str, str] = {
    "state can't be resumed by conductor": _RESTARTED,
    "aborted due to conductor take over": _RESTARTED,
    "Validation of image href": _NO_IMAGE,
    "Failed to download image": _NO_IMAGE,
    "IPMI call failed": _NO_BMC,
    "Redfish connection failed for node": _NO_BMC,
    "Unable to connect to http": _NO_BMC,
    "Failed to set node power state": _NO_SWITCH,
    "** Value Redacted": _UNTOLD,
}

INSPECT_FAILED = "inspect failed"
#: Whose a node is in this state rests on who ordered that deployment.
DEPLOY_FAILED = "deploy failed"

# Steps; those that are sent as they stand to PUT /v1/nodes/{id}/states/provision are listed in TARGETS.
MANAGE, INSPECT, PROVIDE, RECOVER_CLEAN = "manage", "inspect", "provide", "recover-clean"
DEPLOY, REBUILD, UNDEPLOY = "deploy", "rebuild", "undeploy"
CLEAN, SERVICE, RESCUE, UNRESCUE = "clean", "service", "rescue", "unrescue"

#: step -> target of the request. An undeploy is called "deleted" there; "undeploy" is refused.
TARGETS: Mapping[str, str] = {
    MANAGE: "manage",
    INSPECT: "inspect",
    PROVIDE: "provide",
    RECOVER_CLEAN: "manage",
    DEPLOY: "active",
    REBUILD: "rebuild",
    UNDEPLOY: "deleted",
    **{step: step for step in (CLEAN, SERVICE, RESCUE, UNRESCUE)},
}

#: `provide` runs the automated cleaning that the site has set, which wipes disks.
DESTRUCTIVE = frozenset({PROVIDE, DEPLOY, REBUILD, UNDEPLOY, CLEAN, SERVICE, RESCUE, UNRESCUE})

#: Whose a node is rests on these.
ORDERS: Mapping[str, str] = {DEPLOY: DEPLOYED, REBUILD: DEPLOYED, UNDEPLOY: "released"}

LEADS_TO: Mapping[str, str] = {
    MANAGE: "verifying",
    INSPECT: "inspecting",
    PROVIDE: "cleaning",
    RECOVER_CLEAN: "manageable",
    DEPLOY: "deploying",
    REBUILD: "deploying",
    UNDEPLOY: "deleting",
    CLEAN: "cleaning",
    SERVICE: "servicing",
    RESCUE: "rescuing",
    UNRESCUE: "unrescuing",
}

# A rebuild needs the deploy interface that the node already has: Ironic does not change it on an active node.
_REIMAGE = ("same_deploy_interface", REBUILD, UNDEPLOY)

_TO_AVAILABLE: Mapping[str, object] = {
    "enroll": MANAGE,
    "verifying": WAIT,
    "manageable": ("inspected", PROVIDE, INSPECT),
    "inspecting": WAIT,
    "inspect wait": WAIT,
    # From there Ironic takes inspect, manage and abort.
    "inspect failed": INSPECT,
    "deleting": WAIT,
    "cleaning": WAIT,
    "clean wait": WAIT,
    "clean hold": STOP,
    "clean failed": RECOVER_CLEAN,
    "adopting": WAIT,
    "unrescuing": WAIT,
    "servicing": STOP,
}

STEPS: StepTable = {
    # A node that has gone on to be deployed was ready before; what it is now is another goal's business.
    READY: {
        **_TO_AVAILABLE,  # type: ignore[dict-item]
        "available": DONE,
        "deploying": DONE,
        "wait call-back": DONE,
        "deploy hold": DONE,
        "deploy failed": DONE,
        "active": DONE,
        "error": UNDEPLOY,
    },
    DEPLOYED: {
        **_TO_AVAILABLE,  # type: ignore[dict-item]
        "available": DEPLOY,
        "deploying": WAIT,
        "wait call-back": WAIT,
        "deploy hold": STOP,
        "deploy failed": ("same_deploy_interface", DEPLOY, UNDEPLOY),
        "active": ("image_current", DONE, _REIMAGE),
        "error": UNDEPLOY,
    },
    "released": {
        # Never deployed: nothing to release.
        "enroll": DONE,
        "verifying": DONE,
        "inspecting": DONE,
        "inspect wait": DONE,
        "inspect failed": DONE,
        # What came back from a failed cleaning is cleaned again.
        "manageable": PROVIDE,
        "available": DONE,
        "deploying": WAIT,
        "wait call-back": UNDEPLOY,
        "deploy hold": STOP,
        "deploy failed": UNDEPLOY,
        "active": UNDEPLOY,
        "error": UNDEPLOY,
        "deleting": WAIT,
        "cleaning": WAIT,
        "clean wait": WAIT,
        "clean hold": STOP,
        "clean failed": RECOVER_CLEAN,
    },
}

#: What it does with a machine by its own steps: firmware, BIOS and RAID settings, burn-in. Cleaning is done of a node
#: that is manageable, which one that is available, or failed to be cleaned, is made first; servicing of one in use. The
#: cleaning that comes with `provide` is another one, and ends elsewhere.
_UNDER_WAY = ("cleaned_by_hand", WAIT, STOP)
WORKS: StepTable = {
    "inspected": {
        "manageable": INSPECT,
        "available": INSPECT,
        "inspect failed": INSPECT,
        "inspecting": WAIT,
        "inspect wait": WAIT,
    },
    "cleaned": {
        "manageable": CLEAN,
        "available": CLEAN,
        "clean failed": CLEAN,
        "cleaning": _UNDER_WAY,
        "clean wait": _UNDER_WAY,
    },
    "serviced": {"active": SERVICE, "service failed": SERVICE, "servicing": WAIT, "service wait": WAIT},
    "rescued": {
        "active": RESCUE,
        "service failed": RESCUE,
        "rescue failed": RESCUE,
        "unrescue failed": RESCUE,
        "rescuing": WAIT,
        "rescue wait": WAIT,
        "rescue": DONE,
    },
    "unrescued": {
        "rescue": UNRESCUE,
        "rescue failed": UNRESCUE,
        "unrescue failed": UNRESCUE,
        "unrescuing": WAIT,
        "active": DONE,
    },
}
BUSY = frozenset(
    (
        *("verifying", "inspecting", "inspect wait", "deploying", "wait call-back", "deploy complete", "deleting"),
        *("deleted", "cleaning", "clean wait", "adopting", "rescuing", "rescue wait", "unrescuing", "servicing"),
        "service wait",
    )
)
#: Where it rests. Not where a step `hold` of a person's was reached: whoever put it there lets it go on.
SETTLED = frozenset({"enroll", "manageable", "available", "active", "rescue"})
#: There: the heartbeats by which it goes on once that person says so do nothing in a maintenance.
PAUSED = frozenset({"deploy hold", "clean hold", "service hold"})
#: It dates these as it does a deployment.
LED_TO_BY: Mapping[str, str] = {
    **dict.fromkeys(("rescue", "rescuing", "rescue wait", "rescue failed"), "rescued"),
    **dict.fromkeys(("unrescuing", "unrescue failed"), "unrescued"),
    **dict.fromkeys(("servicing", "service wait", "service hold", "service failed"), "serviced"),
}
#: It keeps the instance through all of them.
CARRYING = frozenset(LED_TO_BY)
#: Not `manageable`, where these two begin: the step that leads there is taken first.
MANAGED_FIRST: Mapping[str, frozenset[str]] = {
    INSPECT: frozenset({"available"}),
    CLEAN: frozenset({"available", "clean failed"}),
}

#: Interfaces and names may be changed only here (Ironic answers 409 or 400 elsewhere).
INTERFACES_CHANGEABLE = frozenset({"enroll", "manageable", "available", "inspect failed"})
#: Its words of power, which are also what is asked for. ironic/common/states.py
POWER: Mapping[str, str] = {"power on": "on", "power off": "off"}
#: Here a port's pxe_enabled is changed in maintenance alone.
PORTS_FIXED = frozenset({"available", "deploy failed"})
#: Nothing of the record may be changed while one of these lasts.
RECORD_LOCKED = frozenset({"deploying", "wait call-back", "cleaning", "clean wait", "deleting", "inspect wait"})

#: Hardware type: protocol, and the names in driver_info of address, port, system and user.
BMCS: Mapping[str, tuple[str, str, str, str, str]] = {
    "redfish": ("redfish", "redfish_address", "", "redfish_system_id", "redfish_username"),
    "idrac": ("redfish", "redfish_address", "", "redfish_system_id", "redfish_username"),
    "ilo5": ("redfish", "ilo_address", "client_port", "", "ilo_username"),
    "ilo": ("redfish", "ilo_address", "client_port", "", "ilo_username"),
    "ipmi": ("ipmi", "ipmi_address", "ipmi_port", "", "ipmi_username"),
}

#: Of each node in a poll: enough for every step, and small.
POLL_FIELDS = (
    "uuid,name,provision_state,target_provision_state,provision_updated_at,power_state,last_error,"
    "maintenance,maintenance_reason,fault,owner,lessee,instance_uuid,protected,protected_reason,"
    "retired,retired_reason,driver,deploy_interface,inspect_interface,inspection_finished_at,extra,instance_info"
)

#: Faults that Ironic itself puts behind a maintenance, and whether a recovery step lifts it.
#: ironic/common/faults.py
FAULTS: Mapping[str, bool] = {
    "power failure": False,
    "clean failure": True,
    "rescue abort failure": False,
    "service failure": False,
}
