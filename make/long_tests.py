# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes down which tests take too long for make test-fast, as the last make test has measured them: make long-tests

    long_tests.py LIST REPORT...

A report is pytest's, as JUnit XML. What took longer than LIMIT at the mean of its parameters is long; of a test that no
report has, and that is there, what the list said of it stays.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

#: Seconds, its fixtures included.
LIMIT = 0.15


def measured(reports: Iterable[Path]) -> dict[str, float]:
    """By test, the mean seconds of its runs."""
    found = defaultdict(list)
    for report in reports:
        for case in ET.parse(report).getroot().iter("testcase"):
            module = str(case.get("classname")).replace(".", "/")
            name = str(case.get("name")).partition("[")[0]
            found[f"{module}.py::{name}"].append(float(case.get("time") or 0.0))
    return {test: sum(times) / len(times) for test, times in found.items()}


def listed(text: str, times: dict[str, float]) -> list[str]:
    """What is to stand in the list. :param text: what stands in it now."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    unmeasured = [line for line in lines if line not in times and _is_there(line)]
    return sorted({*unmeasured, *(test for test, seconds in times.items() if seconds > LIMIT)})


def _is_there(test: str) -> bool:
    path, _colons, name = test.partition("::")
    return Path(path).is_file() and f"def {name}(" in Path(path).read_text(encoding="utf-8")


def main(argv: Sequence[str]) -> int:
    path, reports = Path(argv[0]), [Path(one) for one in argv[1:] if Path(one).is_file()]
    if not reports:
        sys.exit("no report of a test run in build/junit: run make test first")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    head = [line for line in text.splitlines() if line.startswith("#")]
    tests = listed(text, measured(reports))
    path.write_text("\n".join([*head, *tests, ""]), encoding="utf-8")
    print(f"{path}: {len(tests)} tests are left out of make test-fast")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
