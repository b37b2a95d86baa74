# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known and wanted of a node: built here alone, out of a task's options or of a batch's entry. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _moved as moved
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import BMC, of_each_host, require, value_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret
from ansible_collections.gpufleet.baremetal.plugins.module_utils._image import bare_sha256
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import known_runs, make_token

#: What a driver needs that fetches images, or has them fetched, by their address.
BY_URL = ("name", "version", "url")
#: What a driver needs whose images lie at the provisioner and have a name there.
BY_NAME = ("name", "version", "named")

#: What helps where a port of the row is in another record; which one stands in ``seen``, so that an inventory which
#: names no record's id is told in one line.
KNOWN_THERE = (
    "set gpufleet_provisioner_id to the record that was seen, once you have seen that it is this machine; or correct"
    " gpufleet_boot_mac"
)
#: By provisioner, the key of the option ``driver`` that names a system of its own: that one is fetched from nowhere.
_STOCK = {"maas": "distro_series"}
_FORMATS = ("ramdisk", "whole-disk")
#: The run of who names none.
UNNAMED = "module"


@dataclass(frozen=True)
class Image:
    """The image a node is to run, out of the host variable ``gpufleet_image``.

    By its address and digest (``url``, ``sha256``), or by its name at the provisioner (``named``); which of them are
    needed is declared by the driver (:attr:`Driver.image_needs`).
    """

    name: str
    version: str
    url: str = ""
    sha256: str = ""
    kernel_url: str = ""
    format: str = "ramdisk"
    named: str = ""
    #: Tells one deployment of this image from the next; empty where any will do.
    deploy_id: str = ""

    @classmethod
    def of(
        cls, mapping: Mapping[str, Any] | None, *, node: str = "", needs: Sequence[str] = BY_URL, deploy_id: Any = None
    ) -> Image | None:
        """:raises ConfigError: where a key is missing that identifies the image, or that its driver needs."""
        if not mapping:
            return None
        missing = [key for key in needs if not mapping.get(key)]
        if missing:
            raise ConfigError(
                f"the image lacks {', '.join(missing)}",
                node=node,
                do=f"complete gpufleet_image: {', '.join(needs)} say what is deployed",
            )
        # To a driver that takes images by their address, a name is nothing: adding one is no other image.
        named = mapping.get("named") if "named" in needs else None
        given = {**mapping, "named": named, "deploy_id": deploy_id or mapping.get("deploy_id")}
        picked = {key: str(given[key]) for key in cls.__dataclass_fields__ if given.get(key)}
        if picked.get("format", "ramdisk") not in _FORMATS:
            raise ConfigError(f"unknown image format {picked['format']}", node=node, wanted=" or ".join(_FORMATS))
        if "sha256" in picked:  # one digest in two spellings is no other image
            picked["sha256"] = bare_sha256(picked["sha256"])
        return cls(**picked)

    @property
    def label(self) -> str:
        """What a person and a provisioner's image list call it."""
        return "".join(char if char.isalnum() or char in "._-" else "-" for char in f"{self.name}-{self.version}")

    def identity(self) -> dict[str, str]:
        """What is noted at the provisioner, to know the image again."""
        noted = {"name": self.name, "version": self.version, "url": self.url, "sha256": self.sha256}
        extra = {"named": self.named, "deploy_id": self.deploy_id}
        return {**noted, **{key: value for key, value in extra.items() if value}}

    def is_noted(self, noted: Mapping[str, Any]) -> bool:
        """Is this the image, and where one is asked for this very deployment, that the provisioner's note tells of?"""
        known = {**noted, "sha256": bare_sha256(noted.get("sha256"))}
        return all(str(known.get(key) or "") == value for key, value in self.identity().items())


@dataclass(frozen=True)
class Stray:
    """known, named: where the ledger has the node, and what the inventory names, in words. tells: by which deployment,
    or stamp, the known one is known under any name; empty where it tells none."""

    known: str
    named: str
    tells: str = ""


