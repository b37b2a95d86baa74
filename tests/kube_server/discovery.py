# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an API server tells of itself, by which kubectl finds where a kind is served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

_VERBS = ["create", "delete", "get", "list", "patch"]


def told(path: str, kinds: Mapping[str, tuple[str, str, bool]], served: Mapping[str, str]) -> Optional[dict[str, Any]]:
    """:param kinds: by plural the kind, its group and version, and whether it is in a namespace."""
    parts = urlsplit(path).path.strip("/").split("/")
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    group = "/".join(parts[1:]) if parts[0] in ("api", "apis") and len(parts) > 1 else ""
    here = {plural: kinds[plural] for plural, its in served.items() if its == group}
    if not here or parts[0] != ("apis" if "/" in group else "api"):
        return None
    rows = [
        {"name": plural, "singularName": "", "namespaced": spaced, "kind": kind, "verbs": _VERBS}
        for plural, (kind, _group, spaced) in here.items()
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": rows}
