# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How iperf3 and perftest are called, and what they say. PRIVATE to the collection.

iperf3 ends with 0 also where it was refused, and says so in its document. perftest prints one line of figures.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.network.speeds import Speed

#: So much of the time that was asked for must have been measured.
_WHOLE = 0.9
_SIZE = 8 * 2**20
_HEADER = re.compile(r"^\s*#bytes\s+#iterations\s+BW peak\[(\S+)\]\s+BW average\[(\S+)\]", re.M)
_ROW = re.compile(r"^\s*(\d{1,12})\s+(\d{1,12})\s+(\d{1,9}\.\d{1,9})\s+(\d{1,9}\.\d{1,9})\s+\d{1,9}\.\d{1,9}\s*$", re.M)


@dataclass(frozen=True)
class Seen:
    """rate: Gb/s. bits: how many must have left by the port. problem: why the rate is none."""

    rate: Optional[float] = None
    bits: float = 0.0
    version: str = ""
    problem: str = ""


def iperf3(program: str, speed: Speed, port: str, server: str) -> list[str]:
    """Over that port and no other, whatever the routes say."""
    address, number = place(server, 5201)
    wanted = ["-J", "-t", str(math.ceil(speed.seconds)), "-P", str(speed.streams), "--connect-timeout", "10000"]
    return [program, "-c", address, "-p", str(number), "--bind-dev", port, *wanted]


def iperf3_server(program: str, address: str, number: int) -> list[str]:
    """The side that waits for one client there, and ends with it."""
    return [program, "-s", "-1", "-B", address, "-p", str(number)]


def perftest(program: str, speed: Speed, port: str, number: int, server: str = "") -> list[str]:
    """The side that waits where no server is named, else the one that writes to it."""
    device, _slash, which = port.partition("/")
    wanted = ["-s", str(_SIZE), "-D", str(math.ceil(speed.seconds)), "-q", str(speed.streams), "--report_gbits", "-F"]
    return [program, "-d", device, "-i", which, "-p", str(number), *wanted, *([server] if server else [])]


def place(server: str, otherwise: int) -> tuple[str, int]:
    """Address and port of a server: ``10.0.0.1``, ``10.0.0.1:5202``, ``fd00::1`` or ``[fd00::1]:5202``."""
    match = re.match(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]]+)):(\d{1,5})\Z", server)
    if match:
        return match.group(1) or match.group(2), int(match.group(3))
    return server.strip("[]"), otherwise


# -- iperf3 ------------------------------------------------------------------------------------------------------------


def _same(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """iperf 3.12 tells some keys twice, with one value."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made and made[key] != value:
            raise ValueError(f"{key} stands twice")
        made[key] = value
    return made


def read_iperf3(text: str, speed: Speed) -> Seen:
    try:
        document = json.loads(text, object_pairs_hook=_same)
        return _iperf3(document, speed)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Seen(problem="its document is cut, or cannot be read")


def _iperf3(document: Mapping[str, Any], speed: Speed) -> Seen:
    version = short(str(document["start"].get("version") or ""), 60)
    if document.get("error"):
        return Seen(version=version, problem=short(str(document["error"]), 200))
    test, ends = document["start"]["test_start"], document["end"]
    if (test["protocol"], test["num_streams"], len(ends["streams"])) != ("TCP", speed.streams, speed.streams):
        return Seen(version=version, problem="it measured something else than it was asked for")
    rates = []
    for side in ("sum_sent", "sum_received"):
        seconds, count, rate = (float(ends[side][key]) for key in ("seconds", "bytes", "bits_per_second"))
        if not (
            seconds >= _WHOLE * speed.seconds and count > 0 and math.isclose(rate, count * 8 / seconds, rel_tol=0.02)
        ):
            return Seen(version=version, problem="its figures do not fit each other, or are of too short a time")
        rates.append(rate / 1e9)
    return Seen(round(min(rates), 3), float(ends["sum_received"]["bytes"]) * 8, version)


# -- perftest ----------------------------------------------------------------------------------------------------------


def read_perftest(text: str, speed: Speed) -> Seen:
    headers, rows = _HEADER.findall(text), _ROW.findall(text)
    if len(headers) != 1 or len(rows) != 1:
        return Seen(problem="it shows no line of figures, or several")
    if headers[0] != ("Gb/sec", "Gb/sec"):
        return Seen(problem=f"it measured in {short(headers[0][1], 20)}, and was asked for Gb/sec")
    size, iterations, _peak, average = rows[0]
    if int(size) != _SIZE or not int(iterations):
        return Seen(problem=f"it wrote {iterations} messages of {size} bytes, and was asked for {_SIZE}")
    bits = int(size) * int(iterations) * 8.0
    seconds = bits / (float(average) * 1e9) if float(average) else 0.0
    if seconds < _WHOLE * speed.seconds * 0.5:
        return Seen(problem="its figures do not fit each other, or are of too short a time")
    # What it counts is the middle of its time alone: what it wrote in all is the rate over the whole of it.
    return Seen(float(average), max(bits, float(average) * 1e9 * speed.seconds))