@dataclass(frozen=True)
class Wanted:
    """What is known and wanted of one node."""

    host: str
    provisioner_id: str = ""
    name: str = ""
    boot_mac: str = ""
    serial: str = ""
    bmc: Mapping[str, Any] = field(default_factory=dict)
    image: Image | None = None
    #: Why the declared image is none that this driver could deploy; there is no ``image`` then.
    flaw: ConfigError | None = field(default=None, compare=False)
    #: Why the option ``driver`` of this host of a batch says nothing that can be read.
    unread: ConfigError | None = field(default=None, compare=False)
    properties: Mapping[str, Any] = field(default_factory=dict)
    extras: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    erase: bool = False
    redeploy: bool = False
    #: Was it booted since its deployment was ordered, as whoever did it says? Asked for beside BOOT alone.
    booted: bool = False
    #: When that boot was begun, by this machine's clock; 0 where nobody tells.
    booted_at: float = 0.0
    update_password: bool = False
    #: Is the record to keep the BMC that it has, whatever the inventory says? ``bmc`` tells nothing then.
    bmc_stays: bool = False
    #: The run that asks, and all runs of ours that ever wrote to this node; None where no ledger was there to tell.
    run: str = UNNAMED
    runs: frozenset[str] | None = None
    #: Does our ledger know of a deployment of ours, or has it adopted the node? None where none was there to tell.
    deployed: bool | None = None
    #: The deployments that are ours by the word of our ledger: ordered, and not refused.
    deploy_ids: frozenset[str] = frozenset()
    #: What its provisioner told of it when our ledger adopted it, which changes with the next deployment.
    stamps: frozenset[str] = frozenset()
    #: Work of the provisioner's that our ledger has begun on it, and not ended, since it was adopted or deployed.
    works: frozenset[str] = frozenset()
    #: Of boards that were swapped out of this machine, as a person said: its provisioner may have it by one of them.
    former_serials: frozenset[str] = frozenset()
    #: Has a person said why it is done all the same?
    forced: bool = False
    #: Why this provisioner is asked for nothing of it any more: it went to another one.
    elsewhere: ConfigError | None = field(default=None, compare=False)
    #: Our ledger has it deployed or adopted at another provisioner than the inventory names; None where that is one.
    stray: Stray | None = None
    #: The kind of hold, of those that no run lifts, that stands in nobody's way here.
    passes: str = ""
    #: To be set in a rescue system that asks for one.
    rescue_password: str = field(default="", repr=False)
    #: Is it asked for work, of which each write may hit running work, and not for a state?
    work: bool = False
    #: Has this run verified the image? None where no ledger was there to tell.
    verified: bool | None = None

    @property
    def key(self) -> str:
        """By what the provisioner is asked for the node."""
        return self.provisioner_id or self.name or self.host

    def token(self, why: str) -> str:
        """What a hold of this run reads."""
        return make_token(self.run, why)


def of_task(params: Mapping[str, Any], provisioner: str, needs: Sequence[str], node: str) -> Wanted:
    """The options of a task for one node."""
    if not params.get("provisioner_id") and not params.get("name"):
        require(params, "provisioner_id", node=node)
    host = node or _text(params, "name") or _text(params, "provisioner_id")
    name = _text(params, "name") or _text(params, "provisioner_id")
    found = _wanted(params, params, provisioner, needs, host=host, name=name)
    if found.unread is not None:
        raise found.unread
    return found


def of_batch(item: Mapping[str, Any], params: Mapping[str, Any], provisioner: str, needs: Sequence[str]) -> Wanted:
    """An entry of the option ``nodes``, and what the task says for all of them."""
    host = host_of(item)
    return _wanted(item, params, provisioner, needs, host=host, name=_text(item, "name") or host)


def host_of(item: Mapping[str, Any]) -> str:
    """:raises ConfigError: where an entry of ``nodes`` says of nobody that it is about."""
    host = _text(item, "host") or _text(item, "name") or _text(item, "provisioner_id")
    if not host:
        raise ConfigError("a node without host", seen=str(item), do="give each entry of nodes the key host")
    return host


