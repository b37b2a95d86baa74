# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The raw outputs behind a verdict, for whoever wants to look. PRIVATE to the collection.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._private import write_kept_apart
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import NODE, Sheet


def save(sheet: Sheet, params: Mapping[str, Any], ctx: Context, content: Callable[[], Mapping[str, Any]]) -> str:
    """Write it where the option ``evidence_path`` says, readable by its owner alone; the path, or an empty string.

    What cannot be kept takes a pass away, and nothing else: a failure stands without its evidence.
    """
    path = str(params.get("evidence_path") or "")
    if not path or ctx.check_mode:
        return ""
    try:
        return _replaced(path, content())
    except ConfigError as exc:
        sheet.unsettled("evidence", NODE, str(exc), "remediate_config")
        return ""


def _replaced(path: str, content: Mapping[str, Any]) -> str:
    """Replace the file in one step, where nobody else could have laid a link.

    :raises ConfigError: where it cannot be written.
    """
    try:
        write_kept_apart(path, json.dumps(content))
    except OSError as exc:
        raise ConfigError(f"the evidence cannot be written: {exc.strerror}", seen=path) from exc
    return path
