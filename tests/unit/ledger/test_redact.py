# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No secret comes out of redact(), wherever it went in."""

from __future__ import annotations

import html
import json
import time
import urllib.parse
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import (
    MASK,
    known_secrets,
    mask,
    passwords_in,
    redact,
    shown,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import redact_known
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from suite.properties import at_most

# Long enough not to be part of a word by chance; of characters that the mask is not made of.
SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="*"), min_size=6, max_size=20)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def values(secret: str) -> st.SearchStrategy[Any]:
    """JSON-like values with the secret in texts, keys, bytes, and other objects."""
    around = st.builds(lambda before, after: before + secret + after, TEXTS, TEXTS)
    leaf = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        TEXTS,
        around,
        st.just(secret.encode()),
        st.just(ValueError(secret)),
        st.just("https://h/?q=" + quote(secret, safe="")),
        st.just(json.dumps({"echo": secret})),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.one_of(TEXTS, around), inner, max_size=3)
        ),
        max_leaves=8,
    )


@settings(max_examples=at_most(200), deadline=None)
@given(st.data())
def test_no_known_secret_survives(data: st.DataObject) -> None:
    secret = data.draw(SECRETS)
    other = data.draw(st.one_of(SECRETS, st.just(secret + "tail"), st.just(secret[:4])))
    assume(len(other) > 3)
    value = data.draw(values(secret))
    written = json.dumps(redact(value, secrets=frozenset({secret, other})), ensure_ascii=False, default=str)
    assert secret not in written
    assert json.dumps(secret)[1:-1] not in written
    assert quote(secret, safe="") not in written or quote(secret, safe="") == ""


def test_a_secret_that_begins_like_another_leaves_no_end() -> None:
    assert redact("hunter22", secrets=frozenset({"hunter2", "hunter22"})) == MASK


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "BMC_Password",
        "SHA256SetupPassword",
        "SetupPasswordSalt",
        "api_key",
        "X-Auth-Token",
        "passphrase",
        "ipmi_pass",
        "pwd",
        "Set-Cookie",
        "client_secret",
        "snmp_community",
        "ipmipw",
        "root_pw",
    ],
)
@pytest.mark.parametrize("value", ["x", 7, ["x"], {"a": "x"}])
def test_what_is_named_like_a_secret_is_masked(name: str, value: Any) -> None:
    assert redact({"deep": [{name: value}]}) == {"deep": [{name: MASK}]}


@pytest.mark.parametrize("value", [None, "", [], {}])
def test_nothing_is_no_secret(value: Any) -> None:
    assert redact({"password": value}) == {"password": value}


@pytest.mark.parametrize(
    "name", ["pass", "passed", "verdict", "hold_token", "passport", "evidence_digest", "keyid", "ippw"]
)
def test_harmless_names_are_kept(name: str) -> None:
    assert redact({name: "text"}) == {name: "text"}


def test_logins_in_urls_and_headers() -> None:
    sent = "sent Basic cm9vdDpjYWx2aW4= and Bearer abcdefgh.ijk"
    text = redact(f"GET https://root:calvin@bmc.example.com/redfish failed; {sent}")
    assert "calvin" not in text and "cm9vdDpjYWx2aW4" not in text and "abcdefgh" not in text
    assert "bmc.example.com/redfish" in text


def test_what_is_no_json_becomes_text() -> None:
    assert redact({1: Path("/x"), "b": b"bytes", "t": (1, 2.5, True, None)}) == {
        "1": "/x",
        "b": "bytes",
        "t": [1, 2.5, True, None],
    }


def test_a_number_that_is_a_secret() -> None:
    assert redact([1234, 12345], secrets=frozenset({"1234"})) == [MASK, 12345]


def test_t1_a_login_that_a_peer_repeats_is_masked_in_a_result_whosever_it_is() -> None:
    echoed = {"msg": "no: Authorization: Basic YWRtaW46c2VjcmV0LXdvcmQ=", "seen": ["at https://a:b-c@host/x"]}
    assert redact_known(echoed, frozenset()) == {
        "msg": f"no: Authorization: Basic {MASK}",
        "seen": [f"at https://{MASK}@host/x"],
    }


def test_t1_a_password_in_a_url_is_known_in_every_spelling_of_a_peer() -> None:
    image = {"url": "https://reader:p%40ss-word@host/a", "sizes": [1], "more": ["http://host/", "ftp://u:other@h/"]}
    assert {"p%40ss-word", "p@ss-word"} <= passwords_in(image)
    assert redact_known({"msg": "reader:p@ss-word is refused"}, passwords_in(image)) == {
        "msg": f"reader:{MASK} is refused"
    }