def elsewhere(item: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    """The connection must be the same for all hosts of one call, since one asks for all of them."""
    for key in of_each_host(names.OPTION, names.OPTIONS):
        own, asked = (str(value_of(given, key, names.OPTIONS)) for given in (item, params))
        if key in item and own != asked:  # empty is another place, too
            own, asked = own or "not set", asked or "where it is not set"
            return f"its {key} is {own}, and this batch asks {asked}: watch them in separate plays"
    return ""


def _wanted(
    of_node: Mapping[str, Any],
    of_all: Mapping[str, Any],
    provisioner: str,
    needs: Sequence[str],
    *,
    host: str,
    name: str,
) -> Wanted:
    annotations = of_node.get("annotations") or {}
    extras, unread = _extras(of_node.get("driver") or of_all.get("driver"), provisioner, host)
    stock = bool(extras.get(_STOCK.get(provisioner, "")))
    image, flaw = _image(of_node, host, [key for key in needs if not (stock and key == "url")])
    return Wanted(
        host=host,
        provisioner_id=_text(of_node, "provisioner_id"),
        name=name,
        boot_mac=_text(of_node, "boot_mac"),
        serial=_text(of_node, "serial"),
        bmc={key: of_node.get(key) for key in BMC},
        image=image,
        flaw=flaw,
        properties=dict(of_node.get("properties") or {}),
        unread=unread,
        extras=extras,
        annotations={key: str(value) for key, value in annotations.items()},
        erase=bool(of_all.get("erase")),
        redeploy=bool(of_node.get("redeploy")),
        booted=bool(of_all.get("booted")),
        booted_at=float(of_node.get("booted_at") or 0.0),
        update_password=of_node.get("update_password") == "always",
        run=_text(of_all, "run_id") or UNNAMED,
        runs=known_runs(of_node),
        deployed=of_node.get("known_deployed"),
        deploy_ids=frozenset(map(str, of_node.get("known_deploy_ids") or ())),
        stamps=frozenset(map(str, of_node.get("known_stamps") or ())),
        works=frozenset(map(str, of_node.get("known_works") or ())),
        former_serials=frozenset(map(str, of_node.get("known_former_serials") or ())),
        forced=bool(of_all.get("force_reason")),
        elsewhere=None if of_all.get("force_reason") else _elsewhere(of_node.get("known_move"), of_all),
        stray=None if of_all.get("force_reason") else _stray(of_node.get("known_at"), of_all),
        rescue_password=_secret(of_node, "rescue_password"),
        work=str(of_all.get("state") or "") in names.WORKS,
        verified=of_node.get("image_verified"),
    )


def _image(of_node: Mapping[str, Any], host: str, needs: Sequence[str]) -> tuple[Image | None, ConfigError | None]:
    """A node is enrolled, released and adopted whatever is wrong with its image."""
    try:
        return Image.of(of_node.get("image"), node=host, needs=needs, deploy_id=of_node.get("deploy_id")), None
    except ConfigError as exc:
        return None, exc


def _elsewhere(event: Mapping[str, Any] | None, options: Mapping[str, Any]) -> ConfigError | None:
    return moved.elsewhere(event, moved.place_of(options))


def _stray(known: Mapping[str, Any] | None, options: Mapping[str, Any]) -> Stray | None:
    own = moved.place_of(options)
    if not known or not moved.apart(known, own):
        return None
    return Stray(moved.words(known), moved.words(own), str(known.get(moved.TELLS) or ""))


def own_extras(params: Mapping[str, Any], provisioner: str) -> dict[str, Any]:
    """What the option ``driver`` says to this driver: its own part, or all of it where it has no parts.

    :raises ConfigError: where it is no mapping, since a host's own variable is read by no argument spec; or where
        something stands beside its parts, which would be read by nobody.
    """
    given = _mapping(params.get("driver") or {})
    parts = names.DRIVERS.keys() & set(given)
    beside = sorted(map(str, set(given) - parts))
    if parts and beside:
        raise ConfigError(
            "the option driver has keys beside the parts of provisioners, which nobody reads",
            wanted=f"all of it flat, or in parts of these names: {', '.join(sorted(names.DRIVERS))}",
            seen=f"{', '.join(beside)} beside {', '.join(sorted(parts))}",
            do="put them into their provisioner's part, or correct its name, in enroll_driver or the option driver",
        )
    return dict(_mapping(given.get(provisioner) or {}) if parts else given)


def _mapping(given: Any) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return given
    raise ConfigError(
        "the option driver is no mapping",
        wanted="a mapping, or one as JSON or as key=value, in enroll_driver or the option driver",
        seen=type(given).__name__,
    )


def _extras(given: Any, provisioner: str, host: str) -> tuple[dict[str, Any], ConfigError | None]:
    try:
        return own_extras({"driver": given}, provisioner), None
    except ConfigError as exc:
        exc.located(node=host)
        return {}, exc


def _secret(params: Mapping[str, Any], key: str) -> str:
    keep_secret(_text(params, key))
    return _text(params, key)


def _text(params: Mapping[str, Any], key: str) -> str:
    return str(params.get(key) or "")
