# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task may not say itself, and every kind of name whose value is never written."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.event import ledger_event
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import MASK, redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


@pytest.mark.parametrize("key", ["forced", "evidence", "from", "reason", "remedy"])
def test_t1_what_the_verb_alone_says_is_not_taken_from_a_task(key: str) -> None:
    params = {"state": "enrolled", "data": {key: "anything", "image": "a"}, "known": {}}
    [event] = ledger_event(params, Context()).events
    assert event.data == {"image": "a", "from": "discovered"}


@pytest.mark.parametrize(
    "name",
    [
        *("password", "BMC_PASSWD", "ssh_passphrase", "become_pass", "admin_pwd", "client_secret", "auth_token"),
        *("apikey", "api_key", "private_key", "privatekey", "credentials", "Authorization", "Set-Cookie", "UserSalt"),
        *("SHA256SystemHash", "snmp_community", "chap_user"),
    ],
)
def test_t1_each_name_of_a_secret_is_known(name: str) -> None:
    assert redact({name: "hunter2"}) == {name: MASK}
