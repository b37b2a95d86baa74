# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read out of a node's record at Warewulf, and written into it. PRIVATE to the collection.

Warewulf has no field for what we note: it stands in tags, which people see and which outlive a release.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _deployment as deployment
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc_address import joined
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.contract import READY, NodeState, mac
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.wanted import Image, Wanted
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf import declared, tables
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.api import Record, Seen
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.extras import OF_DEVICE
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.warewulf.fields import expanded, theirs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._serial import serial_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import has_form

_OURS = "gpufleet-"
#: Tags. The hold may also be a person's own words, and who has a node may say so in ``owner``.
SERIAL, NOTE, RESTS, HOLD, OWNER = f"{_OURS}serial", f"{_OURS}deployment", f"{_OURS}rests", f"{_OURS}hold", "owner"
#: Services of the server that are still to be told of it.
DUE = f"{_OURS}configure-due"
_NO_ANNOTATIONS = frozenset({DUE, SERIAL, NOTE, RESTS, HOLD, OWNER, declared.TAG, declared.BY_TAG})
#: What a record is that we made or gave back: an image of its profile is nobody's deployment then.
ENROLLED, RELEASED, ORDERED = "enrolled", "released", "ordered"

#: Where the inventory says them.
_ADDRESS, _BMC = "ipaddr in driver", "ipmi.ipaddr in driver"
#: Ordered, and not booted yet.
_WAITS = (tables.SET, tables.LOADING, tables.SENT)


# -- what stands there ---------------------------------------------------------------------------------------------


