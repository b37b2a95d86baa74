# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Jinja test ``gpufleet.baremetal.quarantines``; it is documented beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._quarantine import quarantines


def _asked(told: Any) -> bool:
    if not isinstance(told, Mapping):
        raise AnsibleFilterError(
            f"quarantines asks of a result or of a watcher's verdict, not of {type(told).__name__}"
        )
    return quarantines(told)


class TestModule:
    def tests(self) -> dict[str, Callable[[Any], bool]]:
        return {"quarantines": _asked}
