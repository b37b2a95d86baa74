# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Jinja filter ``gpufleet.baremetal.rollout_digest``; it is documented beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _image


def rollout_digest(image: Any) -> str:
    return _image.rollout_digest(image) if isinstance(image, Mapping) and image else ""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., str]]:
        return {"rollout_digest": rollout_digest}
