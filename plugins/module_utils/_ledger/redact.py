# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes secrets out of what the ledger, results and reports may hold. PRIVATE to the collection."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any, Callable
from urllib.parse import quote, quote_plus, unquote

from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.booted import without_boot_lines
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.echoes import without_echoes
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless

MASK = "********"

#: Names whose values are never written anywhere. BIOS attributes hold password hashes
#: (``SHA256SetupPassword`` on a recorded iDRAC9), environments hold tokens.
_SECRET_NAME = re.compile(
    r"passw|passphrase|_pass$|pwd|secret|token|api_?key|private_?key|credential|authorization|cookie|salt$|hash$"
    r"|community|chap|k_g$|kg_?key|key_file|psk|(?:^|[^a-z]|ipmi|bmc|oob|root|admin|user|login)pw\d*$",
    re.I,
)
#: Names that match the above and are no secrets.
_HARMLESS = frozenset({"hold_token", "token_prefix", "passport_public_keys"})
#: Names whose values tell a thing apart: with a part of them masked, what is held or enrolled is found by nobody.
_IDENTIFIER = re.compile(r"(^hold|hold_token|known_token|provisioner_id|deploy_id|node_ids?|digest|sha256)$")
#: A password may hold what the rules of URLs forbid there, and a user's name an "@", so the login ends at the last "@".
#: But "host:5000/" is a host with its port, and "@sha256:" begins an image's digest. A scheme is looked for where a
#: word begins, whatever with: at each letter of a passport's payload, which is one word, it took seconds. JSON may
#: spell a slash with others before it.
_URL_LOGIN = re.compile(
    r"(?P<scheme>(?<![a-z0-9+.-])[a-z0-9+.-]+:\\{0,4}/\\{0,4}/)"
    r"(?P<user>(?!\[)[^/@\s:]*(?:@(?!\[)[^/@\s:\"'<>,]*)*):(?!\d{1,5}\\{0,4}/)"
    r"(?P<password>[^/@\s]*(?:[/@](?:(?!:\\{0,4}/\\{0,4}/)[^\s\"'<>,])*)?)@(?!sha\d+:)",
    re.I,
)
#: The same where a URL is part of another one.
_QUOTED_LOGIN = re.compile(
    r"(?P<scheme>(?<![a-z0-9+.-])[a-z0-9+.-]+%3a%2f%2f)(?!%5b)(?:(?!%3a|%2f)[^/\s\"'<>,&])*%3a(?!\d{1,5}%2f)"
    r"(?:(?!%3a%2f%2f)[^/\s\"'<>,&])*%40(?!sha\d+%3a)",
    re.I,
)
#: A token in place of a login. Of other schemes it is a user's name.
_URL_TOKEN = re.compile(r"(?P<scheme>https?:\\{0,4}/\\{0,4}/)(?P<token>[^/@\s:?#]+):?@", re.I)
#: What peers echo of a request's headers. Outside of a header, "basic" and "bearer" are words of a sentence as well.
_HTTP_LOGIN = re.compile(
    r"(?P<scheme>(?i:\bauthorization[\"'\s:=]+(?:basic|bearer|token|apikey|negotiate))\s+(?=\S{4})"
    r"|\b(?:Basic|Bearer)\s+(?=[A-Za-z0-9+/=._~-]{8})"
    r"|\b(?i:basic|bearer)\s+(?=[A-Za-z0-9+/=._~-]{8})(?=[a-z+/._~-]*[A-Z0-9=]))[A-Za-z0-9+/=._~-]+"
)
_OAUTH = re.compile(r"(?P<name>\boauth_(?:signature|token|token_secret)[\"']?\s*[=:]\s*[\"']?)[^\"'\s,;&]+", re.I)
#: What a URL's query proves its sender by: presigned URLs of object stores, tokens, keys. Also where the URL is part of
#: another one, of JSON or of a page.
#: (AWS SigV4 and V2, Google Cloud Storage, Azure SAS, Swift temporary URLs, CloudFront, OSS; RFC 6750, section 2.3)
_QUERY = re.compile(
    r"(?P<name>(?:[?&;#]|\\u0026|%3f|%26)"
    r"(?:[\w.~-]*(?:token|secret|signature|credentials?|passw(?:or)?d|passphrase|accesskeyid|session_?id"
    r"|(?:secret|access|auth|shared|private)[._~-]?key|ticket|authorization)"
    r"|(?:[\w.~-]*[._~-])?(?:sig|sign|pass|pwd|pw|auth|jwt|hmac|sas|session)"
    r"|(?P<weak>(?:[\w.~-]*[._~-])?(?:api|asset)?key|(?:auth(?:orization)?_)?code))"
    r"(?:=|%3d))(?:(?:basic|bearer|token|apikey|negotiate)(?:\s|\+|%20)+)?(?P<value>[^&\s\"'<>#\\]+)",
    re.I,
)
#: What peers echo of forms that were sent to them; headers and words are those of echoes.py.
_FORM = re.compile(
    r"(?P<name>(?<![\w.~-])(?!hold_token=|token_prefix=)[\w.~-]{0,40}"
    r"(?:token|secret|passw(?:or)?d|passphrase|rootpw|(?:asset|api|auth|access|license|xcat|secret)[_.-]?key|community"
    r"|(?<![A-Za-z0-9])pw)=)[^&\s\"'<>#\\]+",
    re.I,
)
#: What an initiator of iSCSI logs in with (dracut.cmdline(7): ``iscsi:USER:PASSWORD:USER:PASSWORD@SERVER``).
_ISCSI = re.compile(r"(?P<name>\biscsi:)[^\s\"'<>]*@", re.I)
#: A key of NVMe in-band authentication (NVM Express TCP Transport 1.0: ``DHHC-1:hash:key:``), or of its TLS.
_NVME_KEY = re.compile(r"(?P<name>\b(?:DHHC-1|NVMeTLSkey-1):\d\d:)[A-Za-z0-9+/=_-]+", re.I)
#: What a machine is handed for systemd by its command line or its firmware (systemd.system-credentials(7)).
_CREDENTIAL = re.compile(
    r"(?P<name>\b(?:systemd\.set_credential(?:_binary)?=|io\.systemd\.credential(?:\.binary)?:)[^\s:=\"']*[:=]?)[^\s\"']*"
)
#: Each form with words of which one stands in whatever it finds (most texts hold none, and to look for a word costs
#: little), with the group that stays, and with what stands in place of the rest.
_LEAKS = (
    (_URL_LOGIN, ("@",), "scheme", MASK + "@"),
    (_QUOTED_LOGIN, ("%40",), "scheme", MASK + "@"),
    (_URL_TOKEN, ("@",), "scheme", MASK + "@"),
    (_OAUTH, ("oauth_",), "name", MASK),
    # Before the forms that would mask a part of it, and take the rest for something else.
    (_CREDENTIAL, ("credential",), "name", MASK),
    (_QUERY, ("=", "%3d"), "name", MASK),
    (_FORM, ("=",), "name", MASK),
    (_ISCSI, ("iscsi:",), "name", MASK + "@"),
    (_NVME_KEY, ("dhhc-1:", "nvmetlskey-1:"), "name", MASK),
    (_HTTP_LOGIN, ("basic", "bearer", "authorization"), "scheme", MASK),
)
#: What stands in most texts is none of these words, and one look for all of them is cheaper than one for each.
_LEAKING = re.compile("|".join(sorted({word for _form, words, *_rest in _LEAKS for word in words})))
#: A hold is known again by its token, whatever stands in it: it was masked when it was written, and is one for good.
_TOKENS = frozenset({"hold_token", "known_token"})
#: Shorter words stand in identifiers and sentences by chance.
_SHORTEST = 8
#: What settings say whose names are like a secret's (``PasswordStatus``): no secrets, and words of many other settings.
_SWITCHES = frozenset({"disabled", "unlocked", "notlocked", "required", "not required", "unchanged", "deactivated"})


