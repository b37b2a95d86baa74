# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A secret that nobody told us of is masked by the words around it, and what an operator needs is not."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _excerpt as excerpt
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.certificate import another, fingerprint
from ansible_collections.gpufleet.baremetal.plugins.module_utils._bmc.redfish import answers
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import MASK, redact
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import redact_known
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most


@pytest.fixture(autouse=True)
def _nobody_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests of this process logged in with is no secret here."""
    monkeypatch.setattr(excerpt, "_known", set[str]())


#: In what a value that nobody knows comes back from a peer.
WORDS = (
    "password: {}", "Password : {}", "passwd={}", "passwd = {}", "pwd: {}", "BMC_PASSWORD={}", "--password {}",
    "--password={}", "passphrase:{}", "Password {} is too short", "the password {} was refused", "password is {}",
    "invalid password: {}", "user root, password {}: denied", "password := {}", "PASSWD => {}",
    "private_token: {}", "api key: {}", "client_secret = {}", "token: {}", "credential: {}",
)  # fmt: skip
HEADERS = (
    "Authorization: Basic {}", "authorization: bearer {}", "Authorization: Token {}", "Authorization: {}",
    'Authorization: Digest username="root", realm="x", nonce="1", uri="/", response="{}"',
    "Proxy-Authorization: Digest username=root, response={}",
    "Authorization: AWS4-HMAC-SHA256 Credential=AK/x, SignedHeaders=host, Signature={}",
    'got Digest username="root", response="{}"', "X-Auth-Token: {}", "x-auth-token:{}", "X-Vault-Token={}",
    "PRIVATE-TOKEN: {}", "x-api-key: {}", "api-key: {}", "Cookie: a=1; sid={}", "Set-Cookie: sid={}; Path=/",
    'Set-Cookie: sid="{}"; Path=/', "<Cookie sid={} for host/>",
)  # fmt: skip
DOCUMENTS = (
    '{{"Password": "{}"}}', '{{"UserName":"root","Password":"{}', "{{'passwd': '{}', 'a': 1}}", '"AuthToken" : "{}",',
    'ssword":"{}","UserName":"root"}}', 'd": "{}"}}', 'cret":"{}', "password: '{}'", '"password" : "{} and more',
    "<Password>{}</Password>", '<ns1:password type="x">{}</ns1:password>', '{{"headers": {{"Cookie": "sid={}"}}}}',
    r"{{\"Password\": \"{}\", \"UserName\": \"root\"}}", r"{{\"X-Auth-Token\": \"{}\"}}", r"{{\\\"secret\\\": \\\"{}",
    "The value '{}' for the property 'Password' is bad", "The value {} provided for the property Password is",
    "The value `{}` of parameter #/Accounts/Password", "The property Password was assigned the value '{}' by",
    "Base.1.8.PropertyValueTypeError({}, Password)", "Base.1.8.PropertyValueTypeError({}, #/Accounts/1/Password)",
)  # fmt: skip
FORMS = (*WORDS, *HEADERS, *DOCUMENTS)
#: Letters that nothing around them holds, with at least one digit: as passwords and tokens have.
SECRETS = st.builds(
    lambda head, digit, tail: head + digit + tail,
    st.text(st.sampled_from("QWXYZqwxz"), min_size=4, max_size=12),
    st.sampled_from("0123456789"),
    st.text(st.sampled_from("QWXYZqwxz0123456789-_"), min_size=4, max_size=20),
)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=20, deadline=None)
@given(
    secret=SECRETS,
    before=st.sampled_from(["", "HTTP 401: ", "sent\n", "(", "error at line 3, "]),
    after=st.sampled_from(["", " was refused", "\nDate: x", ")", ".", ", retry"]),
    length=st.integers(min_value=4, max_value=300),
)
def test_v2_a_secret_is_known_by_the_words_around_it(
    form: str, secret: str, before: str, after: str, length: int
) -> None:
    told = ("" if form.startswith(('ssword"', 'd"', 'cret"')) else before) + form.format(secret) + after
    ways = (excerpt.cut, excerpt.tail, excerpt.short)
    shown = [redact(told), redact_known({"msg": told}, frozenset())["msg"], *(way(told, length) for way in ways)]
    for text in shown:
        assert not [at for at in range(len(secret) - 5) if secret[at : at + 6] in text], text
    assert redact(shown[0]) == shown[0], "masked once is masked"


#: A sentence of a peer with a password in it of letters alone.
PLAIN = (
    "password {} refused", "Password {} is too short", "the password {} was rejected by the BMC", "passwd {} denied",
    "password {} for user root is wrong", "bmc_password {} does not match", "passphrase {} incorrect, try again",
    "cannot log in with password {}", "tried using the password {}.", "login with password {}, then without",
)  # fmt: skip
LETTERS = st.text(st.sampled_from("QWXYZqwxzäß"), min_size=3, max_size=40)
#: How such a sentence goes on where it tells of no password.
ORDINARY = (
    *(
        "required",
        "is wrong",
        "was refused",
        "policy is not met",
        "must be changed",
        "expired",
        "authentication failed",
    ),
    *("server refused the connection", "updates are denied", "file was not found", "change rejected", "too short"),
    *("still refused", "hash is unknown", "field is empty", "attempts failed", "login is disabled", "entry was wrong"),
    *("manager does not answer", "prompt did not come", "quality is weak", "not accepted", "rotation failed"),
)


@pytest.mark.parametrize("form", PLAIN)
@settings(max_examples=20, deadline=None)
@given(word=st.one_of(LETTERS, st.sampled_from(["hunter", "calvin", "ADMIN", "changeme", "superuser"])))
def test_a_password_of_letters_alone_is_known_by_how_its_sentence_goes_on(form: str, word: str) -> None:
    shown = redact(form.format(word))
    assert shown == form.format(MASK) == redact(shown)


@settings(max_examples=at_most(200), deadline=None)
@given(
    before=st.sampled_from(["", "the ", "HTTP 401: ", "wrong ", "with ", "using the ", "its old "]),
    name=st.sampled_from(["password", "Password", "passphrase", "gpufleet_bmc_password"]),
    goes_on=st.sampled_from(ORDINARY),
    after=st.sampled_from(["", ".", ", try again", " for user root", "; it was refused"]),
)
def test_a_sentence_about_a_password_that_holds_none_stays(before: str, name: str, goes_on: str, after: str) -> None:
    text = f"{before}{name} {goes_on}{after}"
    assert redact(text) == text


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (r'{"Password": "a\"b\\c d", "UserName": "root"}', f'{{"Password": "{MASK}", "UserName": "root"}}'),
        ('{"Password": 12345678, "Id": 7}', f'{{"Password": {MASK}, "Id": 7}}'),
        (r'"{\"Password\": \"x\\\"y z\", \"Id\": \"7\"}"', rf'"{{\"Password\": \"{MASK}\", \"Id\": \"7\"}}"'),
        ("password: calvin, user: root", f"password: {MASK}, user: root"),
        ("Password 'calvin' is too short", f"Password '{MASK}' is too short"),
        ("passwd='a b' user=c", f"passwd='{MASK}' user=c"),
        ("X-Auth-Token: abc\nDate: x", f"X-Auth-Token: {MASK}\nDate: x"),
        ("<password>a b</password><user>c</user>", f"<password>{MASK}</password><user>c</user>"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END", f"-----BEGIN RSA PRIVATE KEY-----{MASK}-----END"),
    ],
)
def test_v2_what_stands_beside_a_secret_stays(told: str, kept: str) -> None:
    assert redact(told) == kept == excerpt.whole(told)


@pytest.mark.parametrize(
    "text",
    [
        "password expired", "Password: expired", "the password must be changed", "password: required",
        "Password: must be changed first", "wrong password", "password is too short", "password: no such user",
        "set gpufleet_bmc_password: the BMC refuses the login", "the default password is still in use (SWC1908)",
        "no password was given: set gpufleet_bmc_password", "PasswordStatus=Enabled", '"PasswordSet": true',
        '"Password": null', '"password": ""', "check gpufleet_bmc_username and gpufleet_bmc_password",
        "change the password of this BMC user at the BMC", "Base.1.8.PropertyNotWritable(Password)",
        "The property Password is a read only property and cannot be assigned a value.",
        "The value 7 for the property BootSourceOverrideTarget is not in the list", "a token: see the manual",
        "the X-Auth-Token is missing", "hold_token=gpufleet:r1:reimage", '"hold_token": "gpufleet:r1:x"',
        "token: gpufleet:run1:reimage", "private key: /etc/gpufleet/passport-2026.pem", "PWD=/root", "cookies are off",
        "sha256:0123456789abcdef0123456789abcdef", '"keyid": "0123456789abcdef"', "no basic authentication here",
        "Authorization: required", "WWW-Authenticate: Digest realm=x, nonce=1", "Xid 79, pid=7, key: value",
        "read the secret from env:BMC_PASSWORD", "x-request-id: 0123456789", 'Digest of the image "x" is 0123',
    ],
)  # fmt: skip
def test_v2_what_an_operator_needs_stays(text: str) -> None:
    assert redact(text) == text == excerpt.whole(text)


def test_v2_what_was_sent_for_a_password_does_not_stand_beside_its_name() -> None:
    def told(*arguments: Any) -> str:
        item = {"MessageId": "Base.1.8.PropertyValueTypeError", "MessageArgs": list(arguments)}
        body = json.dumps({"error": {"@Message.ExtendedInfo": [item]}}).encode()
        refused = answers.refusal(SimpleNamespace(status_code=400, content=body, headers={}), "PATCH", "https://bmc")
        assert refused is not None
        return str(refused) + json.dumps(refused.as_result())

    assert "calvin" not in told("calvin", "Password") and "Password" in told("calvin", "Password")
    assert "7 of 9" in told("7 of 9", "BootSourceOverrideTarget")


def test_v2_a_fixed_certificate_is_told_whole_and_a_login_in_its_place_is_not() -> None:
    digits = "0123456789abcdef" * 4
    problem = another("https://root:calvin@bmc/x", digits, digits[::-1])
    told = redact_known(problem.as_result(), frozenset())
    assert digits in str(told) and digits[::-1] in str(told) and "calvin" not in str(told)
    with pytest.raises(ConfigError) as refused:
        fingerprint("https://root:calvin@bmc/x password: hunter2", "bmc")
    assert "calvin" not in str(redact_known(refused.value.as_result(), frozenset()))
    assert "hunter2" not in str(redact_known(refused.value.as_result(), frozenset()))


LONG = (
    "password ", "password:", "password: ", "password=.", "token=", "token: a", "token:a1", 'token": "', "\\", 'd":"\\',
    "authorization:", "authorization: a ", "authorization: a b=", "digest username=", "x-a-token", "x-a-token: ", "a-",
    "cookie", "cookie:", 'cookie": "', "value ", "value x for the property ", "value of the property a.", "property ",
    "property password value ", ".abc(", ".abc(password, ", "<password ", "<password>", "<a:", "secret \t", "pwd  ",
    "-----BEGIN ", "password'\\", "password\"'", "ABC password", "key-",
)  # fmt: skip


@pytest.mark.parametrize("piece", LONG)
def test_v2_a_long_text_costs_no_more_than_its_length(piece: str) -> None:
    for text in (piece * (60_000 // len(piece)), "key " + piece + " " * 60_000, "key " + piece + "." * 60_000):
        begun = time.process_time()
        redact(text)
        assert time.process_time() - begun < 2, "it grows with the square"
