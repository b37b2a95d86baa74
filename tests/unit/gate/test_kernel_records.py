# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records that become lines late are the same lines, and a text that is not all records is none of them."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log import records
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.lines import parse

KERNEL = (
    "6,0,0,-;Linux version 6.8.0",
    "4,1,1500000,-,caller=T1;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus; pid=1",
    "30,2,1500001,c;two\\x0alines of äöü",
    "3,18446744073709551615,99999999999999999999,-;",
)
TEXT = "\n".join(KERNEL)


def test_each_record_is_the_line_that_it_is_alone() -> None:
    found = records.records_of(TEXT + "\n DEVICE=+pci:0000:18:00.0\n", list(KERNEL))
    assert found is not None
    alone = [parse(text, 0.0) for text in KERNEL]
    assert list(found) == alone == found[:]
    assert list(reversed(found)) == alone[::-1] and found[-1] == alone[-1]
    assert (found.numbers, found.times) == ([line.seq for line in alone], [line.mono for line in alone])
    assert list(records.times_of(found)) == list(records.times_of(alone))
    for late, line in zip(records.texts_of(found), records.texts_of(alone)):
        assert late.replace("\\x0a", "\n").endswith(line)


@pytest.mark.parametrize(
    "line",
    [
        *("no record", "6,1,2;no flags", "6,1,-;text", "6,1,2,-", "[  1.000000] text", "6,x,2,-;text"),
        *("6,1,2,-", "12345678901,1,2,-;text", f"6,{'1' * 21},2,-;text", f"6,1,{'1' * 21},-;text"),
    ],
)
@pytest.mark.parametrize("place", [0, 2, len(KERNEL)])
def test_a_text_with_another_line_is_not_taken_for_records(line: str, place: int) -> None:
    texts = [*KERNEL[:place], line, *KERNEL[place:]]
    assert parse(line, 0.0).seq is None
    assert records.records_of("\n".join(texts), texts) is None


def test_a_text_without_lines_is_none() -> None:
    assert records.records_of("", []) is None
