# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutates gate documents and kernel logs: whatever was removed or falsified, a pass holds everything that a pass needs.

What a pass needs is said here a second time, in the plainest way, and not by the code under test. `make fuzz` runs this
for long. What stands beside them is falsified in test_fuzz_falsified.py and test_fuzz_log.py.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.document import read
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.judge import judge
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.tests import wanted_tests
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.wanted import wanted_of
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import Run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.mutated import in_document, tried
from hypothesis import given
from hypothesis import strategies as st

try:
    from recorded import recorded_dir
except ImportError:  # a copy of the unit tests alone
    FOLDER = None
else:
    FOLDER = recorded_dir("gates")

Part = st.floats(min_value=0, max_value=1, exclude_max=True)


# -- DCGM ------------------------------------------------------------------------------------------------------------


def listed3() -> dict[str, Any]:
    return {**made.dcgm3(), "GPU Device IDs": ["2330"] * 8}


def iterations() -> dict[str, Any]:
    whole = made.dcgm4()
    inner = {"DCGM Diagnostic": whole.pop("DCGM Diagnostic")}
    return {"iterations": [inner, inner], **whole, "Overall Result": "Pass"}


def spoilt(word: str, *faults: dict[str, Any]) -> dict[str, Any]:
    document = made.dcgm4()
    made.result_of(document, "memory", 3).update(status=word, warnings=list(faults))
    return document


#: Documents with the status that dcgmi ends with beside them.
OWN: tuple[tuple[str, int], ...] = (
    (made.text(made.dcgm4()), 0),
    (made.text(listed3()), 0),
    (made.text(iterations()), 0),
    (made.text(made.dcgm4(gpus=7)), 0),
    (made.text(spoilt("Skip")), 0),
    (made.text(spoilt("Pass", made.fault("could not allocate", 56, 4))), 0),
    (made.text(spoilt("Skip", made.fault("row remap failed", 80, 6))), 0),
    (made.text(made.failing(made.dcgm4(), "memory", 3, made.fault("faulty", 52))), 205),
    (made.text(made.failing(made.dcgm4(), "memory", 3)), 226),
)
RECORDED: tuple[tuple[str, int], ...] = ()
if FOLDER is not None:
    RECORDED = tuple((path.read_text(encoding="utf-8"), 0) for path in sorted(FOLDER.glob("dcgm-diag/*.json")))


def in_tree(text: str, kind: str, part: float, value: Any) -> str:
    """Change one member of a document."""
    try:
        return made.text(in_document(text, kind, part, value))
    except (ValueError, IndexError, RecursionError):
        return text


def in_text(text: str, kind: str, part: float, other: float, value: Any) -> str:
    low, high = sorted((int(part * len(text)), int(other * len(text))))
    return {
        "cut": text[:low],
        "behead": text[low:],
        "hole": text[:low] + text[high:],
        "stutter": text[:high] + text[low:],
        "double": text + text,
        "inside": f'{{"iterations": [{text}, {text}]}}',
        "inside and cut": f'{{"iterations": [{text}, {text}], "x": {text}}}'[: len(text) + low],
        "before": f"{value}\n{text}",
    }[kind]


IN_TREE = st.tuples(st.sampled_from(["drop", "twice", "wrap", "set"]), Part, st.sampled_from(
    [None, "", "Fail", "Skip", "Not Run", "Warn", 0, 1, True, [], {}, "20b2", "0", 2**31 - 16]
))  # fmt: skip
IN_TEXT = st.tuples(
    st.sampled_from(["cut", "behead", "hole", "stutter", "double", "inside", "inside and cut", "before"]),
    Part,
    Part,
    st.sampled_from(["words", "WARNING: busy", "{", "]", '"status": "Fail"']),
)


def plain(value: Any, key: str) -> list[Any]:
    """All values under this key, anywhere."""
    if not isinstance(value, (dict, list)):
        return []
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [item for name, item in pairs if name == key] + [one for _name, item in pairs for one in plain(item, key)]


