# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Falsifies a clean kernel log, and what stands beside it: lost lines, null bytes, boots, clocks, records of crashes.

Each case begins with a log that passes, carried by the kernel's ring, the journal or a file, and takes something away
from it or puts a fault into it: then it never passes. So do recorded logs, whatever they say themselves.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import FOLD, tried
from hypothesis import given
from hypothesis import strategies as st

try:
    from recorded import recorded_dir
except ImportError:  # a copy of the unit tests alone
    FOLDER = None
else:
    FOLDER = recorded_dir("gates")

BOOT = "3f0d4c4e0a9e4f7c8f0e2f6f4b1d9a51"
CLEAN = ("Linux version 6.8", "NVRM: loading NVIDIA UNIX driver", "nvidia-nvswitch0: open", "eth0: up", "audit: on")
STEP = 10


class Look:
    """A node whose log and whose surroundings can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.params = made.machine(folder, "")
        self.write("ring", as_ring([CLEAN[-1]], first=len(CLEAN) - 1))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8", newline="")

    def verdict(self, log: str, source: str, **params: Any) -> str:
        self.write("kmsg", log)
        return str(kernel_log_gate({**self.params, "source": source, **params}, Context()).data["verdict"])


@pytest.fixture(name="look")
def _look(tmp_path: Path) -> Look:
    return Look(tmp_path)


def as_ring(texts: Sequence[str], first: int = 0) -> str:
    return "".join(f"6,{at},{at * STEP * 1_000_000},-;{text}\n" for at, text in enumerate(texts, start=first))


def entry(text: Any, at: int, **more: Any) -> dict[str, Any]:
    return {"MESSAGE": text, "_SOURCE_MONOTONIC_TIMESTAMP": str(at * STEP * 1_000_000), "_BOOT_ID": BOOT, **more}


def as_entries(entries: Sequence[Any]) -> str:
    return "".join(json.dumps(one) + "\n" for one in entries)


def as_journal(texts: Sequence[str]) -> str:
    return as_entries([entry(text, at) for at, text in enumerate(texts)])


def as_file(texts: Sequence[str]) -> str:
    return "".join(f"[{at * STEP:5d}.000000] {text}\n" for at, text in enumerate(texts))


CARRIERS: dict[str, tuple[str, Callable[[Sequence[str]], str]]] = {
    "ring": ("kmsg", as_ring), "journal": ("file", as_journal), "file": ("file", as_file),
}  # fmt: skip
carriers = pytest.mark.parametrize(("source", "carried"), CARRIERS.values(), ids=CARRIERS)
Carried = Callable[[Sequence[str]], str]


@carriers
def test_a_clean_log_passes(look: Look, source: str, carried: Carried) -> None:
    """Or none of these tests would ask anything."""
    assert look.verdict(carried(CLEAN), source) == "pass"


# -- lines in which a log says that lines are missing ------------------------------------------------------------------

#: As the kernel, journald and rsyslog write it, and as nobody has yet.
LOST = (
    "nvidia_isr: 12 callbacks suppressed", "__nv_printk: 1 callbacks suppressed", "printk: 12 messages suppressed.",
    "** 37 printk messages dropped **", "** 1 printk messages dropped ** [   12.3] x", "Missed 12 kernel messages",
    "systemd-journald[1]: Missed 1 kernel messages", "imkmsg: 40 messages lost due to rate-limiting",
    "imjournal: 5 messages lost due to rate-limiting (20000 allowed within 600 seconds)",
    "Suppressed 340 messages from kernel.service", "kworker: 3 output lines suppressed due to ratelimiting",
    "nvidia: 7 messages were dropped", "Dropped 3 log records", "nvlink: 9 records lost", "LOST 4 MESSAGES",
    "net_ratelimit: 5 callbacks suppressed nvidia_isr: 1 callbacks suppressed",
)  # fmt: skip


@carriers
def test_a_line_that_tells_of_lost_lines_never_passes(look: Look, source: str, carried: Carried) -> None:
    for at, line in enumerate(LOST):
        texts = [*CLEAN[: 1 + at % 4], line, *CLEAN[1 + at % 4 :]]
        assert look.verdict(carried(texts), source) == "inconclusive", line


# -- null bytes, and lines that were joined ----------------------------------------------------------------------------


@carriers
@pytest.mark.parametrize("nulls", ["\0", "\0" * 512])
def test_null_bytes_never_pass(look: Look, source: str, carried: Carried, nulls: str) -> None:
    for at in range(1, len(CLEAN)):
        for texts in ([*CLEAN[:at], CLEAN[at] + nulls, *CLEAN[at + 1 :]], [*CLEAN[:at], nulls, *CLEAN[at:]]):
            assert look.verdict(carried(texts), source) != "pass", texts


@pytest.mark.parametrize("source", ["kmsg", "file"])
def test_null_bytes_in_place_of_lines_never_pass(look: Look, source: str) -> None:
    for whole, at in itertools.product((as_ring(CLEAN), as_file(CLEAN)), (0, 30, 60, None)):
        spoilt = whole + "\0" * 64 if at is None else whole[:at] + "\0" * 64 + whole[at:]
        assert look.verdict(spoilt, source) != "pass", spoilt


XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, x"
SXID = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30"
JOINTS = ("", " ", "\t", "; ", "\\x0a", ":", "\r", "\x1b[0m")


def test_records_of_a_ring_that_were_joined_never_pass(look: Look) -> None:
    lines = as_ring(CLEAN).splitlines()
    for at, joint in itertools.product(range(len(lines) - 1), JOINTS):
        joined = [*lines[:at], lines[at] + joint + lines[at + 1], *lines[at + 2 :]]
        if at + 2 < len(lines):
            assert look.verdict("\n".join(joined) + "\n", "kmsg") != "pass", joined


@carriers
def test_a_fault_that_was_joined_to_a_clean_line_never_passes(look: Look, source: str, carried: Carried) -> None:
    for fault, joint, at in itertools.product((XID, SXID), JOINTS, (1, 4)):
        for text in (f"{CLEAN[at]}{joint}{fault}", f"{fault}{joint}{CLEAN[at]}"):
            texts = [*CLEAN[:at], text, *CLEAN[at + 1 :]]
            assert look.verdict(carried(texts), source) != "pass", texts


# -- spellings of an error that nobody has seen ------------------------------------------------------------------------

PREFIXES = ("NVRM: ", "nvidia 0000:9b:00.0: ", "nvidia-nvswitch0: ", "[drm] nvidia: ", "GPU 3: ", "NVRM: GPU 3 ")
WORDS = ("Xid", "XID", "xid", "Xids", "Xid error", "Xid-error", "Xid_error", "XidError", "SXid", "SXID", "sxid", "sXid")
MIDDLES = (" ", ": ", "=", "#", " #", "", "_", " (PCI:0000:9b:00): ", "[PCI:0000:9b:00]: ", " {GPU-1}: ", " - ", "\t")
NUMBERS = ("79", "79,", "79.", "20034, Fatal", "149", "999", "9" * 12)


def spelled(parts: tuple[str, str, str, str]) -> str:
    return "".join(parts)


def test_an_error_in_no_known_spelling_never_passes(look: Look) -> None:
    pairs = list(itertools.product(WORDS, MIDDLES))
    # All of them for long; else every fifth, which is another middle with each word.
    spellings = [spelled(("NVRM: ", *pair, "79, x")) for pair in (pairs if FOLD else pairs[::5])]
    spellings += [spelled((prefix, word, ": ", "149")) for prefix in PREFIXES for word in WORDS[:: 1 if FOLD else 4]]
    spellings += [spelled(("", word, middle, "20034")) for word in ("SXid", "sxid", "Xid") for middle in MIDDLES]
    passed = [text for text in spellings if look.verdict(as_ring([*CLEAN, text]), "kmsg") == "pass"]
    assert passed == []


HUGE = (
    "Xid (PCI:0000:9b:00): {}",
    "Xid: {}",
    "SXid (PCI:0000:9b:00.0): {}, Fatal",
    "Xid (PCI:0000:9b:00): 79, Link {}",
)


@carriers
def test_a_number_without_an_end_is_no_traceback(look: Look, source: str, carried: Carried) -> None:
    for form in HUGE:
        for prefix in ("NVRM: ", "nvidia-nvswitch0: "):
            assert look.verdict(carried([*CLEAN, prefix + form.format("9" * 5000)]), source) != "pass"


@pytest.mark.parametrize(
    "head",
    [
        "6,1,{},-;", "6,{},1000,-;", "{},1,1000,-;", "[{}.000000] ", "[    1.{}] ", "[Sun Nov {} 10:00:00 2026] ",
        "Nov {} 10:00:00 node kernel: ", "2026-11-22T10:00:00.{}Z node kernel: ", "<{}>[    1.000000] ",
    ],
)  # fmt: skip
def test_a_head_without_an_end_is_no_traceback_and_hides_no_fault(look: Look, head: str) -> None:
    line = head.format("9" * 5000) + XID
    for source in ("kmsg", "file"):
        assert look.verdict(as_ring(CLEAN) + line + "\n", source) != "pass"
        assert look.verdict(as_file(CLEAN) + line + "\n", source) != "pass"


# -- boots -------------------------------------------------------------------------------------------------------------

OTHER = "0" * 32
OTHERS = (None, "", OTHER, BOOT[:-1], BOOT + "0", BOOT.upper(), f"{BOOT} ", 7, [], {}, True)


def test_an_entry_of_another_boot_never_passes(look: Look) -> None:
    for at, boot in itertools.product((0, 2, 4), OTHERS):
        entries = [entry(text, number) for number, text in enumerate(CLEAN)]
        entries[at]["_BOOT_ID"] = boot
        assert look.verdict(as_entries(entries), "file") != "pass", (at, boot)
        del entries[at]["_BOOT_ID"]
        assert look.verdict(as_entries(entries), "file") != "pass", at


@pytest.mark.parametrize("told", [None, "", "\n", OTHER, BOOT[:-1], "\udc80", BOOT.upper()])
def test_a_journal_passes_in_the_boot_that_the_kernel_tells_alone(look: Look, told: Any) -> None:
    path = look.folder / "boot_id"
    path.unlink()
    if told is not None:
        path.write_text(told, encoding="utf-8", errors="surrogateescape")
    for boot in (BOOT, "", OTHER):
        entries = [entry(text, at, _BOOT_ID=boot) for at, text in enumerate(CLEAN)]
        if str(told).strip() != boot or not boot:
            assert look.verdict(as_entries(entries), "file") != "pass", boot


# -- times -------------------------------------------------------------------------------------------------------------

STAMPS = (
    "-1", "-5000000", "1e3", "nan", "inf", "0x10", " 1", "1_000", "1.5", "9" * 400, "9" * 5000,
    -1, 1.5, True, ["1"], {"a": 1},
)  # fmt: skip


@pytest.mark.parametrize("key", ["_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "__REALTIME_TIMESTAMP"])
def test_a_time_that_is_none_never_passes(look: Look, key: str) -> None:
    for at, stamp in itertools.product((0, 2, 4), STAMPS):
        entries = [entry(text, number) for number, text in enumerate(CLEAN)]
        del entries[at]["_SOURCE_MONOTONIC_TIMESTAMP"]
        entries[at][key] = stamp
        assert look.verdict(as_entries(entries), "file") != "pass", (at, stamp)


@pytest.mark.parametrize(
    "uptime",
    ["", "up", "-1", "-1e9", "nan", "inf", "-inf", "1e400", "1e300", "1e12", "0x10", "0", "-0.5 1.0", "\u0967\u0967"],
)
def test_a_clock_that_jumped_or_is_none_never_passes(look: Look, uptime: str) -> None:
    """The log goes up to 100 s after the boot, in which the node cannot have been by these."""
    texts = [*CLEAN, *["quiet"] * 6]
    assert look.verdict(as_ring(texts), "kmsg") == "pass"
    look.write("uptime", f"{uptime} 1.0\n" if uptime else "\n")
    for source, carried in CARRIERS.values():
        assert look.verdict(carried(texts), source) != "pass", source


SINCE = (
    "-5",
    "-0.1",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "soon",
    "0x10",
    "10s",
    "2999-01-01T00:00:00Z",
    "2026-13-01T00:00:00Z",
)


@pytest.mark.parametrize("since", SINCE)
def test_a_window_that_is_none_never_passes(look: Look, since: str) -> None:
    for source, carried in CARRIERS.values():
        assert look.verdict(carried(CLEAN), source, since=since) != "pass", source


@carriers
def test_a_window_that_was_moved_loses_no_fault(look: Look, source: str, carried: Carried) -> None:
    """The fault is 30 s after the boot, 970 s ago: whoever asks from then on or from before sees it."""
    texts = [*CLEAN[:3], XID, *CLEAN[3:]]
    for ago in ("970", "971", "1000", "4000", "1e9", "1e18", "boot", ""):
        assert look.verdict(carried(texts), source, since=ago) != "pass", ago
    stamp = "%Y-%m-%dT%H:%M:%S"
    for ago in (971, 4000, 3e8):
        naive = time.strftime(stamp, time.gmtime(time.time() - ago))
        for since in (f"{naive}Z", naive, f"{naive}+00:00", naive.replace("T", " ")):
            assert look.verdict(carried(texts), source, since=since) != "pass", since


@carriers
def test_a_log_that_begins_late_or_goes_back_never_passes(look: Look, source: str, carried: Carried) -> None:
    lines = carried(CLEAN).splitlines(keepends=True)
    for at in range(1, len(lines)):
        assert look.verdict("".join(lines[at:]), source) != "pass", "its begin is cut off"
        assert look.verdict("".join([*lines[at:], *lines[:at]]), source) != "pass", "its end stands first"
    assert look.verdict("".join([*lines, lines[0]]), source) != "pass", "another boot follows"


# -- records of crashes ------------------------------------------------------------------------------------------------

#: Below one of the two folders, where pstore has them and where systemd-pstore moves them.
PLACES = ("{}", "7062/{}", "{now}/{}", "{now}/001/{}", "a/b/{}", "a/b/c/{}")
RECORDS = (
    "dmesg-erst-1", "dmesg-erst-7062000000000000001", "dmesg-ramoops-0", "dmesg-efi-{now}01001", "dmesg.txt",
    "dmesg-efi_pstore-{now}01001", "dmesg-nvram-1.enc.z", "dmesg-efi-999999999901001", "dmesg-",
)  # fmt: skip
AGES = (0.0, 500.0, -3600.0, -1e8)


@pytest.mark.parametrize("option", ["pstore_path", "pstore_archive"])
def test_a_record_of_a_crash_never_passes(look: Look, option: str) -> None:
    now = int(time.time())
    for (place, name), age in zip(itertools.product(PLACES, RECORDS), itertools.cycle(AGES)):
        record = Path(look.params[option]) / place.format(name, now=now).format(now=now)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("Oops", encoding="utf-8")
        os.utime(record, (now - age, now - age))
        assert look.verdict(as_ring(CLEAN), "kmsg") == "fail", (record, age)
        record.unlink()
    assert look.verdict(as_ring(CLEAN), "kmsg") == "pass"


def _a_file(path: Path) -> None:
    path.write_text("", encoding="utf-8")


def _a_loop(path: Path) -> None:
    path.symlink_to(path)


def _a_record_that_is_a_loop(path: Path) -> None:
    path.mkdir()
    (path / "dmesg-erst-1").symlink_to(path / "dmesg-erst-1")


@pytest.mark.parametrize("option", ["pstore_path", "pstore_archive"])
@pytest.mark.parametrize("unreadable", [_a_file, _a_loop, _a_record_that_is_a_loop])
def test_records_that_cannot_be_read_never_pass(look: Look, option: str, unreadable: Callable[[Path], None]) -> None:
    place = look.folder / "unreadable"
    unreadable(place)
    assert look.verdict(as_ring(CLEAN), "kmsg", **{option: str(place)}) != "pass"
    assert look.verdict(as_ring(CLEAN), "kmsg", **{option: str(look.folder / "not there")}) == "pass"


# -- all of it, anywhere, over recorded logs ---------------------------------------------------------------------------


def recorded() -> list[tuple[str, ...]]:
    """The lines of recorded logs, as messages."""
    paths = sorted(FOLDER.glob("kmsg/*")) if FOLDER else []
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    return [tuple(line for line in text.splitlines() if line.strip())[:60] for text in texts]


EVIL = st.one_of(
    st.sampled_from(LOST),
    st.sampled_from((XID, SXID)),
    st.tuples(*map(st.sampled_from, (PREFIXES, WORDS, MIDDLES, NUMBERS))).map(spelled),
    st.sampled_from(("\0", "\0" * 64)),
)
Part = st.floats(min_value=0, max_value=1, exclude_max=True)


@tried(30)
@given(
    st.sampled_from([CLEAN, *recorded()]), st.sampled_from(sorted(CARRIERS)),
    st.lists(st.tuples(EVIL, Part), min_size=1, max_size=3), st.sampled_from(["", "before", "behind"]),
)  # fmt: skip
def test_no_log_passes_that_holds_a_fault_or_a_hole(
    tmp_path_factory: pytest.TempPathFactory, texts: Sequence[str], name: str, evils: list[Any], joined: str
) -> None:
    source, carried = CARRIERS[name]
    lines = [CLEAN[0], *texts]
    for evil, part in evils:
        at = 1 + int(part * (len(lines) - 1))
        words = {"before": f"{evil} {lines[at]}", "behind": f"{lines[at]} {evil}"}.get(joined)
        lines[at : at + bool(words)] = [words or evil]
    look = Look(_folder(tmp_path_factory))
    assert look.verdict(carried(lines), source) != "pass", lines


def _folder(factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples: each writes the same files anew."""
    place = factory.getbasetemp() / "fuzzed-logs"
    place.mkdir(exist_ok=True)
    return place
