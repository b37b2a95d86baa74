# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fixed certificate in its one spelling, and what is said of another one. PRIVATE to the collection."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, TrustError

_DIGITS = re.compile(r"[0-9a-f]{64}")
_CHANGED = (
    "if the BMC was replaced or its certificate renewed on purpose, run bmc_info once with bmc_tls_fingerprint set to"
    " the one that was seen, and correct gpufleet_bmc_tls_fingerprint where the inventory names one; if not, somebody"
    " may stand between you and this BMC"
)


class OtherCertificate(TrustError):
    """The BMC shows another certificate than the fixed one, so it was asked nothing: that says nothing of the node."""

    kind = "certificate"


def fingerprint(given: str, where: str) -> str:
    """SHA-256 of a certificate in the one spelling that is compared; ``first`` and nothing stay as they are.

    :raises ConfigError: for what is none.
    """
    bare = given.strip().lower()
    if bare in ("", names.FIRST):
        return bare
    digits = bare.removeprefix("sha256:").removeprefix("sha256 fingerprint=").replace(":", "")
    if _DIGITS.fullmatch(digits):
        return digits
    raise ConfigError(
        "the fingerprint of the BMC's certificate cannot be used",
        address=where,
        wanted=f"the 64 hexadecimal digits of its SHA-256, or {names.FIRST}",
        seen=given,
        do="correct gpufleet_bmc_tls_fingerprint: openssl x509 -noout -fingerprint -sha256 -in FILE tells it",
    )


def another(where: str, wanted: str, seen: str) -> OtherCertificate:
    """The certificate is not the one that is fixed."""
    return OtherCertificate(
        "the BMC shows another certificate than the one that is fixed",
        address=where,
        wanted=f"SHA-256 {wanted}",
        seen=f"SHA-256 {seen}",
        do=_CHANGED,
    )