@pytest.mark.parametrize(
    ("echoed", "masked"),
    [
        ("authorization: basic cm9vdDpjYWx2aW4=", f"authorization: basic {MASK}"),
        ('{"authorization": "bearer abcdefgh"}', f'{{"authorization": "bearer {MASK}"}}'),
        ("got basic cm9vdDpjYWx2aW4=", f"got basic {MASK}"),
        ("no basic authentication here", "no basic authentication here"),
        ('oauth_token="abc", oauth_signature="%26xyz"', f'oauth_token="{MASK}", oauth_signature="{MASK}"'),
        ('oauth_signature_method="PLAINTEXT"', 'oauth_signature_method="PLAINTEXT"'),
        ("at https://u:p@ss/w@h/x", f"at https://{MASK}@h/x"),
        ("at https://ghp_0123456789@h/x", f"at https://{MASK}@h/x"),
        ("at https://u:pw@h/gpu@sha256:01ab", f"at https://{MASK}@h/gpu@sha256:01ab"),
        ("at oci://h:5000/gpu@sha256:01ab", "at oci://h:5000/gpu@sha256:01ab"),
        ("at http://[::1]:80/a@b and ssh://admin@h", "at http://[::1]:80/a@b and ssh://admin@h"),
        ("at ssh://admin@h:22/a@b", "at ssh://admin@h:22/a@b"),
        ("at ssh://admin@[::1]:22/a@b", "at ssh://admin@[::1]:22/a@b"),
        ('{"a":"ssh://me@h","b":"c@d"}', '{"a":"ssh://me@h","b":"c@d"}'),
        (r"at oci:\/\/h:5000\/gpu@sha256:01ab", r"at oci:\/\/h:5000\/gpu@sha256:01ab"),
        ("to=oci%3A%2F%2Fh%3A5000%2Fgpu%40b", "to=oci%3A%2F%2Fh%3A5000%2Fgpu%40b"),
    ],
)
def test_t1_logins_are_known_by_their_form_and_nothing_else_is(echoed: str, masked: str) -> None:
    assert redact(echoed) == masked
    assert redact_known({"msg": echoed}, frozenset()) == {"msg": masked}


WORD = "S3cretWord9"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me@server:{WORD}@db/ledger",
        f"https://me@corp.example:{WORD}@host/x",
        f"https://a@b@corp.example:{WORD}@host/x",
        f"ssh://me@corp.example:{WORD}@[::1]:22/x",
        f"https:\\/\\/u:{WORD}@host\\/x",
        f"https:\\\\/\\\\/me@corp.example:{WORD}@host\\\\/x",
        f"https:\\/\\/{WORD}@host\\/x",
        f"https%3A%2F%2Fme%40corp.example%3A{WORD}%40host%2Fx",
        f"https://proxy.example/?to=http%3a%2f%2fu%3a{WORD}%40host%2fx",
    ],
)
def test_v2_a_login_is_masked_however_its_user_and_its_slashes_are_spelled(url: str) -> None:
    for text in (url, f"GET {url} failed", json.dumps({"url": url})):
        masked = redact(text)
        assert WORD not in masked and MASK in masked and ("host" in masked or "db/ledger" in masked or "::1" in masked)
    known = passwords_in({"ledger": url})
    assert redact_known({"msg": f"{WORD} is refused by ssh"}, known) == {"msg": f"{MASK} is refused by ssh"}


@pytest.mark.parametrize("before", ["", "Bearer ", "Basic%20", "Token+"])
@pytest.mark.parametrize("name", ["authorization", "x-authorization", "auth"])
def test_v2_the_word_before_a_login_in_a_query_does_not_take_its_place(name: str, before: str) -> None:
    url = f"https://h/x?{name}={before}{WORD}&limit=5"
    assert redact(url) == f"https://h/x?{name}={MASK}&limit=5"
    assert WORD in passwords_in(url)


@pytest.mark.parametrize(
    "text",
    ["a://" + "x@" * 30_000, "a://x@" * 10_000, "a://@" * 12_000, "a:" + "\\" * 60_000, "a:\\/\\/@x" * 8_000,
     "a%3a%2f%2f" * 6_000, "a%3a%2f%2fx%3ay" * 4_000, "a%3a%2f%2f" + "%40" * 20_000, "a://u:" + "x/" * 30_000,
     "?auth=" * 10_000, "?auth=basic " * 5_000, "?auth=basic" + " " * 60_000, "a://u@h:p/" * 6_000],
)  # fmt: skip
def test_v2_a_long_login_costs_no_more_than_its_length(text: str) -> None:
    begun = time.process_time()
    redact(text)
    passwords_in(text)
    assert time.process_time() - begun < 2, "it grows with the square"


