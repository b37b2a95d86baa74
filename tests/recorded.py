# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Outputs recorded from real machines, which are no part of the project and which not every checkout has beside it.

They are where the variable says, or in a folder ``data`` of any folder beside the checkout that holds all kinds. Who
names a folder means it: then what is missing in it is a failure and no skip.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
VARIABLE = "GPUFLEET_RECORDED_DATA"
#: By these a folder is known as one of recorded outputs.
KINDS = ("gates", "maas", "redfish")
#: The reason of each test that is skipped for want of them; tests/suite/skips.py allows it in CI.
ABSENT = "no recorded outputs beside this checkout"


def home() -> Optional[Path]:
    """Where recorded outputs are, if anywhere."""
    told = os.environ.get(VARIABLE)
    if told:
        return Path(told).resolve()
    beside = sorted(CHECKOUT.parent.glob("*/data"))
    return next((folder for folder in beside if all((folder / kind).is_dir() for kind in KINDS)), None)


def recorded_dir(name: str, holds: str = "*") -> Optional[Path]:
    """The folder of recorded outputs called ``name``, or None where it is not to be had: then a test skips.

    :raises FileNotFoundError: where a person named the place, and nothing like ``holds`` is there.
    """
    place = home()
    if place and next((place / name).glob(holds), None):
        return place / name
    if os.environ.get(VARIABLE):
        raise FileNotFoundError(
            f"{VARIABLE} is {place}, and there is no {name}/{holds} in it: name the right one, or none"
        )
    return None


def demanded(name: str, holds: str = "*") -> Path:
    """The same in a test that is nothing without it."""
    found = recorded_dir(name, holds)
    if found is None:
        pytest.skip(ABSENT)
    return found
