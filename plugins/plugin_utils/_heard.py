# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is all that a person has given to a run with -e heard by somebody? PRIVATE to the collection.

The verb with which a playbook begins asks it, before anything is written: a slip in a name must not become another
machine's swap, nor a reason its first word.
"""

from __future__ import annotations

from ansible.utils.vars import load_extra_vars
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._limit import tell_strangers
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._preflight_settings import demand_heard
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._shipping import Shipping


def heard(action: Shipping) -> None:
    """And whom the limit names that nobody is called is told.

    :raises ConfigError: naming what nobody reads.
    """
    demand_heard(load_extra_vars(action._loader))
    tell_strangers(action._vars)
