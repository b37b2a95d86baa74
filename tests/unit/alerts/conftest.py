# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source, and a fleet that its ledger has in service."""

from __future__ import annotations

import importlib.util
import socket
from types import ModuleType

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from unit.alerts.listener import EDA, HOSTS


@pytest.fixture
def source() -> ModuleType:
    spec = importlib.util.spec_from_file_location("health_source", EDA / "plugins" / "event_source" / "health.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


@pytest.fixture
def served(ledger: Ledger) -> None:
    ids = [ledger.identify(host, aliases=[("serial", f"SN-{host}")]) for host in HOSTS]
    ledger.append("setup", [(node, Event("state", "admitted", {})) for node in ids])
