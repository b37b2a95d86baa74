# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the answers of Redfish services mean: odd JSON, error bodies, message ids. PRIVATE to the collection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.contract import NotNow
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    AuthFailed,
    BadAnswer,
    FleetError,
    Refused,
    Unsupported,
)
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import about_secrets, short, whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer

BMC = Peer(
    "the BMC",
    reach="check gpufleet_bmc_address, the route to the out-of-band network, and that the BMC has power",
    trust="set gpufleet_bmc_ca_path to the authority that signed the BMC's certificate, which must name this address",
    login="check gpufleet_bmc_username and gpufleet_bmc_password",
    setting="gpufleet_bmc_address",
)

# What a message id, or words of a message, stand for.
NOT_READY = "not_ready"
IN_POST = "in_post"
ALREADY = "already"
SETTLING = "settling"
PASSWORD_CHANGE = "password_change_required"
UNLICENSED = "unlicensed"
LOCKED_DOWN = "locked_down"
ELSEWHERE = "elsewhere"
READ_ONLY = "read_only"

#: Pieces of a MessageId or of a message, first match wins; beside each, where it was seen.
MEANINGS: tuple[tuple[str, str, str], ...] = (
    ("SWC0700", NOT_READY, "iDRAC 'is not ready'; dell/iDRAC-Redfish-Scripting"),
    ("SYS518", NOT_READY, "iDRAC 'not yet ready after previous operation'; sushy connector.py"),
    ("SYS446", NOT_READY, "iDRAC while it starts; LISA#4070"),
    ("RAC0218", NOT_READY, "iDRAC 'maximum number of user sessions'; check_redfish#198"),
    ("ServiceTemporarilyUnavailable", NOT_READY, "DMTF Base registry"),
    ("ServiceInUnknownState", NOT_READY, "DMTF Base registry"),
    ("UnableToModifyDuringSystemPOST", IN_POST, "iLO; ironcore-dev/metal-operator#997"),
    ("PSU501", ALREADY, "iDRAC 'already powered ON'; dellemc-openmanage-ansible-modules#132"),
    ("InvalidOperationForSystemState", ALREADY, "iLO; infra-operator#434"),
    ("already powered", ALREADY, "several, as words alone; dellemc-openmanage-ansible-modules#115"),
    ("ActionParameterValueConflict", SETTLING, "iDRAC10; openstack/ironic redfish/power.py"),
    ("PasswordChangeRequired", PASSWORD_CHANGE, "DMTF Base registry; Redfishtool#107"),
    ("SWC1908", PASSWORD_CHANGE, "iDRAC 'default password is still in use'; iDRAC-Redfish-Scripting#346"),
    ("OemLicenseNotPassed", UNLICENSED, "Supermicro; metal3-io/ironic-image#688"),
    ("LicenseNotInstalled", UNLICENSED, "DMTF License registry"),
    ("No sufficient LICENSE", UNLICENSED, "iDRAC; check_redfish#151"),
    ("Lockdown", LOCKED_DOWN, "iDRAC SystemLockdown; NVIDIA/libredfish"),
    ("OperationSupportedInFutureStateURI", ELSEWHERE, "AMI; DMTF/Redfish-Tacklebox#144"),
    ("PropertyNotWritable", READ_ONLY, "DMTF Base registry; community.general#11297"),
)

_HELP = {
    PASSWORD_CHANGE: "change the password of this BMC user at the BMC, put the new one into the inventory, run again",
    UNLICENSED: "install the licence that the BMC asks for, or use another way for this operation",
    LOCKED_DOWN: "lift the BMC's lockdown mode, run again, and set it afterwards",
    IN_POST: "wait for the machine to leave POST, or power it off first",
}
#: Statuses that say "not now" whatever the body holds; with a POST only those that cannot follow its execution.
BUSY_READS = frozenset({429, 502, 503, 504})
BUSY_WRITES = frozenset({429, 503})
#: A gateway between us and the BMC gave up: the write may have been done.
AMBIGUOUS = frozenset({502, 504})
_GOOD = ("success", "noerror", "accepted", "created", "resetrequired")
_EXCERPT = 200


def document(response: Any, where: str) -> dict[str, Any]:
    """The JSON object of an answer.

    :raises BadAnswer: for anything else, with its beginning.
    """
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):  # no JSON, or lists within lists without end
        found = None
    if not isinstance(found, dict):
        raise BadAnswer(
            "the BMC's answer is no JSON object",
            address=where,
            wanted="a Redfish resource",
            seen=excerpt(response),
            do="is this the address of the BMC's Redfish service, and no login page or proxy before it?",
        )
    return found


def excerpt(response: Any) -> str:
    """The beginning of an answer, fit for one line."""
    return f"HTTP {response.status_code} {short(bytes(response.content), _EXCERPT) or '(empty)'}"


