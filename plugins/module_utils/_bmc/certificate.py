# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a certificate that is not the one that is fixed, whoever finds it out. PRIVATE to the collection."""

from __future__ import annotations

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import TrustError

_CHANGED = (
    "if the BMC was replaced or its certificate renewed on purpose, run bmc_info once with bmc_tls_fingerprint set to"
    " the one that was seen, and correct gpufleet_bmc_tls_fingerprint where the inventory names one; if not, somebody"
    " may stand between you and this BMC"
)


def another(where: str, wanted: str, seen: str) -> TrustError:
    """The certificate is not the one that is fixed."""
    return TrustError(
        "the BMC shows another certificate than the one that is fixed",
        address=where,
        wanted=f"SHA-256 {wanted}",
        seen=f"SHA-256 {seen}",
        do=_CHANGED,
    )