def test_a_long_word_costs_no_more_than_its_length() -> None:
    """A passport's payload is one word of many thousand letters; it took seconds a node."""
    word = "eyJ0eXBlIjoi" * 5_000
    begun = time.process_time()
    assert redact({"payload": word}) == {"payload": word}
    assert time.process_time() - begun < 2, "it grows with the square"


@pytest.mark.parametrize("before", ["", "1", "9+", "a.b-", "(", " "])
def test_a_login_is_masked_whatever_the_word_begins_with(before: str) -> None:
    assert "s3cret-word" not in redact(f"{before}https://admin:s3cret-word@host/x")


SIGNED = "https://s3.example.com/images/gpu.raw?"
SIGNATURE = "9f86d081884c7d659a2feaa0"


@pytest.mark.parametrize(
    "query",
    [
        "X-Amz-Date=20261122T000000Z&X-Amz-Signature=SIG",
        "X-Amz-Credential=SIG&X-Amz-Expires=60",
        "X-Amz-Security-Token=SIG",
        "AWSAccessKeyId=SIG&Expires=1",
        "Expires=1&Signature=SIG",
        "X-Goog-Signature=SIG",
        "sv=2024-11-04&sp=r&sig=SIG",
        "temp_url_sig=SIG&temp_url_expires=1",
        "OSSAccessKeyId=SIG",
        "token=SIG",
        "private_token=SIG",
        "access_token=SIG#top",
        "apiKey=SIG",
        "api_key=SIG",
        "key=SIG",
        "user=a&password=SIG",
        "auth=SIG",
        "sessionid=SIG",
        "secretkey=SIG",
        "accessKey=SIG",
        "authkey=SIG",
        "sign=SIG",
        "ticket=SIG",
        "session=SIG",
        "code=SIG&state=7",
        "authorization=Bearer%20SIG",
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        lambda url: f"GET {url} failed",
        lambda url: json.dumps({"url": url.replace("&", "\\u0026")}).replace("\\\\u", "\\u"),
        lambda url: f'<a href="{url.replace("&", "&amp;")}">',
        lambda url: f"Max retries exceeded with url: /{url.partition('://')[2]} (Caused by x)",
        lambda url: f"https://proxy/?to={quote(url, safe='')}",
    ],
    ids=["url", "json", "html", "path", "nested"],
)
def test_s3_what_signs_a_url_is_masked_and_the_rest_is_not(query: str, around: Any) -> None:
    text = around(SIGNED + query.replace("SIG", SIGNATURE))
    said = redact_known({"msg": text, "diff": {"before": [text]}}, frozenset())
    for masked in (said["msg"], said["diff"]["before"][0], redact(text), redact({"asked": [text]})["asked"][0]):
        assert SIGNATURE not in masked and MASK in masked
        assert "gpu.raw" in masked and "s3.example.com" in masked


@pytest.mark.parametrize(
    "url", ["https://h/x?sort=asc&limit=5", "/MAAS/api/2.0/machines/?op=power_parameters&id=abc", "a?design=1&monkey=2",
            "?signed=true&keys=3", "https://h/redfish/v1/$metadata#Token.Token", "uuid=1&oauth_signature_method=x",
            "https://h/x?error_code=404&status.code=7&sessions=3&codec=h&tickets=2"]
)  # fmt: skip
def test_s3_a_query_without_a_secret_stays_as_it_is(url: str) -> None:
    assert redact(url) == url


@pytest.mark.parametrize("text", ["?" + "a-" * 30_000, "?a" * 30_000, "%26key" * 10_000, "&" * 60_000])
def test_s3_a_long_query_costs_no_more_than_its_length(text: str) -> None:
    begun = time.process_time()
    redact(text)
    assert time.process_time() - begun < 2, "it grows with the square"


def test_s3_what_signs_a_url_is_masked_where_a_server_repeats_it_alone() -> None:
    known = passwords_in({"image": {"url": f"{SIGNED}X-Amz-Signature={SIGNATURE}&key=golden-image"}})
    assert redact_known({"msg": f"<SignatureProvided>{SIGNATURE}</SignatureProvided> golden-image"}, known) == {
        "msg": f"<SignatureProvided>{MASK}</SignatureProvided> golden-image"
    }


def test_t1_whole_passwords_and_tokens_are_found_in_urls() -> None:
    assert "p@ssword/w" in passwords_in("https://u:p@ssword/w@h/x")
    assert passwords_in("https://TOKEN-0123@h/x") == {"TOKEN-0123"}
    assert "pass-word" in passwords_in("https://u:pass-word@h/gpu@latest")
    assert passwords_in("ssh://provisioner@h oci://host:5000/gpu@sha256:01ab https://host/a@b") == frozenset()


