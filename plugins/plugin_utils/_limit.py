# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The limit of a run, in its terms as Ansible takes them apart. PRIVATE to the collection."""

from __future__ import annotations

import re

from ansible.inventory.manager import split_host_pattern

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