def may_pass(text: str) -> bool:
    """Does this prove that eight GPUs of the profile passed pcie and memory, and tell of nothing else?"""
    try:
        document = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return False
    roots = [key for key in ("DCGM Diagnostic", "DCGM GPU Diagnostic") if plain(document, key)]
    if len(roots) != 1 or roots[0] not in document or "iterations" in text or plain(document, "runtime_error"):
        return False
    words = [" ".join(word.split()).lower() if isinstance(word, str) else "" for word in plain(document, "status")]
    if any(word != "pass" for word in words) or any(plain(document, "warnings")):
        return False
    rows = [test for tests in plain(document, "tests") if isinstance(tests, list) for test in tests]
    tests = {str(row["name"]).lower(): row for row in rows if isinstance(row, dict) and "name" in row}
    keys = ("gpu_id", "gpu_ids") if roots[0] == "DCGM GPU Diagnostic" else ("entity_id",)
    for name in ("pcie", "memory") if len(keys) == 1 else ("pcie", "gpu memory"):
        numbers = [str(number) for key in keys for number in plain(tests.get(name, {}), key)]
        if sorted(numbers) != list("01234567"):
            return False
    devices = plain(document, "device_id") or (plain(document, "GPU Device IDs") or [[]])[0]
    return list(devices) == ["2330"] * 8


def passes(output: str, rc: int) -> bool:
    wanted = wanted_of(made.profile())
    seen = read(output)
    tests = wanted_tests(wanted, 2, [], (4, 6, 0) if seen.shape != 3 else (3, 3, 9))
    return judge(seen, Run(("dcgmi",), rc, output.encode(), b"", "exit", 1.0), wanted, tests).verdict == "pass"


def test_v5_the_oracle_knows_a_whole_document_and_so_does_the_gate() -> None:
    assert [passes(*one) for one in OWN] == [True, True] + [False] * 7
    assert [may_pass(text) and not rc for text, rc in OWN] == [True, True] + [False] * 7


#: With which status dcgmi ends beside it: as it did, or otherwise.
END = st.one_of(st.none(), st.none(), st.integers(-64, 255))


@tried(100)
@given(st.sampled_from(OWN + RECORDED), st.lists(IN_TREE, max_size=3), st.lists(IN_TEXT, max_size=2), END)
def test_v5_a_mutated_document_passes_only_where_it_still_proves_everything(
    base: tuple[str, int], tree: list[Any], flat: list[Any], end: Optional[int]
) -> None:
    text, rc = base
    rc = rc if end is None else end
    for kind, part, value in tree:
        text = in_tree(text, kind, part, value)
    for kind, part, other, value in flat:
        text = in_text(text, kind, part, other, value)
    if passes(text, rc):
        assert rc == 0 and may_pass(text), (rc, text)


# -- kernel logs -----------------------------------------------------------------------------------------------------

BOOT = "3f0d4c4e0a9e4f7c8f0e2f6f4b1d9a51"
QUIET = ("NVRM: loading NVIDIA UNIX driver", "nvidia-nvswitch0: open", "eth0: link up", "audit: initialised")
FAULTS = (
    "NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=x, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:9b:00): 31, pid=1 NVRM: Xid (PCI:0000:9b:00): 48, DBE",
    "NVRM: Xid (PCI:0000:9b:00): 45, Ch 1 caused by previous Xid 149",
    "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30",
    "nvidia_isr: 12 callbacks suppressed",
    "Kernel panic - not syncing: Fatal exception",
)
#: What may be changed in a line without a trace: the words by which a fault is one, and its number.
_ESSENTIAL = re.compile(
    r"S?Xid|\d{2,}|callbacks suppressed|Kernel panic - not syncing|fallen off the bus|previous|caused by"
)
_TROUBLE = re.compile(r"xid|fallen off|panic|suppressed", re.I)

Change = st.tuples(
    st.sampled_from(["drop", "cut", "behead", "twice", "swap", "garble", "null", "join", "insert"]), Part, Part,
    st.sampled_from(["", "#", "x", " ", "\\x0a", "{", "%"]),
)  # fmt: skip


