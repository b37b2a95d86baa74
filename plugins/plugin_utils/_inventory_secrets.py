# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the place of a secret to the lookup that reads it when it is needed. PRIVATE to the collection."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Optional

from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_trust import Lookup

#: Kind of place: what its name may look like, and the template. Nothing else of a cell ever gets into a template.
PLACES: dict[str, tuple[str, str]] = {
    "env": (r"[A-Za-z_][A-Za-z0-9_]*", "{{ lookup('ansible.builtin.env', 'REF') }}"),
    "file": (r"/[A-Za-z0-9._/@+-]+", "{{ lookup('ansible.builtin.file', 'REF') }}"),
    "var": (r"[A-Za-z_][A-Za-z0-9_]*", "{{ REF }}"),
}
#: For the site's own lookup.
_OTHER = r"[A-Za-z0-9][A-Za-z0-9._/@:#+-]*"


def permitted(ref: str, places: Optional[Sequence[str]]) -> bool:
    """Whether a list may name this place. Who writes the list chooses the BMC that the secret is sent to, too.

    :param places: patterns as of a shell, one of which must match; None for any place.
    """
    if places is None:
        return True
    return ".." not in re.split("[:/]", ref) and any(fnmatchcase(ref, place) for place in places)


def password_lookup(ref: str, template: str = "") -> Lookup:
    """The template that reads the secret.

    :param template: the site's own, in which ``REF`` stands for the reference; for every reference without a kind.
    :raises ValueError: for what names no place; the text is not repeated, for it may be a password.
    """
    kind, colon, name = ref.partition(":")
    if colon and kind in PLACES:
        form, text = PLACES[kind]
        if re.fullmatch(form, name):
            return Lookup(text.replace("REF", name))
        raise ValueError(f"no place of the kind {kind}")
    if template and re.fullmatch(_OTHER, ref):
        return Lookup(template.replace("REF", ref))
    if template:
        raise ValueError("no reference that may stand in password_lookup")
    raise ValueError(
        "the place of a secret is wanted, never the secret: env:NAME, file:/PATH or var:NAME;"
        " for others set password_lookup in the source"
    )
