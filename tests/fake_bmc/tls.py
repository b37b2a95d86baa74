# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A certificate authority for one test run, and certificates that it signs."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._ca = trustme.CA()
        self._folder = folder
        self.path = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.path))

    def issue(self, *names: str) -> tuple[Path, Path]:
        """Files of certificate and key for these addresses."""
        made = self._ca.issue_cert(*names)
        stem = names[0].replace(":", "_")
        chain, key = self._folder / f"{stem}.pem", self._folder / f"{stem}.key"
        chain.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(key))
        return chain, key

    def server_context(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(*names))
        return context
