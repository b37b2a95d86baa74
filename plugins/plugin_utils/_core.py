# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The oldest ansible-core on which this collection runs. PRIVATE to the collection.

Of an older one ansible-core itself only warns, and then something is missing from it, in words that name no version. So
this is imported before whatever an older one lacks, by inventory plugin and actions.
"""

from __future__ import annotations

import re

from ansible.errors import AnsibleError
from ansible.release import __version__

#: As meta/runtime.yml says it.
LEAST = (2, 19)

if tuple(map(int, re.findall(r"\d+", __version__)[:2])) < LEAST:
    raise AnsibleError(
        f"gpufleet.baremetal needs ansible-core {'.'.join(map(str, LEAST))} or newer, and this is {__version__}:"
        " nothing was done. Install a newer one where this runs (pip install 'ansible-core>=2.19'), or take an"
        " execution environment that has it"
    )
