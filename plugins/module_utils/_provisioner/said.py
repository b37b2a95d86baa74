# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of which form the keys of the option ``driver`` are. PRIVATE to the collection.

The option is one mapping to Ansible, which looks at none of its values: what is taken for something else than was said
is refused by each driver before it asks for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError

#: As it comes out of YAML, JSON and ``key=value``; nothing else is a yes, and nothing else is a no.
_FLAGS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_LISTS = (list, tuple)


def flag(value: Any) -> bool:
    """What :func:`check` has let through, and what is not said as no."""
    return _FLAGS.get(str(value).lower(), False)


def listed(extras: Mapping[str, Any], key: str) -> list[str]:
    """:raises ConfigError: where it is no list: of a text each letter would count."""
    check(extras, "", lists=(key,))
    return [str(one) for one in extras.get(key) or ()]


def check(
    extras: Mapping[str, Any],
    node: str,
    *,
    flags: Iterable[str] = (),
    lists: Iterable[str] = (),
    mappings: Iterable[str] = (),
) -> None:
    """:raises ConfigError: naming what is no boolean, no list or no mapping in the option ``driver``, and should be."""
    odd = _odd(extras, flags, lambda value: str(value).lower() in _FLAGS)
    if odd:
        said = ", ".join(f"{key}: {extras[key]}" for key in odd)
        raise ConfigError(f"neither true nor false in driver: {', '.join(odd)}", node=node, seen=said, do="correct it")
    odd = _odd(extras, lists, lambda value: isinstance(value, _LISTS) or not value)
    if odd:
        raise ConfigError(f"no list in driver: {', '.join(odd)}", node=node, do=f"say {odd[0]}: [{extras[odd[0]]}]")
    odd = _odd(extras, mappings, lambda value: isinstance(value, Mapping) or not value)
    if odd:
        raise ConfigError(f"no mapping in driver: {', '.join(odd)}", node=node, do="give it keys and values")


def _odd(extras: Mapping[str, Any], keys: Iterable[str], takes: Callable[[Any], bool]) -> list[str]:
    """What is null is not said."""
    return sorted(key for key in keys if extras.get(key) is not None and not takes(extras[key]))
