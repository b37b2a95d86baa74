# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wherever a text is cut, no piece of a secret stays behind."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _excerpt as excerpt
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import unexpected
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import said
from hypothesis import given
from hypothesis import strategies as st

#: Letters that nothing around them holds; with what the usual spellings change.
SECRETS = st.text(st.sampled_from("QWXYZ/\\\"'é %"), min_size=6, max_size=24).filter(lambda text: text == text.strip())
SPELLINGS: list[Callable[[str], str]] = [
    str,
    lambda secret: quote(secret, safe=""),
    lambda secret: json.dumps(secret)[1:-1],
    lambda secret: repr(secret)[1:-1],
]
AROUND = st.text(st.sampled_from("abcd \n,:"), max_size=40)
WAYS: list[Callable[[str, int], str]] = [excerpt.cut, excerpt.tail, excerpt.short]


def pieces(secret: str) -> set[str]:
    """Four characters in a row that can be of the secret alone."""
    found = {secret[at : at + 4] for at in range(len(secret) - 3)}
    return {piece for piece in found if any(letter in "QWXYZ" for letter in piece)}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpt, "_known", set())


@pytest.mark.parametrize("way", WAYS)
@given(
    secret=SECRETS, spelling=st.sampled_from(SPELLINGS), before=AROUND, after=AROUND,
    length=st.integers(min_value=4, max_value=120),
)  # fmt: skip
def test_whatever_the_cut_no_piece_of_a_secret_shows(
    way: Callable[[str, int], str], secret: str, spelling: Callable[[str], str], before: str, after: str, length: int
) -> None:
    excerpt.keep_secret(secret)
    spelled = spelling(secret)
    shown = way(before + spelled + after, length)
    assert not [piece for piece in pieces(secret) | pieces(spelled) if piece in shown]
    assert len(shown) <= length


@given(length=st.integers(min_value=4, max_value=120), before=AROUND)
def test_a_login_is_known_by_its_form(length: int, before: str) -> None:
    header = b64encode(b"QQQQ:WWWWXXXXZZZZ").decode()
    secret = pieces("QWXYZQWXYZ") | {header[at : at + 4] for at in range(12)}
    for text in (f"{before} https://user:QWXYZQWXYZ@host/", f"{before} Authorization: Basic {header}"):
        shown = excerpt.short(text, length)
        assert not [piece for piece in secret if piece in shown]


@given(length=st.integers(min_value=4, max_value=120))
def test_a_document_is_masked_by_its_names(length: int) -> None:
    assert "QWX" not in excerpt.cut({"power_parameters": {"power_pass": "QWXYZ", "address": "10.0.0.1"}}, length)


@given(before=st.integers(min_value=150, max_value=260))
def test_an_answers_beginning_holds_no_beginning_of_a_secret(before: int) -> None:
    excerpt.keep_secret("QWXYZQWXYZ")
    answer: Any = SimpleNamespace(status_code=500, content=b"a" * before + b"QWXYZQWXYZ" + b"a" * 300, headers={})
    assert "QWXY" not in answers.excerpt(answer) and "QWXY" not in said(500, answer.content.decode())


def test_an_unexpected_error_has_no_end_of_a_secret() -> None:
    excerpt.keep_secret("QWXYZQWXYZ")
    for after in range(3950, 4010):
        told = unexpected(ValueError("QWXYZQWXYZ" + "a" * after)).details["traceback"]
        assert not [piece for piece in pieces("QWXYZQWXYZ") if piece in told]


def test_what_is_too_short_to_be_told_from_a_word_is_left_to_the_end_of_the_task() -> None:
    excerpt.keep_secret("", "abc")
    assert excerpt.cut("abcdefgh", 5) == "abcde"


#: How peers repeat what they were sent; the value stands for a login that nobody told us of.
FORMS = (
    "X-Auth-Token: {}", "x-auth-token:{}", "{{'X-Subject-Token': '{}'}}", '"X-Api-Key": "{}"', "X-Vault-Token={}",
    "api-key: {}", "Set-Cookie: session={}; Path=/", "Cookie: a=1; sid={}", "Authorization: Bearer {}",
    "authorization: basic {}", "Authorization: Token {}", "password={}", "password={}&user=a", "user=a&password={}&b=c",
    "grant=x&client_secret={}", "access_token={}", "j_passwd={}", "POST /login?pwd={}", "oauth_token={}",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@given(
    secret=st.text(st.sampled_from("QWXYZqwxz0123456789-_."), min_size=8, max_size=40),
    before=st.sampled_from(["", "HTTP 401: ", "sent\n", "(", "error at line 3, "]),
    after=st.sampled_from(["", " was refused", "\nDate: x", ")"]),
    length=st.integers(min_value=4, max_value=200),
)
def test_a_login_that_nobody_told_is_known_by_the_form_in_which_peers_repeat_it(
    form: str, secret: str, before: str, after: str, length: int
) -> None:
    """The whole value, whatever is cut off."""
    told = before + form.format(secret) + after
    for shown in (*(way(told, length) for way in WAYS), excerpt.whole(told), redact(told)):
        assert not [secret[at : at + 6] for at in range(len(secret) - 5) if secret[at : at + 6] in shown]


@pytest.mark.parametrize(
    "text",
    [
        "the X-Auth-Token is missing",
        "hold_token=gpufleet:r1:reimage",
        "no password was given: set gpufleet_bmc_password",
        "PasswordStatus=Enabled",
        "a token: see the manual",
        "x-request-id: 0123456789",
        "cookies are off",
    ],
)
def test_a_sentence_about_logins_stays_as_it_is(text: str) -> None:
    assert excerpt.whole(text) == redact(text) == text
