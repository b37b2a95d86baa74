# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which strings may be templates. PRIVATE to the collection.

Since ansible-core 2.19 each string that an inventory plugin sets is untrusted. Such a string is never templated,
which is right, and it is exported as a dictionary (``{"__ansible_unsafe": ...}``), which an automation controller then
stores in place of the string. A string that holds nothing of a template may be called trusted without any effect but
that it is exported as what it is.
"""

from __future__ import annotations

from typing import Any

from ansible.template import trust_as_template


def plain(value: Any) -> Any:
    """The value, with those of its strings tagged that cannot be a template. Others stay untrusted."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, str) and "{" not in value:  # each of Jinja's three opening marks begins with it
        return trust_as_template(value)
    return value


class Lookup(str):
    """A template that this collection itself wrote out of checked parts: a lookup of a secret."""
