# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The token that requests to Kubernetes are sent with, which is renewed under a drain of hours. PRIVATE."""

from __future__ import annotations

import threading

from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.kubernetes.access import Access


class Login:
    """For many threads at once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self.token = access.token()

    def renewed(self, sent: str) -> str:
        """Another token than the one that a refused request was sent with; empty where there is none.

        Another thread may have read it already, so what counts is what was sent, and not what is known by now.
        """
        with self._lock:
            if self.token == sent:
                self.token = self._access.token()
            return "" if self.token == sent else self.token
