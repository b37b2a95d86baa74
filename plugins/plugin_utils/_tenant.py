# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose node is it? What is a tenant's is touched only by a run that names the tenant. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, NotOurs
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.report import FOR_TENANT, for_tenant

#: Who owns a node.
TENANT = "gpufleet_tenant"
Variable = Callable[[str, str], Any]


def owner(variable: Variable, host: str) -> str:
    """The tenant whose node this is; empty for nobody's.

    :raises ConfigError: as :func:`stranger`.
    """
    return _named(variable, TENANT, host)


def stranger(variable: Variable, host: str) -> str:
    """The tenant whose node this is and whom the run does not name; empty where nobody's leave is needed.

    :raises ConfigError: where a variable cannot be read, or is no text.
    """
    tenant = _named(variable, TENANT, host)
    return "" if not tenant or _named(variable, FOR_TENANT, host) == tenant else tenant


def _named(variable: Variable, name: str, host: str) -> str:
    """YAML reads some names as something else, and as false some of these: such a node would be nobody's."""
    said = variable(name, host)
    if said is not None and not isinstance(said, str):
        raise ConfigError(
            f"{name} is no text",
            node=host,
            wanted="the tenant's name, or an empty text for nobody",
            seen=f"{said!r}",
            do=f'quote it ({name}: "{said}"), on the command line as -e \'{{"{name}": "NAME"}}\'',
        )
    return (said or "").strip()


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
