# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs pytest, and the files in which something failed once more, alone and unhurried.

    pytest_twice.py REPORT.xml pytest-argument ...

Much here talks to real services, and a machine that is busy elsewhere can make one of them late. A file that passes
when it is alone has no defect of its own, and is named, so that it is looked at; one that fails again fails the run.
The report keeps one result for each test: the last.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

SOME_FAILED = 1
#: More than this is no accident.
MOST_FILES = 6


def bad(case: ElementTree.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def name_of(case: ElementTree.Element) -> tuple[str, str]:
    return case.get("classname", ""), case.get("name", "")


def file_of(case: ElementTree.Element) -> str:
    """A case names its module with dots, and below it perhaps a class."""
    parts = case.get("classname", "").split(".")
    for end in range(len(parts), 0, -1):
        path = Path(*parts[:end]).with_suffix(".py")
        if path.is_file():
            return str(path)
    return ""


def failed_files(report: Path) -> list[str]:
    cases = ElementTree.parse(report).getroot().iter("testcase")
    return sorted({file_of(case) for case in cases if bad(case)})


def merge(report: Path, again: Path) -> None:
    """Take out of the first report what has passed since."""
    later = {name_of(case): bad(case) for case in ElementTree.parse(again).getroot().iter("testcase")}
    tree = ElementTree.parse(report)
    for suite in tree.getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            if later.get(name_of(case)) is False:
                for kind in ("failure", "error"):
                    for element in case.findall(kind):
                        case.remove(element)
        for kind, count in (("failure", "failures"), ("error", "errors")):
            suite.set(count, str(sum(1 for case in suite.iter("testcase") if case.find(kind) is not None)))
    tree.write(report)


def without_workers(arguments: list[str]) -> list[str]:
    """One after another, and only the files that are named after these."""
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in ("-n", "--dist"):
            skip = True
        elif not Path(argument).exists():
            kept.append(argument)
    return kept


def main() -> int:
    report, arguments = Path(sys.argv[1]), sys.argv[2:]
    pytest = [sys.executable, "-m", "pytest"]
    first = subprocess.run([*pytest, f"--junit-xml={report}", *arguments], check=False).returncode
    if first != SOME_FAILED or not report.is_file():
        return first
    files = failed_files(report)
    if not files or not all(files) or len(files) > MOST_FILES:
        return first
    print(f"\nonce more, alone: {' '.join(files)}\n", flush=True)
    again = report.with_suffix(".again.xml")
    second = subprocess.run(
        [*pytest, f"--junit-xml={again}", *without_workers(arguments), *files], check=False
    ).returncode
    if again.is_file():
        merge(report, again)
        again.unlink()
    if second == 0:
        print(f"\npassed only at the second try, when alone: {' '.join(files)}", flush=True)
    return second


if __name__ == "__main__":
    sys.exit(main())
