# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the ledger knows of a BMC's certificate: fixed when it is seen first, and demanded from then on. PRIVATE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc import names
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._door import VerbAction

OPTION = "bmc_tls_fingerprint"
#: The event, of the kind note, that fixes a certificate; the newest one counts.
FIXED = "bmc_certificate"


class CertifiedAction(VerbAction):
    """A verb on a BMC whose certificate may be fixed in the ledger."""

    #: Whether this verb may fix a certificate: one that only reads, and is meant for the first look at a BMC.
    FIXES: ClassVar[bool] = False

    def prepare(self, params: dict[str, Any]) -> dict[str, Any]:
        self._fixed = self._known() if params.get(OPTION) else ""
        if params.get(OPTION) != names.FIRST:
            return params
        if not self._fixed and not self.FIXES:
            raise ConfigError(
                "the certificate of this BMC is not fixed yet",
                wanted="one that was seen before",
                do="run bmc_info on this host first (the role oob_ready does), or name the certificate's SHA-256 in"
                " gpufleet_bmc_tls_fingerprint",
            )
        return {**params, OPTION: self._fixed or names.FIRST}

    def finish(self, params: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        seen = str(result.get("tls_fingerprint") or "")
        if self.FIXES and params.get(OPTION) and seen and seen != self._fixed:
            data = {"sha256": seen, "address": str(result.get("address") or ""), "before": self._fixed}
            result["events"] = [*(result.get("events") or []), Event("note", FIXED, data).as_dict()]
        return result

    def _known(self) -> str:
        """The certificate that the ledger has for this host; empty where it has none."""
        node = self.node_id(create=False)
        if not node:
            return ""
        found = self.ledger().latest([node], "note", [FIXED]).get(node)
        return str(((found or {}).get("data") or {}).get("sha256") or "")
