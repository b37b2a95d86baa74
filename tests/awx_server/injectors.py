# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job is given of a credential, as AWX 24.6.1 renders it.

Source: awx/main/models/credential.py (inject_credential): a sandbox of Jinja with its own defaults, so that a template
loses its last line feed; a field that was left empty is none; a private key that says so by its format ends with a line
feed. Files are there before the environment, which names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

Record = Mapping[str, Any]


def environment(kind: Record, inputs: Mapping[str, str], folder: Path) -> dict[str, str]:
    """kind: inputs and injectors of its type. folder: where its files are made; a container has them elsewhere."""
    known: dict[str, Any] = {name: value for name, value in inputs.items() if value}
    for one in kind["inputs"]["fields"]:
        value = known.get(one["id"])
        if one.get("format") == "ssh_private_key" and value and not value.endswith("\n"):
            known[one["id"]] = value + "\n"
    known["tower"] = SimpleNamespace(filename=SimpleNamespace())
    sandbox = ImmutableSandboxedEnvironment()
    for label, template in kind["injectors"].get("file", {}).items():
        made = folder / f"tmp-{label}"
        made.write_text(sandbox.from_string(template).render(**known), encoding="utf-8")
        made.chmod(0o600)
        _single, _dot, name = label.partition(".")
        if name:
            setattr(known["tower"].filename, name, str(made))
        else:
            known["tower"].filename = str(made)
    return {
        name: sandbox.from_string(template).render(**known)
        for name, template in kind["injectors"].get("env", {}).items()
    }
