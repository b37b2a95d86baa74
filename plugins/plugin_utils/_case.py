# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes to a maker with a part that failed: one archive, and in it a list of all that it has. PRIVATE.

Each file is named in MANIFEST.json with its digest, and what could not be had is named there as well: whoever reads it
is not to take a hole for a machine that had nothing to say. Secrets are masked in each text before it is added.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import utc

SCHEMA = "gpufleet.evidence/1"
#: What is masked in a structure by the names of its keys is masked in its text as well.
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class Case:
    """Gathers the files of one case. about: what its list says of the whole: ``host``, ``case`` and so on."""

    def __init__(self, about: Mapping[str, Any], at: float) -> None:
        self.about, self.at = dict(about), at
        self.lacks: list[str] = []
        self._files: dict[str, bytes] = {}
        self._tells: dict[str, str] = {}

    def text(self, path: str, text: str, tells: str) -> None:
        """:param tells: for people, what is in it."""
        self._add(path, whole(text).encode("utf-8"), tells)

    def data(self, path: str, value: Any, tells: str) -> None:
        self.text(path, json.dumps(redact(value), indent=2, sort_keys=True, default=str) + "\n", tells)

    def copy(self, path: str, content: bytes, tells: str) -> None:
        """As it is: what a person names to be added, that person has looked at."""
        self._add(path, content, tells)

    def paths(self) -> list[str]:
        return sorted(self._files)

    def lack(self, what: str, why: str) -> None:
        self.lacks.append(whole(f"{what}: {why}"))

    def archive(self) -> tuple[bytes, dict[str, Any]]:
        """It, compressed, and its list. The same content at the same time makes the same archive."""
        rows = [self._row(path) for path in sorted(self._files)]
        told = {"schema": SCHEMA, **self.about, "made": utc(self.at), "lacks": self.lacks, "files": rows}
        self._add("MANIFEST.json", (json.dumps(told, indent=2, sort_keys=True) + "\n").encode(), "this list")
        packed = io.BytesIO()
        root = named(str(self.about.get("name") or "case"))
        with tarfile.open(fileobj=packed, mode="w:xz") as tar:
            for path in sorted(self._files, key=lambda one: (one != "MANIFEST.json", one)):
                about = tarfile.TarInfo(f"{root}/{path}")
                about.size, about.mtime, about.mode = len(self._files[path]), int(self.at), 0o600
                tar.addfile(about, io.BytesIO(self._files[path]))
        return packed.getvalue(), told

    def _add(self, path: str, content: bytes, tells: str) -> None:
        self._files[path], self._tells[path] = content, tells

    def _row(self, path: str) -> dict[str, Any]:
        content = self._files[path]
        digest = hashlib.sha256(content).hexdigest()
        return {"path": path, "bytes": len(content), "sha256": digest, "tells": self._tells[path]}


def named(*parts: str) -> str:
    """A name for a file or a folder out of these, whatever stands in them."""
    return "_".join(filter(None, (_NO_NAME.sub("-", part).strip("-.") for part in parts)))


def summary(about: Mapping[str, Any], files: Sequence[str], lacks: Sequence[str], last: Sequence[str]) -> str:
    """The same for people, who open this first.

    :param last: what became of the node, a line each.
    """
    told = [f"{about['host']}: evidence of the case {about['case'] or '(no number was given)'}", ""]
    told += [f"{name}: {value}" for name, value in about["machine"].items() if value]
    told += ["", "What became of it:", *(f"  {line}" for line in last or ["nothing is recorded"])]
    told += ["", "What is in here:", *(f"  {path}" for path in files)]
    told += ["", "What could not be had:", *(f"  {lack}" for lack in lacks or ["nothing is missing"])]
    return "\n".join(told) + "\n"