def test_t1_what_a_header_sends_of_a_secret_is_masked_without_the_header() -> None:
    params = {"bmc_username": "root", "bmc_password": "calvin", "provisioner_api_key": "consumer1:token-of-two:sec:x"}
    known = known_secrets(params, ["bmc_password", "provisioner_api_key"])
    sent = b64encode(b"root:calvin").decode()
    assert "calvin" in known and "sec" not in known
    said = redact_known({"msg": f"bad {sent} of token-of-two, consumer1, sec"}, known)["msg"]
    assert sent.rstrip("=") not in said and said.endswith(f" of {MASK}, {MASK}, sec")


def test_t1_a_short_password_of_a_url_damages_no_identifier() -> None:
    known = passwords_in({"url": "https://mirror:gpu@h/image"})
    result = {"provisioner_id": "gpu001", "hold_token": "gpufleet:run1:x", "msg": "gpu001 is up"}
    assert redact_known(result, known) == redact(result, secrets=known) == result
    assert redact("https://mirror:gpu@h/image", secrets=known) == f"https://{MASK}@h/image"


def test_t1_nothing_is_masked_inside_of_an_identifier() -> None:
    names = ("hold_token", "provisioner_id", "deploy_id", "node_id", "gpufleet_node_id", "evidence_digest", "sha256")
    result = {"deep": [dict.fromkeys(names, "gpufleet1:run1")]}
    known = frozenset({"gpufleet1"})
    assert redact_known(result, known) == redact(result, secrets=known) == result
    assert redact({"name": "gpufleet1:run1"}, secrets=known) == {"name": f"{MASK}:run1"}


def test_a_secret_of_a_drivers_options_is_known_wherever_it_stands() -> None:
    info = {"redfish_password": "hunter2222", "ipmi_hex_kg_key": "00112233445566", "address": "bmc-of-gpu001"}
    params = {
        "driver": {"driver_info": info, "more": [{"k_g": "KGKGKGKGKG", "pin_token": 1234567890}]},
        "known_token": "gpufleet:run1:reimage",
        "attributes": {"PasswordStatus": "Unlocked", "password_short": "short"},
    }
    known = known_secrets(params, [])
    assert known == {"hunter2222", "00112233445566", "KGKGKGKGKG", "1234567890"}
    assert mask("login hunter2222 and k_g 00112233445566 refused by bmc-of-gpu001", known) == (
        f"login {MASK} and k_g {MASK} refused by bmc-of-gpu001"
    )


@pytest.mark.parametrize("name", ["ipmi_k_g", "k_g", "kg_key", "ipmi_hex_kg_key", "kgkey", "ssl_key_file", "wifi_psk"])
def test_the_names_of_keys_are_those_of_secrets(name: str) -> None:
    assert redact({name: "x"}) == {name: MASK}


AWKWARD = "p&ss'w<rd\"/1 x"


@pytest.mark.parametrize(
    "spelled",
    [
        html.escape(AWKWARD),
        html.escape(AWKWARD).replace("&#x27;", "&#39;"),
        html.escape(AWKWARD, quote=False),
        urllib.parse.quote_plus(AWKWARD),
        urllib.parse.quote(AWKWARD),
        urllib.parse.quote(AWKWARD, safe="").replace("%2F", "%2f").replace("%3C", "%3c"),
        json.dumps(AWKWARD)[1:-1].replace("/", "\\/"),
    ],
)
def test_a_known_secret_is_masked_in_each_spelling(spelled: str) -> None:
    assert spelled != AWKWARD and mask(f"a {spelled} b", frozenset([AWKWARD])) == f"a {MASK} b"


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("sqlite:////var/lib/gpufleet/ledger.sqlite", frozenset()),
        ("postgresql+psycopg://gpufleet@db.example.com/gpufleet", frozenset()),
        ("postgresql+psycopg://gpufleet:s3cretword@db.example.com/gpufleet", None),
        ("postgresql+psycopg://db.example.com/gpufleet?user=gpufleet&password=s3cretword", None),
    ],
)
def test_c9_where_a_ledger_lies_is_told_and_its_password_is_not(url: str, secrets: frozenset[str] | None) -> None:
    """Masked as a whole, no error would say which ledger it is about."""
    found = known_secrets({"ledger_url": url}, ["ledger_url"])
    if secrets is not None:
        assert found == secrets
    else:
        assert "s3cretword" not in shown(f"gpu001 ({url}): the ledger does not answer", found)
        assert any("s3cretword" in one for one in found)
