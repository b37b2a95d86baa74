# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one test leaves in the process decides no other one."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import keep_secret, short


@pytest.mark.parametrize("number", [1, 2])
def test_a_password_of_one_test_is_a_plain_word_in_the_next(number: int) -> None:
    """Of ``number`` each comes second after the other in some order."""
    assert short("held by other") == "held by other", number
    keep_secret("other")
    assert short("held by other") == "held by ********"
