# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of a source is data and never a template. PRIVATE to the collection.

Two rules, since two programs read what an inventory plugin sets:

* A run: no string of a source is trusted, whatever stands in it. ansible-core then never evaluates it.
* ``ansible-inventory``, by which an automation controller stores an inventory: it writes an untrusted string as
  ``{"__ansible_unsafe": ...}``, and a controller stores that dictionary in place of the string. There, and there
  alone, a string that no reading can take for a template is marked, so that it is written as what it is. Every other
  one keeps its wrapper, for a controller's job trusts each plain string that it is handed.
"""

from __future__ import annotations

from typing import Any

from ansible import context
from ansible.template import trust_as_template
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless

#: All of Jinja's opening marks begin with the first. After the second a text may choose marks of its own.
_SIGNS_OF_A_TEMPLATE = ("{", "#jinja2")


#: Of ansible-core's own forms of JSON: {"__ansible_type": ...}, {"__ansible_unsafe": ...}, {"__ansible_vault": ...}.
_ORDERS = "__ansible"


class Lookup(str):
    """A template that this collection itself wrote out of checked parts: a lookup of a secret."""


def for_a_run(value: Any) -> Any:
    """The value as a run may see it: a lookup of ours as a template, and every other string as mere text.

    Whatever trust a string may have picked up on its way here, out of a cache for instance, it loses. A control in it
    is spelled out: any program may write a variable to a terminal.
    """
    if isinstance(value, Lookup):
        return trust_as_template(_bare(value))
    return _each(value, lambda text: harmless(_bare(text)))


def for_an_export(value: Any) -> Any:
    """The same for a program that writes variables down and evaluates none: harmless strings are written plainly."""
    return _each(value, lambda text: trust_as_template(_bare(text)) if _harmless(text) else text)


def is_an_export() -> bool:
    """Is this ``ansible-inventory``? No other program of ansible-core has the option."""
    return "export" in context.CLIARGS


def _harmless(text: str) -> bool:
    lower = text.lower()
    return not any(sign in lower for sign in _SIGNS_OF_A_TEMPLATE)


def _bare(text: str) -> str:
    """A string without any of the tags that ansible-core attaches to its own subclass."""
    return "".join((text, ""))


def _named(key: Any) -> Any:
    """A name that ansible-core reads as an order of its own, in what was written down, becomes another one."""
    if not isinstance(key, str):
        return key
    name = harmless(_bare(key))
    return f"source{name}" if name.startswith(_ORDERS) else name


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {_named(key): _each(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_each(item, change) for item in value]
    return change(value) if isinstance(value, str) else value
