# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the server answers with, and how it keeps its sessions."""

from __future__ import annotations

import json
from typing import Any, Optional

USER, PASSWORD = "admin", "correct-horse"
#: The system's, as its firmware tells it.
UUID = "5ac00000-0000-4000-8000-000000000001"


class Answer(Exception):
    """Ends a request with this status and body."""

    def __init__(self, status: int, body: Any = None, headers: Optional[dict[str, str]] = None) -> None:
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


def error(status: int, message_id: str, text: str = "") -> Answer:
    info = [{"MessageId": message_id, "Message": text or message_id, "Severity": "Critical"}]
    return Answer(status, {"error": {"code": message_id, "message": text, "@Message.ExtendedInfo": info}})


def in_session(bmc: Any, token: str) -> bool:
    """Whether this session is open; each request uses some of it up."""
    bmc.sessions[token] = bmc.sessions.get(token, 0) - 1
    if bmc.sessions[token] < 0:
        del bmc.sessions[token]
        return False
    return True


def begin_session(bmc: Any, raw: bytes) -> Answer:
    faults = bmc.faults
    bmc.logins += 1
    if json.loads(raw) != {"UserName": USER, "Password": PASSWORD}:
        bmc.failed_logins += 1
        return error(401, "Base.1.8.NoValidSession")
    if len(bmc.sessions) >= faults.get("sessions", 8):
        return error(503, "IDRAC.2.8.RAC0218", "The maximum number of user sessions is reached.")
    token = faults.get("token") or f"token-{bmc.logins}"
    bmc.sessions[token] = faults.get("session_ends", float("inf"))
    if faults.get("drop_login", 0) > 0:
        faults["drop_login"] -= 1
        return Answer(0)
    place = f"{faults.get('known_as', '')}/redfish/v1/SessionService/Sessions/{token}"
    return Answer(201, {}, {"Location": place, **({} if faults.get("no_token") else {"X-Auth-Token": token})})
