# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one certificate that a BMC may show, where one is fixed, and that it shows one. PRIVATE to the collection.

It is looked at right after the handshake of each connection, before anything is sent on it: another one never gets our
login.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.certificate import another, fingerprint
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import is_here


def demand_tls(url: str) -> None:
    """An address comes from an inventory, a list or a provisioner; that certificates are verified is the site's word.

    :raises ConfigError: where the address would take the login past that, in clear over a network.
    """
    if not url.lower().startswith("https://") and not is_here(url):
        raise ConfigError(
            "certificates of BMCs are verified, and this BMC's address leads past TLS",
            address=url,
            wanted="an address with https://, or without a scheme",
            do="correct gpufleet_bmc_address; where this BMC has no TLS, and its login may go over that network in"
            " clear, set gpufleet_bmc_verify_tls: false for it",
        )


class Pin:
    """What is wanted, and what was seen at the last connection.

    :raises ConfigError: where a certificate is fixed and the address is one at which nobody shows any.
    """

    def __init__(self, given: str, where: str) -> None:
        self.wanted = fingerprint(given, where)
        if self.wanted and not where.startswith("https://"):
            raise ConfigError(
                "a certificate is fixed for this BMC, and its address leads past TLS",
                address=where,
                wanted="an address with https://, or without a scheme",
                do="correct gpufleet_bmc_address; where this BMC has no TLS, take gpufleet_bmc_tls_fingerprint from it",
            )
        self.where = where
        self.seen = ""

    @property
    def vouches(self) -> bool:
        """Whether this stands for the certificate, so that no authority need do so."""
        return bool(self.wanted)

    def check(self, certificate: bytes | None) -> None:
        """:raises TrustError: naming both, where it is not the one."""
        self.seen = hashlib.sha256(certificate or b"").hexdigest()
        if self.wanted in ("", names.FIRST, self.seen):
            return
        raise another(self.where, self.wanted, self.seen)


def checking(connection: Any, pin: Pin) -> Any:
    """The class of urllib3's connections, each of which is checked before it is used."""

    class Checked(connection):  # type: ignore[misc]
        def connect(self) -> None:
            super().connect()
            pin.check(self.sock.getpeercert(binary_form=True))

    return Checked
