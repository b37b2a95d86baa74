# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An image server whose certificate is of the site's own authority."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import trustme
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.artifact import expectations, verify_artifact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

DEFAULTS = {name: option.get("default") for name, option in IMAGE_VERIFY.items()}


def test_the_image_itself_names_the_authority_of_its_server(image: Any, web: Any, tmp_path: Path) -> None:
    """All that is read of it, also for what a node must run; no playbook gives anything beside the image."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    web.over_tls(context)
    ca_path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_path))
    declared = image.declared(base=web.url, ca_path=str(ca_path))
    for verify in (verify_artifact, expectations):
        judgement, known = verify({**DEFAULTS, "image": declared}, Context(node="gpu001"))
        assert judgement.as_dict()["verdict"] == "pass" and known["sha256"] == image.sha256