def redact(value: Any, *, secrets: frozenset[str] = frozenset()) -> Any:
    """A copy of a JSON-like value with secrets masked, by name, by URL form, and wherever a known one occurs."""
    if isinstance(value, dict):
        return {
            harmless(mask(str(key), secrets)): MASK
            if names_a_secret(str(key)) and item not in (None, "", [], {})
            else as_written(str(key), item) or redact(item, secrets=known_there(str(key), item, secrets))
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact(item, secrets=secrets) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return MASK if str(value) in secrets else value
    # Whatever else there is would be written as text in the end.
    return shown(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value), secrets)


def known_there(name: str, value: Any, secrets: frozenset[str]) -> frozenset[str]:
    """The secrets that are looked for under this name: none in what identifies something."""
    return frozenset() if _IDENTIFIER.search(name) and isinstance(value, (str, int)) else secrets


def as_written(name: str, value: Any) -> str:
    """The token of a hold of ours, in which nothing is masked a second time; empty for anything else."""
    ours = name in _TOKENS and isinstance(value, str) and value.startswith("gpufleet:")
    return harmless(value) if ours else ""


@lru_cache(maxsize=2048)
def names_a_secret(name: str) -> bool:
    """Is it the name of a password, a token, a key?"""
    return bool(_SECRET_NAME.search(name)) and name not in _HARMLESS


def shown(text: str, secrets: frozenset[str]) -> str:
    """The text as anybody may see it: :func:`discreet`, and with nothing in it that a terminal would act on."""
    return harmless(discreet(text, secrets))


def discreet(text: str, secrets: frozenset[str]) -> str:
    """The text without logins and signatures in URLs and headers, whose they may be, and without the known secrets."""
    plain = text.lower()
    for form, words, stays, instead in _LEAKS if _LEAKING.search(plain) else ():
        if any(word in plain for word in words):
            text = form.sub(rf"\g<{stays}>{instead}", text)
    return mask(without_echoes(without_boot_lines(text, MASK), MASK), secrets)


