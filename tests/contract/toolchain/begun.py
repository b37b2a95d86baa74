# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of the tree in which a driver can be begun, and a gate that was begun and then written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from ansible_collections.gpufleet.baremetal.tests.tree import listing

ROOT = Path(__file__).resolve().parents[3]
UTILS = "plugins/module_utils"


class Copy:
    """With what Python has compiled of it: each program that a test starts would compile hundreds of files else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = listing.files(ROOT)
        compiled = [path for folder in {path.parent for path in files} for path in folder.glob("__pycache__/*.pyc")]
        for path in (*files, *compiled):
            target = root / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)  # when a file was last changed decides whether what was compiled is of it
        space = root / "build" / "collections" / "ansible_collections" / "gpufleet"
        space.mkdir(parents=True)
        (space / "baremetal").symlink_to(root)
        (root / "build" / "venv").symlink_to(ROOT / "build" / "venv")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:{os.defpath}"
        env = {"PYTHONPATH": str(self.root / "build" / "collections"), "PATH": path}
        argv = [sys.executable, *command]
        return subprocess.run(argv, cwd=self.root, env=env, capture_output=True, text=True, timeout=300, check=False)

    def begin(self, port: str, name: str = "acme") -> subprocess.CompletedProcess[str]:
        return self.run("make/new_driver.py", port, name)

    def told(self, port: str, name: str = "acme") -> list[str]:
        return self.run("tests/contract/newcomers.py", port, name).stdout.splitlines()

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.root / file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{file}: {old}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


UNJUDGED = (
    'raise NotImplementedError("require every cell first, then record what was measured, with findings and remedies")'
)
#: What a writer of a gate puts in the place of what raises NotImplementedError.
WRITTEN = {
    'raise NotImplementedError("the tool and its arguments; no option that its version lacks")': (
        'return [str(params["program"])]'
    ),
    'raise NotImplementedError("wanted.section(name, read) for what it reads; return None where it reads none")': (
        "return None"
    ),
    'raise NotImplementedError("the tool\'s version, from what it printed")': 'return "1.0"',
    UNJUDGED: (
        """for number in range(wanted.gpu_count):
        sheet.require("acme", f"GPU {number}", source=wanted.gpu_count_source)
    for line in done.text.splitlines():
        gpu, _mark, word = line.partition(": ")
        if not sheet.wants("acme", gpu):
            sheet.unsettled("acme", gpu, f"nobody asked for {line}")
            continue
        sheet.record(Check("acme", gpu, PASS if word == "good" else FAIL, word))
        if word != "good":
            sheet.find("acme", gpu, f"{gpu} is {word}", "field_diag")"""
    ),
    'raise NotImplementedError("the question: the tests, and each option by which a run looks at more or less")': (
        'return {"tests": ["acme"]}'
    ),
    'raise NotImplementedError("the cells that a pass must have, by params and profile, that are not in it")': (
        """passed = {row["entity"] for row in verdict["checks"] if (row["id"], row["verdict"]) == ("acme", PASS)}
    gone = {f"GPU {number}" for number in range(wanted_of(params["profile"]).gpu_count)} - passed
    return f"required cells are not in it: {', '.join(sorted(gone))}" if gone else \"\""""
    ),
    'raise NotImplementedError("a Line for each cell of a pass, by params and profile, and the names of its tool")': (
        """gpus = range(wanted_of(params["profile"]).gpu_count)
    return Own({("acme", f"GPU {number}"): Line("good", known="good") for number in gpus}, ("acme",))"""
    ),
    "passed import Own\n": "passed import Line, Own\n",
    "wanted import Wanted\n": "wanted import Wanted, wanted_of\n",
    "    Sheet,\n": "    FAIL,\n    PASS,\n    Check,\n    Sheet,\n",
}
CASE = """from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.acme.gate import acme_gate
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from contract.gate.case import Case, Params


def node(folder: Path, gpus: int = 8, word: str = "good", body: str = "", **more: object) -> Params:
    (folder / "said").write_text("".join(f"GPU {at}: {word}\\n" for at in range(gpus)), encoding="utf-8")
    program = made.program(folder / "acme", body or f"cat {folder}/said")
    return {"program": program, "timeout": 2, "profile": made.profile(), "pci_path": made.pci(folder), **more}


def less(**how: object) -> object:
    return lambda folder: node(folder, **how)


CASE = Case(
    "acme_gate",
    acme_gate,
    node,
    {
        "tool missing": (less(program="/nonexistent"), "inconclusive", "not installed"),
        "tool hangs": (less(body="sleep 60"), "inconclusive", "still running after"),
        "tool killed": (less(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (less(body="echo lorem ipsum"), "inconclusive", "lorem"),
        "nothing": (less(body=":"), "inconclusive", "GPU 0"),
        "a bad GPU": (less(word="bad"), "fail", "GPU 0 is bad"),
        "unknown SKU": (less(profile=None), "inconclusive", "profile"),
        "half a profile": (less(profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="program",
    counted=node,
)
"""
GATE, SITE = f"{UTILS}/_gate/acme/gate.py", "tests/contract/gate/site_acme.py"


def written_gate(folder: Path) -> Copy:
    """Written as the guide says, and not a line more."""
    copy = Copy(folder)
    assert copy.begin("gate").returncode == 0
    for old, new in WRITTEN.items():
        copy.edit(GATE, old, new)
    copy.edit(GATE, "UNWRITTEN: ", "")
    (copy.root / SITE).write_text(CASE, encoding="utf-8")
    module = copy.root / "plugins" / "modules" / "acme_gate.py"
    module.write_text(module.read_text(encoding="utf-8").replace("UNWRITTEN: ", ""), encoding="utf-8")
    return copy