def changed(messages: list[Any], kind: str, part: float, other: float, sign: str) -> list[Any]:
    """Change a list of records: pairs of a head and a message."""
    if not messages:
        return messages
    at, to = int(part * len(messages)), int(other * len(messages))
    head, text = messages[at]
    if kind == "drop":
        return messages[:at] + messages[at + 1 :]
    if kind in ("cut", "behead"):
        return messages[:at] if kind == "cut" else messages[at:]
    if kind == "twice":
        return messages[:at] + [messages[at]] + messages[at:]
    made_of = list(messages)
    if kind == "swap":
        made_of[at], made_of[to] = made_of[to], made_of[at]
    elif kind == "null":
        made_of[at] = (head, None)
    elif kind == "join" and isinstance(text, str) and isinstance(messages[to][1], str):
        made_of[at] = (head, f"{text}{sign}{messages[to][1]}")
    elif isinstance(text, str) and text:
        place = int(other * len(text))
        if not any(match.start() <= place <= match.end() for match in _ESSENTIAL.finditer(text)):
            made_of[at] = (head, text[:place] + sign + text[place + (kind == "garble") :])
    return made_of


def as_kmsg(records: list[Any]) -> str:
    return "".join(f"6,{seq},{at * 1_000_000},-;{text}\n" for (seq, at), text in records if text is not None)


def as_journal(records: list[Any]) -> str:
    return "".join(
        json.dumps({"MESSAGE": text, "_SOURCE_MONOTONIC_TIMESTAMP": str(at * 1_000_000), "_BOOT_ID": BOOT}) + "\n"
        for (_seq, at), text in records
    )


Records = st.lists(st.sampled_from((*QUIET, *QUIET, *FAULTS)), min_size=1, max_size=6).map(
    lambda texts: [((at, at * 10), text) for at, text in enumerate(("Linux version 6.8", *texts))]
)


def verdict(kmsg: str, ring: str, source: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        params = made.machine(folder, kmsg)
        (folder / "ring").write_text(ring, encoding="utf-8")
        return str(kernel_log_gate({**params, "source": source}, Context()).data["verdict"])


@tried(100)
@given(Records, st.lists(Change, max_size=3))
def test_v6_a_mutated_ring_passes_only_where_it_is_whole_and_quiet(records: list[Any], changes: list[Any]) -> None:
    for change in changes:
        records = changed(records, *change)
    if verdict(as_kmsg(records), "", "kmsg") == "pass":
        kept = [(seq, text) for (seq, _at), text in records if text is not None]
        assert [seq for seq, _text in kept] == list(range(len(kept))) and kept
        assert not [text for _seq, text in kept if _TROUBLE.search(text)]


@tried(100)
@given(Records, st.lists(Change, max_size=3), st.integers(0, 60))
def test_v6_a_mutated_journal_passes_only_where_it_reaches_the_ring_and_is_quiet(
    records: list[Any], changes: list[Any], begin: int
) -> None:
    ring = f"6,900,{begin * 1_000_000},-;late\n6,901,{(begin + 1) * 1_000_000},-;later\n"
    for change in changes:
        records = changed(records, *change)
    if verdict(as_journal(records), ring, "file") == "pass":
        assert records[0][0][1] == 0 and records[-1][0][1] >= begin
        assert not [text for _head, text in records if text is None or _TROUBLE.search(text)]


@tried(60)
@given(st.integers(0, 8), st.integers(1, 7))
def test_v6_no_record_can_be_taken_out_of_a_ring(at: int, many: int) -> None:
    texts = ("Linux version 6.8", *QUIET, *QUIET)
    records: list[Any] = [((seq, seq), text) for seq, text in enumerate(texts)]
    left = records[:at] + records[at + many :]
    assert verdict(as_kmsg(records), "", "kmsg") == "pass"
    if left != records[: len(left)]:
        assert verdict(as_kmsg(left), "", "kmsg") == "inconclusive"
