# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the text of a cell means, by the name of its column. PRIVATE to the collection.

The same checks hold for what a site takes out of a provisioner's own record: there, too, people typed it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _net as net
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import cut
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import unseen
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_record as record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import (
    ADDRESSES,
    CHOICES,
    LISTS,
    MACS,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_secrets import password_lookup

PASSWORD = "bmc_password_ref"
_POWER_OF_TEN = re.compile(r"[+-]?\d+([.,]\d+)?E[+-]\d+\Z", re.I)
#: As spreadsheets write them: 3-Jan, Mar-24, 01/03/2024. Real serials are not spelt so.
_MONTH = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DATE = re.compile(rf"(\d{{1,2}}-{_MONTH}(-\d\d)?|{_MONTH}-\d\d|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{4}}|\d{{4}}-\d\d-\d\d)\Z")
SHEET_ERROR = re.compile(r"#(N/A|REF!|NAME\?|VALUE!|NULL!|DIV/0!|NUM!|SPILL!|#+)", re.I)
_HOST = re.compile(r"(https?://)?([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/\S*)?\Z")
#: An address with the length of its network, as a plan of addresses has it; a path begins with a word.
_NETWORK = re.compile(r"(https?://)?(\d+(\.\d+){3}|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]?)/\d[\d.]*\Z")
#: What a provisioner calls a node by: a host name, a UUID, an id. No mark that ends a name in a URL or a command.
_ID = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~-]+\Z")
_NO_NUMBERS = frozenset(
    {"serial", "asset_tag", "name", "boot_mac", "bmc_mac", "dpu_serials", "dpu_bmc_macs", "node_id", "provisioner_id"}
)


def problem(name: str, text: str, password_template: str = "") -> str:
    """What is wrong with it, the first thing only. What should be the place of a secret is never shown."""
    shown = "its content" if name == PASSWORD else repr(cut(text, 60))
    damaged = "that a spreadsheet made of it; format the column as text and type it again"
    if any(unseen(char) for char in text):
        return "holds a control character or a line break, or a mark that nobody sees"
    if SHEET_ERROR.match(text):
        return f"{shown} is a spreadsheet's error, and no value"
    if text.startswith("="):
        return f"{shown} is a spreadsheet's formula, and no value"
    if name in _NO_NUMBERS and _POWER_OF_TEN.match(text):
        return f"{shown} is a number {damaged}"
    if name in ("serial", "asset_tag") and _DATE.match(text):
        return f"{shown} is a date {damaged}"
    try:
        value(name, text, password_template)
    except ValueError as exc:
        return f"{shown}: {exc}"
    return ""


def value(name: str, text: str, password_template: str = "") -> Any:
    """What the cell fills its variable with.

    :raises ValueError: for what it cannot be.
    """
    if name == PASSWORD:
        return password_lookup(text, password_template)
    if name in CHOICES:
        return _choice(name, text)
    if name in LISTS:
        return _list(name, text)
    return _VALUES.get(name, str)(text)


def checked(name: str, text: str, called: str, place: str) -> Any:
    """What a provisioner's record says for a column; empty where it says nothing.

    :param called: what the provisioner calls it, for the message.
    :param place: of the record, for the message.
    :raises ConfigError: for what such a cell cannot be.
    """
    text = text.strip()
    trouble = problem(name, text) if text else ""
    if trouble:
        raise ConfigError(f"{called}: {trouble}", node=place, do="correct it there")
    return value(name, text) if text else ""


def written(name: str, text: str, password_template: str = "") -> str:
    """The one spelling of a cell that was checked, as a clean list has it; of a secret it is the place."""
    found = text if name == PASSWORD else value(name, text, password_template)
    return " ".join(found) if isinstance(found, list) else str(found)


def same(name: str, text: str) -> str:
    """The spelling in which two cells of a column are compared."""
    if name in MACS:
        return net.spelled(text)
    return _same_host(text) if name in ADDRESSES else text.lower()


def _same_host(text: str) -> str:
    try:
        return net.host(text)
    except ValueError:
        return text.lower()


def _choice(name: str, text: str) -> str:
    word = text.lower()
    if word not in CHOICES[name]:
        raise ValueError(f"one of {', '.join(CHOICES[name])} is wanted")
    return word


def _list(name: str, text: str) -> list[str]:
    parts = [part for part in re.split(r"[;,\s]+", text) if part]
    return [net.mac(part) for part in parts] if name in MACS else parts


def _leaf(text: str) -> str | list[str]:
    """One, or both of a pair that is one switch to the node."""
    parts = _list("topology_leaf", text)
    return parts[0] if len(parts) == 1 else parts


def _serial(text: str) -> str:
    found = record.serial(text)
    if not found:
        raise ValueError("what a board says that has no serial; leave the cell empty")
    return found


def _uuid(text: str) -> str:
    found = record.uuid(text)
    if not found:
        raise ValueError("a UUID that is on many boards; leave the cell empty")
    return found


def _bmc(text: str) -> str:
    if _NETWORK.match(text):
        raise ValueError("a network; an address without the /BITS behind it is wanted")
    if re.match(r"[\d.]+\Z", text):
        net.address(text)
    elif not _HOST.match(text) and not _is_address(text):
        raise ValueError("neither an address, nor a host name, nor a URL")
    return text


def _is_address(text: str) -> bool:
    try:
        net.address(text)
    except ValueError:
        return False
    return True


def _path(text: str) -> str:
    """Who reads the variable as a path puts the controller's environment in place of names in it, and tells it."""
    if not text.startswith("/") or "$" in text or "~" in text:
        raise ValueError("an absolute path without $ and ~ is wanted")
    return text


def _id(text: str) -> str:
    if not _ID.match(text):
        raise ValueError("no name or id of one node: letters, digits and the marks . _ ~ - are wanted")
    return text


def _number(text: str) -> int:
    if not text.isdigit():
        raise ValueError("a whole number is wanted")
    return int(text)


_VALUES: dict[str, Callable[[str], Any]] = {
    "boot_mac": net.mac,
    "bmc_mac": net.mac,
    "serial": _serial,
    "system_uuid": _uuid,
    "node_id": _uuid,
    "topology_leaf": _leaf,
    "bmc_ip": _bmc,
    "bmc_ca_path": _path,
    "primary_ip": net.host,
    "provisioner_id": _id,
    "gpu_count": _number,
    "cpu_count": _number,
    "memory_gib": _number,
    "nic_count": _number,
    "drive_count": _number,
}
