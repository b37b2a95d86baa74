# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of IPMI's system event log, byte for byte; and times as BMCs tell them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import clock
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi import sel_words
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.ipmi.sel_record import parsed
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.told import CRITICAL, OK, UNTOLD, WARNING

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

SEVERITIES = (OK, WARNING, CRITICAL, UNTOLD)


def record(kind: int, sensor: int, event: int, *data: int, seconds: int = 0x6A17C580) -> bytes:
    return b"\x07\x01\x02" + seconds.to_bytes(4, "little") + b"\x20\x00\x04" + bytes([kind, sensor, event, *data])


@pytest.mark.parametrize(
    ("raw", "severity", "message", "code"),
    [
        (record(0x0C, 12, 0x6F, 0xA1, 0xFF, 0xFF), CRITICAL, "Memory #12: uncorrectable ECC", "6fa1ffff"),
        (record(0x0C, 12, 0xEF, 0xA1, 0xFF, 0xFF), OK, "Memory #12: uncorrectable ECC, ended", "6fa1ffff"),
        (
            record(0x01, 48, 0x01, 0x59, 0x5A, 0x55),
            CRITICAL,
            "Temperature #48: above the upper critical threshold (raw reading 0x5a, threshold 0x55)",
            "01595a55",
        ),
        (record(0x04, 3, 0x81, 0x52, 0x05, 0x0A), OK, "Fan #3: below the lower critical threshold (raw reading 0x05,"
         " threshold 0x0a), ended", "0152050a"),
        (record(0x02, 3, 0x01, 0x0E, 0x05, 0x0A), UNTOLD, "Voltage #3: event 0x01, offset 0xe", "010e050a"),
        (record(0x01, 48, 0x01, 0x07, 0x5A, 0x55), WARNING, "Temperature #48: above the upper non-critical threshold",
         "01075a55"),
        (record(0x08, 1, 0x6F, 0x03, 0xFF, 0xFF), CRITICAL, "Power Supply #1: input lost", "6f03ffff"),
        (record(0x09, 1, 0x0B, 0x05, 0xFF, 0xFF), CRITICAL, "Power Unit #1: not redundant, and not enough to go on",
         "0b05ffff"),
        (record(0x0D, 1, 0x07, 0x01, 0xFF, 0xFF), WARNING, "Drive Slot #1: non-critical, from ok", "0701ffff"),
        (record(0x13, 9, 0x6F, 0xA8, 0x02, 0x18), CRITICAL, "Critical Interrupt #9: uncorrectable bus error",
         "6fa80218"),
        (record(0x10, 9, 0x6F, 0x02, 0xFF, 0xFF), OK, "Event Logging #9: log cleared", "6f02ffff"),
        (record(0xC7, 9, 0x7E, 0x02, 0xFF, 0xFF), UNTOLD, "sensor of type 0xc7 #9: event 0x7e, offset 0x2", "7e02ffff"),
        (record(0xC7, 9, 0xEF, 0x01, 0xFF, 0xFF), UNTOLD, "sensor of type 0xc7 #9: event 0x6f, offset 0x1, ended",
         "6f01ffff"),
    ],
)  # fmt: skip
def test_an_event_in_words(raw: bytes, severity: str, message: str, code: str) -> None:
    found = parsed(raw)
    assert (found.severity, found.message, found.code) == (severity, message, code)
    assert (found.id, found.at) == ("263", 0x6A17C580) and found.native["record"] == raw.hex()
    assert found.message.startswith(found.sensor)


def test_an_oem_record_with_a_time_and_one_without() -> None:
    timed = parsed(bytes.fromhex("0100 c1 80c5176a b32a00 010203040506"))
    assert (timed.at, timed.severity) == (0x6A17C580, UNTOLD)
    assert timed.message == "OEM record of the maker 10931, type 0xc1, data 010203040506"
    bare = parsed(bytes.fromhex("0100 e1 80c5176ab32a00010203040506"))
    assert (bare.at, bare.native["at"]) == (None, "")
    assert bare.message == "OEM record, type 0xe1, data 80c5176ab32a00010203040506"


def test_a_record_of_no_known_type() -> None:
    found = parsed(bytes.fromhex("0100 7f 80c5176ab32a00010203040506"))
    assert (found.severity, found.at) == (UNTOLD, None) and "does not know, type 0x7f" in found.message


@pytest.mark.parametrize(
    ("seconds", "at"),
    [
        (0, None),
        (0x17, None),
        (0x20000000, None),
        (0x20000001, 0x20000001),
        (0xFFFFFFFE, 0xFFFFFFFE),
        (0xFFFFFFFF, None),
    ],
)
def test_a_time_of_before_the_clock_was_set_is_none(seconds: int, at: Any) -> None:
    found = parsed(record(0x0C, 12, 0x6F, 0xA1, 0xFF, 0xFF, seconds=seconds))
    assert found.at == at and found.native["at"] == f"0x{seconds:08x}"


@hypothesis.given(raw=st.binary(max_size=24))
def test_any_bytes_are_an_entry(raw: bytes) -> None:
    found = parsed(raw)
    told = found.as_dict()
    assert found.severity in SEVERITIES and found.message.isprintable() and len(found.message) < 200
    assert json.loads(json.dumps(told)) == told
    assert bytes.fromhex(found.native["record"])[: len(raw)] == raw[:16]
    assert found.at is None or clock.NEVER_SET < found.at < clock.NO_TIME


@hypothesis.given(st.binary(min_size=16, max_size=16), st.integers(0, 255))
def test_an_event_that_ended_is_never_worse_than_one_that_began(raw: bytes, kind: int) -> None:
    began, ended = (
        parsed(raw[:2] + b"\x02" + raw[3:12] + bytes([way]) + raw[13:]) for way in (kind & 0x7F, kind | 0x80)
    )
    assert ended.severity == (UNTOLD if began.severity == UNTOLD else OK)


def test_each_row_of_the_tables_is_one_that_a_record_can_name() -> None:
    tables = {**{(kind, "generic"): one for kind, one in sel_words.GENERIC.items()},
              **{(kind, "specific"): one for kind, one in sel_words.SPECIFIC.items()}}  # fmt: skip
    for (kind, _where), table in tables.items():
        assert 0 < kind < 0x80 and set(table) <= set(range(16))
        assert all(severity in SEVERITIES and words and words.isprintable() for words, severity in table.values())
    assert set(sel_words.SPECIFIC) <= set(sel_words.SENSOR_TYPES)


@hypothesis.given(st.text(max_size=70) | st.integers() | st.none() | st.lists(st.integers()))
def test_whatever_is_said_for_a_time_is_one_or_none(said: Any) -> None:
    found = clock.of_iso(said)
    assert found is None or isinstance(found, float)


@hypothesis.given(st.integers(0x20000001, 0xFFFFFFFE), st.integers(-14 * 60, 14 * 60))
def test_a_time_is_the_same_wherever_on_earth_it_is_told(seconds: int, minutes: int) -> None:
    local = clock.iso(seconds + minutes * 60)
    assert local is not None
    east = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
    assert clock.of_iso(local.replace("Z", east)) == seconds
    assert clock.iso(seconds) == clock.iso(clock.of_iso(local.replace("Z", ".250" + east)))
    assert clock.since(str(seconds)) == clock.since(clock.iso(seconds)) == seconds