#: Options with the URL of a database.
_ADDRESSES = ("ledger_url", "to")


def known_secrets(params: Mapping[str, Any], names: Sequence[str]) -> frozenset[str]:
    """What is secret in a verb's options, of which the named ones are secret as a whole; as peers may repeat it."""
    found = {str(params[name]) for name in names if not _is_address(name, str(params[name]))}
    for name in names:
        if name.endswith("api_key"):  # MAAS sends the parts of its key one by one
            found.update(part for part in str(params[name]).split(":") if len(part) >= _SHORTEST)
        user = params.get(name.replace("password", "username")) if name.endswith("password") else None
        if user:
            found.add(_in_base64(str(user), str(params[name])))
    return passwords_in(params) | found | _named_secret(params)


def _is_address(name: str, url: str) -> bool:
    """Where a ledger lies is secret for its password's sake alone: masked, no error would say which one it is about."""
    return name in _ADDRESSES and "password" not in url.casefold() and not passwords_in({name: url})


def _named_secret(value: Any) -> frozenset[str]:
    """The values under the name of a secret in the mappings of a JSON-like value, at any depth.

    Short ones are left out: under their own name they are masked all the same.
    """
    if isinstance(value, dict):
        found = [
            _texts(item) if names_a_secret(str(name)) else _named_secret(item)
            for name, item in value.items()
            if isinstance(item, (dict, list, tuple)) or not _IDENTIFIER.search(str(name))
        ]
        return frozenset().union(*found)
    return frozenset().union(*map(_named_secret, value)) if isinstance(value, (list, tuple)) else frozenset()


def _texts(value: Any) -> frozenset[str]:
    if isinstance(value, (dict, list, tuple)):
        return frozenset().union(*map(_texts, value.values() if isinstance(value, dict) else value))
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    return frozenset([text]) if len(text) >= _SHORTEST and text.lower() not in _SWITCHES else frozenset()


def passwords_in(value: Any) -> frozenset[str]:
    """The passwords of the URLs in a JSON-like value: the server that they are for may repeat them.

    Short ones are left out: the URL itself is masked by its form.
    """
    if isinstance(value, dict):
        return frozenset().union(*map(passwords_in, value.values()))
    if isinstance(value, (list, tuple)):
        return frozenset().union(*map(passwords_in, value))
    # Unquoted as well: a URL may be part of another one.
    found = _in_url(value) | _in_url(unquote(value)) if isinstance(value, str) else set()
    return frozenset(form for word in found for form in (word, unquote(word)) if len(form) >= _SHORTEST)


def _in_url(text: str) -> set[str]:
    found = {match.group("token") for match in _URL_TOKEN.finditer(text)}
    # A "key" or a "code" may as well be the name of a thing, so it is masked by its form and known nowhere else.
    found |= {match.group("value") for match in _QUERY.finditer(text) if match.group("weak") is None}
    for match in _URL_LOGIN.finditer(text):
        password = match.group("password")
        # Of a path with an "@" in it, the password is what stands before the host.
        words = {password, password.partition("@")[0], password.partition("/")[0].rpartition("@")[0]}
        found |= words | {_in_base64(unquote(match.group("user")), unquote(word)) for word in words if word}
    return found


def _in_base64(user: str, password: str) -> str:
    """As the header has it, whatever the padding."""
    return b64encode(f"{user}:{password}".encode()).decode().rstrip("=")


def mask(text: str, secrets: frozenset[str]) -> str:
    """The text without the known secrets, also as a URL, JSON or Python would spell them."""
    for form in _spellings(secrets):
        text = text.replace(form, MASK)
    return text


@lru_cache(maxsize=8)
def _spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    spelled = {form(secret) for secret in secrets if secret for form in _FORMS}
    spelled |= {_PERCENT.sub(lambda match: match.group().lower(), form) for form in spelled}
    # The longest first: a secret that begins like another one would leave its end behind.
    return tuple(sorted(spelled, key=len, reverse=True))


def _in_json(secret: str) -> str:
    return json.dumps(secret)[1:-1]


def _in_python(secret: str) -> str:
    """As it stands in a record that was made text."""
    return repr(secret)[1:-1]


def _in_html(secret: str) -> str:
    """As some write an apostrophe there; Python's own way is another."""
    return escape(secret).replace("&#x27;", "&#39;")


_PERCENT = re.compile("%[0-9A-F]{2}")
#: How URLs (a whole, a path, a form), JSON, Python and pages spell a text.
_FORMS: tuple[Callable[[str], str], ...] = (
    str,
    quote,
    quote_plus,
    lambda secret: quote(secret, safe=""),
    _in_json,
    lambda secret: _in_json(secret).replace("/", "\\/"),
    _in_python,
    escape,
    lambda secret: escape(secret, quote=False),
    _in_html,
)
