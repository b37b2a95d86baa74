# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limit of a run, in its terms as Ansible takes them apart. PRIVATE to the collection."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping
from typing import Any

from ansible import constants as C
from ansible.inventory.manager import PATTERN_WITH_SUBSCRIPT, split_host_pattern
from ansible.utils.display import Display

display = Display()
_NARROWS = ("!", "&")
#: A host has a letter or a digit; who means all of them says so with one of these.
_NAMES = re.compile(r"[\w*?.]")


def names_nodes(limit: str) -> bool:
    """Whether each term that adds hosts names some, and there is one.

    To Ansible a limit that only narrows, and a ``~`` alone, are of all hosts; so is a file (``@``) that is empty, and
    what stands in it whoever launched the run has not seen.
    """
    adding = [term for term in split_host_pattern(limit) if not term.startswith(_NARROWS)]
    return bool(adding) and all(_NAMES.search(term) and not term.startswith("@") for term in adding)


def tell_strangers(variables: Mapping[str, Any]) -> None:
    """Ansible's own warning of a slip in a limit shows lines of a file (``@``) as well, which may be a secret's. Where
    a site has switched it off, this one tells of what was typed alone.

    :param variables: the task's; the first host of a play tells for all.
    """
    first = next(iter(variables.get("ansible_play_hosts_all") or ()), "")
    if C.HOST_PATTERN_MISMATCH != "ignore" or variables.get("inventory_hostname") != first:
        return
    groups: Mapping[str, Collection[str]] = variables.get("groups") or {}
    names = {*groups, *groups.get("all", ()), *C.LOCALHOST}
    terms = [one for one in split_host_pattern(str(variables.get("ansible_limit") or "")) if not one.startswith("@")]
    unknown = [term for term in terms if not _called(term, names)]
    if unknown:
        display.warning(f"the limit of this run names {', '.join(unknown)}, and no host and no group is called so")


def _called(term: str, names: Collection[str]) -> bool:
    bare = term[1:] if term.startswith(_NARROWS) else term
    if bare in names:
        return True
    some = PATTERN_WITH_SUBSCRIPT.match(bare)
    pattern = bare[1:] if bare.startswith("~") else fnmatch.translate(some.group(1) if some else bare)
    return any(map(re.compile(pattern).match, names))
