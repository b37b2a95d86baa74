# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a BMC's message ids say in words, by sushy's message registries. PRIVATE to the collection.

iLO answers a refusal with ids and arguments alone; the words stand in registries, DMTF's Base (sushy brings it along)
and the BMC's own. They are looked up when a request has failed for good, and never on the way of one that works: the
collection of registries, one file of it and the registry itself are four requests, and iLO's registry 150 kB. Nor is
sushy imported before: it is half of what all our imports cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers, select
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import AuthFailed, FleetError

#: The newest that sushy brings along. Ids of newer versions keep their meaning within a major version.
_BASE = "Base.1.4.0.json"
_LANGUAGE = "en"


class Words:
    """The registries of one BMC, read when they are asked for."""

    def __init__(self, link: Any, root: Callable[[], Mapping[str, Any]]) -> None:
        self._link = link
        self._root = root
        self._known: dict[str, Any] = {}

    def put_into(self, problem: FleetError) -> None:
        """Say in words what the BMC said in ids alone; the ids stay beside them."""
        # A BMC that refuses the login would count each look-up as one more failed login.
        unspoken = () if isinstance(problem, AuthFailed) else problem.details.get("messages") or ()
        for item in unspoken:
            said = self._said(str(item["id"]), item["args"])
            if said:
                plain = answers.plain(item["id"], item["args"])
                problem.seen = problem.seen.replace(plain, f"{said} [{plain}]")

    def _said(self, message_id: str, arguments: list[Any]) -> str:
        name = message_id.rpartition(".")[0]
        try:
            registry = self._registry(name.partition(".")[0])
            found = None if registry is None else _in_words(name, registry, message_id, arguments)
        except Exception:  # sushy's or ours: a registry that cannot be read must not hide the refusal
            return ""
        if found is None:
            return ""
        parts = (found.message, found.resolution)
        return " ".join(str(part) for part in parts if part and part not in ("unknown", "None", "None."))

    def _registry(self, prefix: str) -> Any:
        if prefix not in self._known:
            self._known[prefix] = None  # also where the look-up fails: it is not tried for each message
            self._known[prefix] = _base(self._link) if prefix == "Base" else self._own(prefix)
        return self._known[prefix]

    def _own(self, prefix: str) -> Any:
        """The registry that the BMC itself keeps; sushy's collection would fetch all of them."""
        from sushy.resources.registry import message_registry_file

        uri = select.link(self._root(), "Registries")
        files = message_registry_file.MessageRegistryFileCollection(self._link, uri) if uri else None
        for path in files.members_identities if files else ():
            if select.last_part(path).partition(".")[0].lower() == prefix.lower():
                # Our link takes the place of the public one: it goes to no other host than the BMC.
                found = message_registry_file.MessageRegistryFile(self._link, path)
                return found.get_message_registry(_LANGUAGE, self._link)
        return None


def _base(link: Any) -> Any:
    from sushy.resources.base import JsonPackagedFileReader
    from sushy.resources.registry.message_registry import MessageRegistry

    return MessageRegistry(link, _BASE, reader=JsonPackagedFileReader("sushy.standard_registries"))


def _in_words(name: str, registry: Any, message_id: str, arguments: list[Any]) -> Any:
    from sushy.resources.registry.message_registry import parse_message

    wanted = SimpleNamespace(
        message_id=message_id, message_args=arguments, message=None, severity=None, resolution=None
    )
    return parse_message({name: registry}, wanted)
