# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish answers that nobody should give."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import (
    BadAnswer,
    DeadlineExceeded,
    Unsupported,
)

from .test_redfish import Make, boot, change

ODD = [
    b"", b"null", b"[]", b'"text"', b"42", b"<html>log in</html>", b'{"Members": null}', b"{}", b'{}{"a": 1}',
    b"\xff\xfe", b'{"Members": [null, 1, {}]}', b'{"Actions": null, "Boot": []}', b'{"Systems": null}',
    b'{"error": null}', b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("path", ["/redfish/v1/", "/redfish/v1/Systems", "/redfish/v1/Systems/1"])
@pytest.mark.parametrize("body", ODD, ids=range(len(ODD)))
def test_odd_answers_are_errors_with_an_address(fake: Make, path: str, body: bytes) -> None:
    rig = fake("plain", tls=False)
    rig.bmc.faults["raw"] = {path: body}
    for act in (lambda: change(rig, "on", timeout=0.5), lambda: boot(rig, timeout=0.5)):
        with pytest.raises((BadAnswer, Unsupported, DeadlineExceeded)) as caught:
            act()
        assert caught.value.address.startswith("http://127.0.0.1") or "127.0.0.1" in str(caught.value)
    assert rig.writes() == 0


@pytest.mark.parametrize("action", ['{"target": null}', '{"target": 7}', "{}", '{"target": "http://["}'])
def test_b6_an_action_without_a_place_is_no_traceback(fake: Make, action: str) -> None:
    """The system is chosen first; its next answer has lost the action's target."""
    rig = fake("idrac10", tls=False, power="On")
    rig.bmc.machine.shuts_down = False
    place = "/redfish/v1/Systems/System.Embedded.1"

    def spoil(status: int, headers: dict[str, str], data: bytes) -> tuple[int, dict[str, str], bytes]:
        if rig.bmc.writes:
            doc = f'{{"@odata.id": "{place}", "PowerState": "On", "Actions": {{"#ComputerSystem.Reset": {action}}}}}'
            return status, headers, doc.encode()
        return status, headers, data

    rig.bmc.mangle = spoil
    with pytest.raises((BadAnswer, Unsupported, DeadlineExceeded)):
        change(rig, "graceful", timeout=2.0, graceful_timeout=0.2)
    assert rig.writes() == 1


@pytest.mark.parametrize("location", ["http://[", "", "//", "nonsense"])
def test_b5_a_task_whose_place_is_none_is_decided_by_reading(fake: Make, location: str) -> None:
    rig = fake("plain", tls=False)
    rig.bmc.mangle = lambda status, headers, data: (
        (202, {**headers, "Location": location}, b"") if status == 204 else (status, headers, data)
    )
    assert change(rig, "on")["after"] == {"power": "on"}
