# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one run has verified already, so that an image is hashed once a batch and not once a host.

PRIVATE to the collection. An entry is a file below a folder that this user alone may read, named after the run's
process; another run never looks there. Whoever comes second waits for the first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._away import Away, locked, own_folder
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import canonical


class RunCache:
    """The cache of one run; with an empty name there is none, and everything is done anew.

    :param run: tells this run's main process from every other one, also from later ones of the same job number.
    :param host: for whom it is asked.
    """

    def __init__(self, run: str, host: str = "") -> None:
        #: Without a cache nobody knows of the other hosts, and nobody waits.
        self.away = Away(run, host) if run else None
        self._folder = own_folder(run) if run else None

    def get(self, key: Any, find: Callable[[], Any], *, good: Callable[[Any], bool] = lambda value: True) -> Any:
        """The JSON value under a key, found now if this run has not found it yet. A failure is not remembered.

        :param good: whether what this run has found will do here.
        """
        if self._folder is None:
            return find()
        name = hashlib.sha256(canonical(key)).hexdigest()[:32]
        path = self._folder / f"{name}.json"
        with locked(self._folder / f"{name}.lock"):
            try:
                known = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                known = None
            if known is not None and good(known):
                return known
            value = find()
            private.write(str(path), json.dumps(value))
            return value
