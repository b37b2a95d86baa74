# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the gates say of outputs that were recorded somewhere, and whether they would admit what nobody should admit.

    verdicts.py FOLDER [--sku SKU] [--format text|json] [--write]

Each SOURCES.csv in the folder, or one level below it, lists outputs: file, tool, and where known version, level,
exit_status, sku and verdict (the wanted one). The exit status is 1 where a gate would admit what should not be, where a
row cannot be asked (no such file, SKU or level, a misspelt tool), or where Python gave up, and 2 where a list cannot be
read or there is nothing to judge.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import verdicts_page
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless_all
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import inconclusive
from verdicts_gates import GATES
from verdicts_recorded import NotAsked, Recorded

#: How people write a verdict that is a pass; every other word must not be one.
_PASS = "pass"
#: What stands against the gates themselves.
WRONG, BROKEN, GONE, UNASKED = "WRONG ADMISSION", "TRACEBACK", "no such file", "cannot be asked"
_BAD = (WRONG, BROKEN, GONE, UNASKED)
UNJUDGED = "no gate reads it"
_COLUMNS = ("file", "tool")
_READ = (*_COLUMNS, "version", "level", "exit_status", "sku", "verdict")
#: How alike a word must be to one that is read to be taken for a slip of the pen.
_ALIKE = 0.8


def lists(folder: Path) -> list[Path]:
    """The lists of outputs: those that name files and the tools that printed them."""
    found = sorted([*folder.glob("SOURCES.csv"), *folder.glob("*/SOURCES.csv")])
    return [path for path in found if set(_COLUMNS) <= set(_header(path))]


def _header(path: Path) -> Sequence[str]:
    """:raises ConfigError: where it is no text, or a column is one that is read, misspelt: it would not be missed."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except UnicodeDecodeError as exc:
        raise ConfigError("the list is not UTF-8", address=str(path), do="save it as CSV UTF-8") from exc
    for name in header if set(_COLUMNS) & set(header) else ():
        meant = _meant(name, _READ)
        if meant:
            raise ConfigError(f"the column {name} is not known", address=f"{path}:1", do=f"is {meant} meant?")
    return header


def _meant(word: str, known: Iterable[str]) -> str:
    """The known word that this one was to be; empty where it is one, or is like none."""
    if word in known:
        return ""
    plain = {one: one.replace("_", "-").lower() for one in known}
    alike = difflib.get_close_matches(word.replace("_", "-").lower().strip(), list(plain.values()), 1, _ALIKE)
    return next((one for one, spelling in plain.items() if spelling in alike), "")


def rows(path: Path) -> Iterator[dict[str, str]]:
    """What a list says of each file. Several levels or exit statuses of one output are several rows."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            yield {str(key): str(value or "").strip() for key, value in row.items() if key}


def judged(folder: Path, row: Mapping[str, str], sku: str) -> dict[str, Any]:
    """One row with what its gate says; ``status`` is how that stands to what was wanted."""
    report: dict[str, Any] = {key: row.get(key, "") for key in ("file", "tool", "version")}
    report["wanted"] = row.get("verdict", "")
    gate = GATES.get(row["tool"])
    if gate is None:
        meant = _meant(row["tool"], GATES)
        return {**report, **({"status": UNASKED, "text": f"is {meant} meant?"} if meant else {"status": UNJUDGED})}
    path = folder / row["file"]
    if not path.is_file():
        return {**report, "status": GONE}
    try:
        verdict, asked = gate(Recorded(path, row, sku))
    except NotAsked as exc:
        return {**report, "status": UNJUDGED, "text": str(exc)}
    except ConfigError as exc:
        return {**report, "status": UNASKED, "text": str(exc)}
    except FleetError as exc:
        verdict, asked = inconclusive(row["tool"], str(exc), id=exc.kind, remedy="remediate_config"), ""
    except Exception:
        return {**report, "status": BROKEN, "traceback": traceback.format_exc()}
    worst = next(iter(verdict["findings"]), {"id": "", "text": ""})
    got = str(verdict["verdict"])
    return {
        **report,
        "asked": asked,
        "got": got,
        "finding": worst["id"],
        "text": worst["text"],
        "remedy": verdict["remedy"],
        "status": _status(report["wanted"].lower(), got),
    }


#: How words that say more than the three verdicts are met: what has to be mended before the node is good is a failure,
#: and what was not measured, does not apply, or did not run is inconclusive.
RICHER: Mapping[str, str] = {
    "config": "fail",
    **dict.fromkeys(("skip", "indeterminate", "incomplete", "error", "retest", "n/a"), "inconclusive"),
}


def _status(wanted: str, got: str) -> str:
    if got == _PASS:
        return "ok" if wanted in (_PASS, "") else WRONG
    if wanted == _PASS:
        return "not admitted"
    meant = RICHER.get(wanted, wanted)
    return {("fail", "inconclusive"): "told milder", ("inconclusive", "fail"): "told harder"}.get((meant, got), "ok")


# -- for people --------------------------------------------------------------------------------------------------------


def text(report: Mapping[str, Any]) -> str:
    wanted = report["wanted"] or "-"
    lines = [f"{report['file']}: wanted {wanted}, got {report.get('got', '-')}: {report['status']}"]
    if report["status"] in (UNASKED, UNJUDGED) and report.get("text"):
        lines.append(short(report["text"], 160))
    if report.get("finding"):
        lines.append(f"{report['finding']}: {short(report['text'], 160)}. Remedy: {report.get('remedy', '-')}")
    if report.get("asked"):
        lines.append(f"asked: {report['asked']}")
    lines += report.get("traceback", "").splitlines()
    return "\n    ".join(lines)


def _counts(reports: Sequence[Mapping[str, Any]]) -> str:
    words = {"ok": "as wanted", "not admitted": "not admitted though they might be", "told milder": "told milder"}
    words["told harder"] = "told harder"
    words[UNJUDGED] = "that no gate reads"
    told = [f"{sum(one['status'] == status for one in reports)} {said}" for status, said in words.items()]
    return f"{len(reports)} outputs: {', '.join(told)}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make verdicts")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sku", default="", help="the profile for outputs whose list names none")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--write", action="store_true", help="write the table of docs/reference/recorded-outputs.md anew"
    )
    given = parser.parse_args(arguments)
    try:
        found = lists(given.folder)
        reports = [harmless_all(judged(path.parent, row, given.sku)) for path in found for row in rows(path)]
    except ConfigError as exc:
        parser.error(str(exc))
    if not any("got" in one or one["status"] in _BAD for one in reports):
        parser.error(f"nothing that a gate reads is listed in {given.folder}: SOURCES.csv with columns file and tool")
    bad = [one["file"] for one in reports if one["status"] in _BAD]
    if given.write:
        verdicts_page.write(reports, _counts(reports))
    if given.format == "json":
        print(json.dumps({"outputs": reports, "bad": bad}, indent=2))
    else:
        print("\n".join(text(one) for one in reports))
        print(f"\n{_counts(reports)}, {len(bad)} bad{': ' if bad else ''}{', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