def messages(body: Any) -> Iterator[dict[str, Any]]:
    """All messages of an error body or of a success body, however they are nested or misspelt."""
    if not isinstance(body, dict):
        return
    for holder in (body.get("error"), body):
        if not isinstance(holder, dict):
            continue
        extended = holder.get("@Message.ExtendedInfo")
        for item in extended if isinstance(extended, list) else [extended]:
            if isinstance(item, dict):
                yield item
    error = body.get("error")
    code, text = (error.get("code"), error.get("message")) if isinstance(error, dict) else ("", "")
    # A message that only points at those before it is none.
    if (code or text) and "ExtendedInfo" not in str(text):
        yield {"MessageId": code, "Message": text}


def body_of(response: Any) -> Any:
    """The JSON of an answer that may have none."""
    try:
        return json.loads(response.content) if response.content else None
    except (ValueError, RecursionError):
        return None


def meaning(response: Any) -> str:
    """What its messages stand for; empty where the table does not know."""
    text = " ".join(f"{item.get('MessageId')} {item.get('Message')}" for item in messages(body_of(response)))
    return next((sense for piece, sense, source in MEANINGS if piece in text), "")


def said(response: Any) -> str:
    """The messages in a person's words; an id and its arguments where there are none."""
    parts = spoken(messages(body_of(response)))
    return f"HTTP {response.status_code} {whole(' | '.join(parts))}" if parts else excerpt(response)


def spoken(items: Iterable[dict[str, Any]]) -> list[str]:
    """The first three different ones, a line each."""
    parts: list[str] = []
    for item in items:
        words = " ".join(
            str(part) for part in (item.get("Message"), item.get("Resolution")) if part and part != "None."
        )
        words = words or (plain(item["MessageId"], _arguments(item)) if item.get("MessageId") else "")
        if words and words not in parts:
            parts.append(words)
    return parts[:3]


def plain(message_id: Any, arguments: list[Any]) -> str:
    """An id without words, as it is shown."""
    return f"{message_id}({', '.join(str(one) for one in arguments)})" if arguments else str(message_id)


def _arguments(item: dict[str, Any]) -> list[Any]:
    found = item.get("MessageArgs")
    return about_secrets(found) if isinstance(found, list) else []


def wordless(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ids, with their arguments, of messages that came without words; words.py knows where those are."""
    return [
        {"id": str(item["MessageId"]), "args": _arguments(item)}
        for item in items
        if item.get("MessageId") and not item.get("Message")
    ]


def retry_after(response: Any) -> float:
    """Seconds of Retry-After; dates and nonsense count as not given."""
    try:
        return max(0.0, min(120.0, float(response.headers.get("Retry-After") or 0)))
    except ValueError:
        return 0.0


def refusal(response: Any, method: str, where: str) -> FleetError | None:
    """The exception that an answer stands for; None where it is a success.

    A success is a status below 400 whose body holds no message of an error: BMCs answer 200 with an error inside.
    """
    status, sense = response.status_code, meaning(response)
    if status < 400:
        return _refused_softly(response, sense, where) if response.content and method != "GET" else None
    told: dict[str, Any] = {"address": where, "seen": said(response), "do": _HELP.get(sense, "")}
    details = _details(response, sense)
    if status == 401:
        return BMC.login_refused(where, seen=said(response), details=details)
    if sense == PASSWORD_CHANGE:
        return AuthFailed("the BMC wants this user's password changed first", details=details, **told)
    if sense in (UNLICENSED, LOCKED_DOWN):
        return Refused("the BMC refuses this request", details=details, **told)
    busy = BUSY_READS if method == "GET" else BUSY_WRITES
    if sense in (NOT_READY, IN_POST) or status in busy:
        return NotNow("the BMC is not ready", after=retry_after(response), details=details, **told)
    if status == 404:
        return Unsupported("the BMC does not have this resource", details=details, **told)
    if status >= 500:
        return BadAnswer("the BMC failed to answer", details=details, **told)
    return Refused("the BMC refuses this request", details=details, **told)


def _refused_softly(response: Any, sense: str, where: str) -> FleetError | None:
    """A write answered with 2xx and an error message inside has not been done."""
    bad = [item for item in messages(body_of(response)) if _is_error(item)]
    if not bad:
        return None
    return Refused(
        f"the BMC answers HTTP {response.status_code} with an error inside",
        address=where,
        seen=said(response),
        do=_HELP.get(sense, ""),
        details=_details(response, sense),
    )


def _details(response: Any, sense: str) -> dict[str, Any]:
    found: dict[str, Any] = {"status": response.status_code, "meaning": sense}
    unspoken = wordless(messages(body_of(response)))
    return {**found, "messages": unspoken} if unspoken else found


def _is_error(item: dict[str, Any]) -> bool:
    severity = str(item.get("MessageSeverity") or item.get("Severity") or "").lower()
    name = str(item.get("MessageId") or "").rpartition(".")[2].lower()
    if severity == "ok" or any(word in name for word in _GOOD):
        return False
    return severity in ("warning", "critical") or "error" in name or "not" in name
