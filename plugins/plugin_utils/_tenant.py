# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose node is it? What is a tenant's is touched only by a run that names the tenant. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import FOR_TENANT, for_tenant

#: Who owns a node.
TENANT = "gpufleet_tenant"
Variable = Callable[[str, str], Any]


def stranger(variable: Variable, host: str) -> str:
    """The tenant whose node this is and whom the run does not name; empty where nobody's leave is needed.

    :raises ConfigError: where a variable cannot be read.
    """
    tenant = str(variable(TENANT, host) or "").strip()
    return "" if not tenant or str(variable(FOR_TENANT, host) or "").strip() == tenant else tenant


def refuse(variable: Variable, host: str) -> None:
    """:raises NotOurs: where it is such a tenant's."""
    tenant = stranger(variable, host)
    if tenant:
        raise NotOurs(
            "this node is a tenant's, and the run does not name them",
            node=host,
            wanted=f"{FOR_TENANT} {tenant}",
            seen=f"{TENANT} {tenant}, {FOR_TENANT} {variable(FOR_TENANT, host) or 'not set'}",
            do=f"leave it alone, or where the tenant knows of it say {for_tenant(tenant)}",
        )
