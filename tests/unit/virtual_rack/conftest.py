# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's programs are no package; tests load them by their path, and they find each other as where they lie."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
SERVICES = CHECKOUT / "roles" / "virtual_rack" / "files" / "services"


@pytest.fixture(scope="session")
def load_program() -> Iterator[Callable[[str], ModuleType]]:
    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"rack_{name}", SERVICES / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    sys.path.insert(0, str(SERVICES))
    yield load
    sys.path.remove(str(SERVICES))
