# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the words of xCAT's commands are read, and how its records are shown."""

from __future__ import annotations

import re


def groups(node: dict[str, str]) -> list[str]:
    return [one.strip() for one in node.get("groups", "").split(",") if one.strip()]


def parsed(argv: list[str]) -> tuple[str, dict[str, str], list[str]]:
    options: dict[str, str] = {}
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word in ("-t", "-o", "-i", "-w"):
            options[word] = next(words)
        elif word in ("-c", "-z"):
            options[word] = word
        else:
            rest.append(word)
    return options.get("-t", "node"), options, rest


def selected(record: dict[str, str], where: str) -> bool:
    """As ``-w`` has it; one without the attribute is none of them."""
    attribute, sign, value = where.partition("=~") if "=~" in where else where.partition("==")
    found = record.get(attribute)
    return not where or (found is not None and (bool(re.search(value, found)) if sign == "=~" else found == value))


def shown(kind: str, name: str, record: dict[str, str], options: dict[str, str]) -> str:
    keys = sorted(options["-i"].split(",") if "-i" in options else record)
    pairs = [(key, record.get(key, "")) for key in keys]
    if "-c" in options:
        return "".join(f"{name}: {key}={value}\n" for key, value in pairs)
    head = f"\n{name}:\n    objtype={kind}\n" if "-z" in options else f"Object name: {name}\n"
    return head + "".join(f"    {key}={value}\n" for key, value in pairs)


def stanzas(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    name = ""
    for line in text.split("\n"):
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            name = line.strip().removesuffix(":")
            found[name] = {}
            continue
        key, _mark, value = line.partition("=")
        if key.strip() != "objtype":
            found[name][key.strip()] = value.strip()
    return found