def tags(record: Mapping[str, Any]) -> dict[str, str]:
    found = record.get("tags")
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def devices(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = record.get("network devices")
    return {key: one for key, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}


def macs(record: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(mac(str(one["hwaddr"])) for one in devices(record).values() if one.get("hwaddr"))


def addresses(record: Mapping[str, Any]) -> frozenset[str]:
    found = (one.get(key) for one in devices(record).values() for key in ("ipaddr", "ipaddr6"))
    return frozenset(map(net.called, found)) - {""}


def its_alone(wanted: Wanted) -> dict[str, str]:
    """Where the inventory says which addresses no other node may have, and which."""
    return {_ADDRESS: net.called(wanted.extras.get("ipaddr")), _BMC: of_bmc(wanted.extras.get("ipmi"))}


def alone(record: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """The same of a record."""
    return {_ADDRESS: addresses(record), _BMC: frozenset({of_bmc(record.get("ipmi"))})}


def of_bmc(ipmi: Any) -> str:
    """Behind one address there may be several, each with a port of its own; that of IPMI goes without saying."""
    found = ipmi if isinstance(ipmi, Mapping) else {}
    return joined(net.called(found.get("ipaddr")), "" if str(found.get("port")) == "623" else found.get("port"))


def serial(record: Mapping[str, Any]) -> str:
    return serial_of(tags(record).get(SERIAL))


def due(record: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(tags(record).get(DUE, "").split())


def marks(record: Mapping[str, Any]) -> dict[str, str]:
    """Tags that are none of ours, and say not whose it is."""
    return {key: value for key, value in tags(record).items() if value and key != OWNER and not key.startswith(_OURS)}


def image_of(record: Mapping[str, Any]) -> str:
    return str(record.get("image name") or "")


def noted(record: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`note` left; empty where nothing did, or where it cannot be read."""
    try:
        found = json.loads(tags(record).get(NOTE) or "{}")
    except (ValueError, RecursionError):  # no JSON, or lists within lists without end
        return {}
    return found if isinstance(found, dict) else {}


def note(image: Image, before: Seen, shared: str = "") -> dict[str, Any]:
    """Which deployment it is, and what the node had asked for last when it was ordered.

    :param shared: a digest of what is declared for all, from which its overlays were made too.
    """
    return {**image.identity(), "before": list(before), **({"shared": shared} if shared else {})}


def is_ordered(node: NodeState, image: Image, shared: str = "") -> bool:
    """Is it the image of its order? One that has not booted yet must find overlays that were made from the record, and
    from what is declared for all, as they are."""
    told = noted(node.raw["node"])
    made = node.native not in _WAITS or told.get("shared", "") == shared
    return image.is_noted(told) and not told.get("outdated") and made


def outdated(record: Record, word: str) -> Record:
    """The record that is about to change: a node that is ordered and not booted would boot overlays made before."""
    return with_note(record, {**noted(record), "outdated": True}) if word in _WAITS else record


def beginning(node: NodeState, image: Image, overlays: Mapping[str, str], shared: str = "") -> dict[str, Any]:
    """What is noted while an order is not complete: whose the node was before is still to be told then, and by what
    :func:`is_made` knows that the overlays are built."""
    told = noted(node.raw["node"])
    if is_made(node, image, overlays, shared):
        return told
    coming = {**image.identity(), "source": _source(node.raw["node"], shared), "overlays": dict(overlays)}
    if node.native in (tables.BEGUN, tables.BEGUN_OVER):
        return {**told, "next": coming}
    kept = told if node.deploy_id or node.image.get("named") else {}
    return {**kept, "next": coming, "was": node.state, "stamp": node.stamp}


def is_made(node: NodeState, image: Image, overlays: Mapping[str, str], shared: str = "") -> bool:
    """Were the overlays built since this very order was begun, and of the record as it is now?

    The order's beginning is one write with its image, so what was built since has that as well. Only moments of the
    server's own clock are compared.
    """
    coming = noted(node.raw["node"]).get("next")
    if node.native not in (tables.BEGUN, tables.BEGUN_OVER) or not isinstance(coming, dict):
        return False
    before = coming.get("overlays")
    order = {**image.identity(), "source": _source(node.raw["node"], shared), "overlays": before}
    return coming == order and isinstance(before, dict) and not unbuilt(before, overlays)


def _source(record: Record, shared: str) -> str:
    """A digest of what overlays are made from: the record, with what its profiles say, and what is declared for all.
    Without what an order itself writes there; a digest that an order leaves is read beside that order's own image."""
    others = {key: value for key, value in tags(record).items() if not key.startswith(_OURS)}
    whole = pruned({**without_image(record), "tags": others})
    return hashlib.sha256((json.dumps(whole, sort_keys=True) + shared).encode()).hexdigest()[:16]


def built(overlays: Mapping[str, Any]) -> dict[str, str]:
    """Kind of overlays that the node has: when their image was made, empty where there is none."""
    told = {kind: one for kind, one in overlays.items() if isinstance(one, dict) and one.get("overlays")}
    return {kind: str(one.get("mtime") or "") for kind, one in told.items()}


def unbuilt(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Those that were not built since."""
    return [kind for kind, made in now.items() if not made or made == before.get(kind)]


def inherited(record: Mapping[str, Any], profiles: Mapping[str, Mapping[str, Any]]) -> str:
    """The image that a node has of its profiles: of several, and of those that they name themselves, the last one's."""
    found = ""
    for name in _without_negated(list(expanded(record.get("profiles"), profiles))):
        found = image_of(profiles.get(name) or {}) or found
    return found


def _without_negated(names: Sequence[str]) -> list[str]:
    negated = {name[1:] for name in names if name.startswith("~")}
    return [name for name in names if name not in negated and not name.startswith("~")]


# -- what the node is doing ----------------------------------------------------------------------------------------


def native(record: Mapping[str, Any], seen: Seen, of_profiles: Callable[[], str]) -> str:
    """:param of_profiles: the image that it has of its profiles, asked for only where that matters."""
    image, told = image_of(record), noted(record)
    if _is_true(record.get("discoverable")):
        return tables.DISCOVERABLE
    if not image:
        return tables.NO_IMAGE
    coming = told.get("next")
    if isinstance(coming, dict) and coming.get("named") == image:
        return tables.BEGUN if told.get("was") == READY else tables.BEGUN_OVER
    if isinstance(coming, dict) or told.get("named") != image:
        rests = tags(record).get(RESTS) in (ENROLLED, RELEASED)
        return tables.OF_PROFILE if rests and image == of_profiles() else tables.SOMEBODYS
    if not told.get("booted"):
        return _since(told.get("before"), seen)
    # It boots anew, or tries to. The client of what runs is refused its runtime overlay, and runs on.
    now = _since(told["booted"], seen)
    again = now in (tables.LOADING, tables.NOT_SERVED) and seen.stage.lower() not in tables.SPARED
    return now if again else tables.BOOTED


def _since(before: Any, seen: Seen) -> str:
    """What a node has asked for since its image was set; what it did before is no news of it."""
    then = Seen(*before) if isinstance(before, list) and len(before) == len(Seen._fields) else Seen()
    known_since = then.at if isinstance(then.at, int) else 0
    if not seen.at or seen == then or seen.at < known_since:
        return tables.SET
    stage = seen.stage.lower()
    if seen.sent in tables.FAULTS and not (stage in tables.SPARED and seen.sent == tables.NOT_FOUND):
        return tables.NOT_SERVED
    return tables.SENT if stage in tables.LAST else tables.LOADING


def _is_true(value: Any) -> bool:
    return str(value or "").lower() in ("true", "yes", "1", "t")


def state(name: str, record: Mapping[str, Any], seen: Seen, word: str, owners: frozenset[str]) -> NodeState:
    """The node in this native state."""
    own, told = tags(record), noted(record)
    hold, owner = own.get(HOLD, ""), own.get(OWNER, "")
    ours = word not in (tables.NO_IMAGE, tables.OF_PROFILE, tables.SOMEBODYS) and bool(told.get("named"))
    told = {key: str(told.get(key) or "") for key in ("name", "version", "url", "sha256", "named", "deploy_id")}
    deploy_id = told["deploy_id"] if ours else ""
    foreign = f"held: {hold}" if hold and not has_form(hold) else ""
    return NodeState(
        id=name,
        name=name,
        native=word,
        state=tables.STATES[word],
        last_error=f"it asked for {seen.stage or 'a part'}, and was answered {seen.sent}"
        if word == tables.NOT_SERVED
        else "",
        maintenance=has_form(hold),
        hold=hold,
        foreign=foreign or (f"owner is {owner}" if owner and owner not in owners else ""),
        owner=owner,
        stamp=_stamp(record, word, deploy_id),
        image={"label": f"{told['name']}-{told['version']}", **told} if ours else _label(image_of(record)),
        inspection="unsupported",
        deploy_id=deploy_id,
        deploy_failed=word == tables.NOT_SERVED,
        raw={"node": record, "seen": seen},
    )


def _label(image: str) -> dict[str, str]:
    return {"label": image} if image else {}


def _stamp(record: Mapping[str, Any], word: str, deploy_id: str) -> str:
    """It stays while a node is deployed as it is, whatever that node asks for meanwhile. What an order of ours noted
    that was begun is the node's as long as that order's image stands: a person may have set another one over it."""
    if word in (tables.BEGUN, tables.BEGUN_OVER):
        return str(noted(record).get("stamp") or "")
    return " ".join(filter(None, (image_of(record), deploy_id)))


# -- what is to stand there ----------------------------------------------------------------------------------------


def device_of(record: Mapping[str, Any], wanted: Wanted) -> str:
    """The network device that the machine boots over."""
    boot = mac(wanted.boot_mac) if wanted.boot_mac else ""
    found = next((key for key, one in devices(record).items() if boot and mac(str(one.get("hwaddr"))) == boot), "")
    return found or str(wanted.extras.get("network") or record.get("primary network") or "default")


def standing(record: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    """The fields that enrolling may change, as they are."""
    device = devices(record).get(device_of(record, wanted), {})
    of_device = {key: str(device.get(key) or "") for key in OF_DEVICE}
    card = mac(str(device["hwaddr"])) if device.get("hwaddr") else ""
    return {"profiles": record.get("profiles") or [], "hwaddr": card, "serial": serial(record), **of_device}


def wishes(wanted: Wanted) -> dict[str, Any]:
    """The same fields, as far as the inventory says something of them."""
    given = wanted.extras
    found: dict[str, Any] = {key: str(given[key]) for key in OF_DEVICE if given.get(key)}
    if given.get("profiles"):
        found["profiles"] = [str(one) for one in given["profiles"]]
    if wanted.boot_mac:
        found["hwaddr"] = mac(wanted.boot_mac)
    if wanted.serial:
        found["serial"] = wanted.serial
    return found


def with_fields(record: Record, fields: Mapping[str, Any], wanted: Wanted, device: str) -> Record:
    """The record with these fields."""
    own = {key: value for key, value in fields.items() if key in (*OF_DEVICE, "hwaddr")}
    if own:
        all_devices = devices(record)
        record = {**record, "network devices": {**all_devices, device: {**all_devices.get(device, {}), **own}}}
    if "profiles" in fields:
        record = {**record, "profiles": fields["profiles"]}
    return with_tags(record, {SERIAL: fields["serial"]}) if "serial" in fields else record


def with_tags(record: Record, wished: Mapping[str, str]) -> Record:
    """The record with these tags; an empty one is taken out."""
    left = {key: value for key, value in tags(record).items() if key not in wished}
    return {**record, "tags": {**left, **{key: value for key, value in wished.items() if value}}}


def with_note(record: Record, told: Mapping[str, Any], **more: str) -> Record:
    return with_tags(record, {NOTE: json.dumps(told, sort_keys=True) if told else "", **more})


def with_image(record: Record, image: Image) -> Record:
    """The image, and the words that tell its deployment on the kernel's command line."""
    record = {**record, "image name": image.named}
    return _with_args(record, [deployment.marked(image.deploy_id)] if image.deploy_id else [])


def without_image(record: Record) -> Record:
    return _with_args({key: value for key, value in record.items() if key != "image name"}, [])


def _with_args(record: Record, ours: Sequence[str]) -> Record:
    """The node's own arguments of the kernel; those of its profiles come before them."""
    kernel = record["kernel"] if isinstance(record.get("kernel"), dict) else {}
    told = {**kernel, "args": [*theirs(kernel.get("args")), *ours]}
    left = {key: one for key, one in told.items() if one != []}
    return {**record, "kernel": left} if left else {key: one for key, one in record.items() if key != "kernel"}


def pruned(value: Any) -> Any:
    """As Warewulf writes it: what is empty is not there."""
    if not isinstance(value, dict):
        return value
    found = {key: pruned(one) for key, one in value.items()}
    return {key: one for key, one in found.items() if one not in ("", None, {}, [])}


def differing(before: Record, after: Record) -> dict[str, Any]:
    """Field: what is to stand there, None where nothing is."""
    before, after = pruned(before), pruned(after)
    return {key: after.get(key) for key in sorted({*before, *after}) if before.get(key) != after.get(key)}


def merging(before: Record, changed: Mapping[str, Any]) -> dict[str, Any]:
    """What a merge of these fields needs: of the tags those that differ, since others have theirs there as well. One
    that is taken away is empty there: a merge takes no key out of a map, and puts any value into it."""
    return {**changed, "tags": _changed_tags(before, changed["tags"])} if "tags" in changed else dict(changed)


def _changed_tags(before: Record, wished: Mapping[str, str] | None) -> dict[str, str]:
    own, after = tags(before), wished or {}
    return {key: after.get(key, "") for key in sorted({*own, *after}) if own.get(key, "") != after.get(key, "")}


def lost(before: Record, after: Record, now: Record) -> list[str]:
    """Which fields do not read as they were to be changed. Of the tags those that were: others may have come since."""
    changed, there = merging(before, differing(before, after)), pruned(now)
    wrong = {key for key, value in changed.items() if key != "tags" and there.get(key) != value}
    odd = {key for key, value in changed.get("tags", {}).items() if tags(now).get(key, "") != value}
    return sorted({*wrong, *({"tags"} if odd else ())})


def only_adds(before: Record, after: Record) -> bool:
    """Is nothing taken away but tags, so that it can be merged into what stands there? A merge clears no field."""
    return _adds(*({key: one for key, one in pruned(record).items() if key != "tags"} for record in (before, after)))


def _adds(before: Any, after: Any) -> bool:
    if not isinstance(before, dict):
        return after is not None
    return isinstance(after, dict) and all(_adds(one, after.get(key)) for key, one in before.items())


def odd_keys(annotations: Mapping[str, str]) -> FleetError | None:
    """Tags that have a meaning of their own to this driver are no annotations."""
    odd = sorted(_NO_ANNOTATIONS & set(annotations))
    if not odd:
        return None
    return ConfigError(
        "these tags of a Warewulf node are no annotations",
        wanted=f"other names than {', '.join(sorted(_NO_ANNOTATIONS))}",
        seen=", ".join(odd),
        do="rename it in the option annotations",
    )
