# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which exception of the tree stands for what a service over HTTP does: the same for all of them."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import Refused, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import Peer, cause, said, short

PEER = Peer("Ironic", reach="look at the URL", trust="set the CA", login="check the user")


@pytest.mark.parametrize(
    ("status", "method", "kind"),
    [
        (400, "GET", Refused),
        (404, "POST", Refused),
        (409, "PUT", Refused),
        (500, "GET", Unreachable),
        # Half of it may have been done: to send it again is a person's decision.
        (500, "PUT", Refused),
        (502, "PUT", Unreachable),
        (503, "POST", Unreachable),
        (504, "GET", Unreachable),
    ],
)
def test_a_status_is_an_outage_or_a_refusal(status: int, method: str, kind: type) -> None:
    told = PEER.refusal("http://ironic", method, "/nodes", status, "HTTP x")
    begun = {"begun": "PUT /nodes"} if (status, method) == (500, "PUT") else {}
    assert told.__class__ is kind and told.details == {"status": status, **begun} and told.address == "http://ironic"


def test_a_login_is_refused_once_and_nothing_of_the_answer_is_shown() -> None:
    told = PEER.login_refused("http://ironic")
    assert told.seen == "HTTP 401" and "check the user" in told.do and "not tried again" in told.do


def test_a_broken_connection_says_what_can_be_set() -> None:
    assert PEER.silent("http://ironic", "refused").do == "look at the URL"
    assert PEER.untrusted("http://ironic", "no CA").do == "set the CA"


def test_a_peers_words_are_one_short_line() -> None:
    assert short("a\n  b") == "a b" and len(short("x" * 900)) == 500
    assert said(409, "in\nuse") == "HTTP 409: in use" and said(403, "") == "HTTP 403"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (
            "HTTPConnectionPool(host='maas', port=80): Max retries exceeded with url: /MAAS/?a=b (Caused by"
            " NewConnectionError(\"HTTPConnection(host='maas', port=80): Failed to establish a new connection:"
            ' [Errno 111] Connection refused"))',
            "Failed to establish a new connection: [Errno 111] Connection refused",
        ),
        (
            "HTTPSConnectionPool(host='maas', port=443): Max retries exceeded with url: / (Caused by"
            " SSLError(SSLCertVerificationError(1, '[SSL] certificate verify failed (_ssl.c:1006)')))",
            "SSLError(SSLCertVerificationError(1, '[SSL] certificate verify failed (_ssl.c:1006)'))",
        ),
        ("no route (yet)", "no route (yet)"),
        ("closed by 'maas')", "closed by 'maas')"),
    ],
)
def test_the_cause_of_silence_ends_with_its_last_word(told: str, why: str) -> None:
    """What a library tells before it is cut off, and then also what closes that."""
    assert cause(OSError(told)) == f"OSError: {why}"
