# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``ironic``, with a memory for the hash of a BMC's password: ``python -P ironic_once.py --config-file ...``.

Ironic 39 hashes the password with 600,000 rounds to find its cached session, a third of a second of a processor, for
each thing that it asks of a Redfish BMC (ironic/drivers/modules/redfish/utils.py, SessionCache). On the rack that was
most of what Ironic did. The same password at the same address gives the same hash, so it is computed once.
"""

from __future__ import annotations

import functools
import hashlib
import sys

# Before Ironic is imported, though it looks the name up at each call.
hashlib.pbkdf2_hmac = functools.lru_cache(maxsize=64)(hashlib.pbkdf2_hmac)

from ironic.command.singleprocess import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
