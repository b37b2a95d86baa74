# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in the words of a peer, that nobody told us of: by the words around them. PRIVATE to the collection.

What stands behind ``password:`` is one, unless it is the next word of a sentence ("password: expired"); where no mark
divides the two ("the password S3cret9 is too short"), what no sentence has, and a plain word only where the sentence
goes on as one about a value does ("password hunter refused"). Documents count as text, also those that a peer cut off
in the middle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

#: How the name of a password ends; beside it, names of which much else is said.
_PASSWORD = r"(?:passw(?:or)?d|passphrase|passcode|pwd(?![ \t]{0,8}[:=][ \t]{0,8}/))"
_OTHER = r"(?:token|secret|api[ _-]?key|private[ _-]?key|access[ _-]?key|credentials?|k_g|psk)"
#: Names that end so, and are none of a secret.
_NONE = r"(?!hold_token|known_token|token_prefix)"
_BEGIN = rf"(?<![\w.~-]){_NONE}[\w.~-]{{0,40}}"
_SOME, _ANY = r"[ \t]{1,8}", r"[ \t]{0,8}"
#: What a name and its value have between them, in whatever document, once more quoted or not.
_CLOSE, _SIGN = r"\\{0,7}[\"'`]", rf"{_ANY}(?::=|=>|==|[:=]){_ANY}"
#: In a document.
_COLON = rf"{_ANY}:{_ANY}"
#: From an opening quotation mark to the one that closes it, or to the end of the line. Of a text within a text the
#: marks have backslashes, and those within it have more.
_OPEN = r"(?P<slashes>\\{0,7})(?P<mark>[\"'`])"
_QUOTED = r"(?:(?!(?P=mark))[^\\\r\n]|(?!(?P=slashes)(?P=mark))\\+(?P=mark)?)+"
#: A word without the punctuation behind it.
_WORD = r"(?!\{|\\+[\"'`])[^\s\"'`<>&]*[^\s\"'`<>&.,;:)\]}]"
#: With what a sentence goes on behind such a name.
_SENTENCE = (
    r"(?:a|access|account|accepted|again|already|an|and|any|are|at|authentication|authorization|bad|be|been|but|by|can"
    r"|cannot|change[ds]?|changing|characters?|check|contains?|correct|could|denied|did|disabled|do|does|empty|enabled"
    r"|error|expire[ds]?|expiry|expiring|fail(?:ed|s|ure)?|false|field|for|from|give|given|had|has|have|hidden|if|in"
    r"|incorrect|invalid|is|it|its|length|locked|login|masked|match(?:es|ed)?|may|maximum|minimum|mismatch(?:ed)?"
    r"|missing|must|never|no|none|not|null|of|ok|on|only|or|policy|refused|reject(?:ed|s)?|require[ds]?|reset|see|set"
    r"|should|short|that|the|this|to|too|true|unchanged|unknown|unlocked|unset|use[ds]?|user(?:name)?|valid|was|weak"
    r"|were|will|with|without|would|wrong|yes|your)"
)
#: Of what else passwords are told of: "password server refused" is no password.
_ABOUT = (
    r"(?:ag(?:e|ing)|also|answer|apparently|attempt|attribute|auth|backend|based|because|before|after|cache|callback"
    r"|client|complexity|configuration|confirmation|credential|currently|data|database|dialog|encryption|entry|exchange"
    r"|expiration|feature|file|format|generat(?:or|ion)|grant|hash(?:es|ing)?|helper|history|host|input|just|key|line"
    r"|list|lock(?:out)?|log(?:in|on)s?|manager|management|mechanism|method|module|name|now|option|page|parameter|plug-?in"
    r"|prompt|propert(?:y|ies)|protect(?:ed|ion)|provider|quality|recovery|request|requirement|rotation|rule|scheme"
    r"|screen|server|service|session|setting|since|still|storage|store|strength|string|support|sync|synchroni[sz]ation"
    r"|than|then|there|they|type|until|updat(?:e|ed|es|ing)|validat(?:ion|or)|value|vault|verif(?:y|ication|ier)|version"
    r"|we|when|where|which|while|who|written|you)s?"
)
#: How a sentence goes on behind a value.
_TOLD_OF = (
    r"(?:(?:is|was|has|had|does|did|will|would|can|could|cannot|must|may|for|too|not|and|but)\b"
    r"|(?:refused|rejected|denied|invalid|incorrect|wrong|fail(?:s|ed)|expired|mismatch(?:ed)?|unknown|(?:un)?accepted"
    r"|contains?|matche[sd]|lacks?|weak|short|unchanged|given|sent|set|used|tried)\b)"
)
_NO_SENTENCE = rf"(?!{_SENTENCE}(?![\w@$!#%^&+?*~-]))"
#: Quoted, only a word of them alone.
_NO_WORD = rf"(?!{_SENTENCE}(?P=slashes)(?P=mark))"
#: What no sentence has: letters and digits or signs in one word.
_MADE = r"(?=[^\s\"'`<>]{0,99}[A-Za-z])(?=[^\s\"'`<>]{0,99}[\d!#$%^&+?~])[^\s\"'`<>&]{3,}[^\s\"'`<>&.,;:)\]}]"
_TOKEN = r"(?!gpufleet:|[/.~])(?=[^\s\"'`<>,;]{0,99}\d)(?=[^\s\"'`<>,;]{0,99}[A-Za-z])[A-Za-z0-9+/=._~-]{8,}"
#: How Redfish names what a message is about, and the name itself.
_OF_PROPERTY = rf"(?:the{_SOME})?(?:property|parameter|attribute){_SOME}[\"'`]?"
_PROPERTY = rf"[\w/#.-]{{0,60}}{_PASSWORD}\b"
#: What proves a sender in more than one word: NAME=VALUE, and so on.
_PARTS = r"(?:[\w-]{1,40}\\{0,7}=(?:\\{0,7}\"[^\"\r\n]*\"?|'[^'\r\n]*'?|[^\s,\"']+)(?:[ \t]*,[ \t]*|[ \t]+)?)+"
_AUTHORIZATION = rf"\bauthorization(?:{_CLOSE})?{_ANY}[:=]{_ANY}(?:{_CLOSE})?"
_HEADER = r"(?:[\w-]{1,40}-(?:token|secret|password)|x-(?:[\w-]{0,40}-)?(?:key|signature)|api-key)"
_COOKIE = r"(?<![\w-])(?:set-)?cookie2?"
#: Without one of these words none of the forms is there: most texts are left after a look for them.
_KEYS = tuple(f"{whose}{mark}key" for whose in ("api", "private", "access") for mark in ("", " ", "_", "-"))
_WORDS = (
    *("passw", "passp", "passc", "pwd", "token", "secret", "credential", "k_g", "psk", "authorization", "cookie"),
    *("digest user", "-key", "-signature", *_KEYS),
)


def _named() -> Iterator[str]:
    """Names with their values, in sentences, settings and documents."""
    for name, word in ((_PASSWORD, _NO_SENTENCE + _WORD), (_OTHER, _TOKEN)):
        label = rf"{_BEGIN}{name}(?:{_CLOSE})?{_SIGN}(?:\[{_ANY})?"
        yield rf"(?P<name>{label}{_OPEN}){_NO_WORD}{_QUOTED}"
        yield rf"(?P<name>{label}){word}"
    yield rf"(?P<name>{_BEGIN}(?:{_PASSWORD}|{_OTHER}){_CLOSE}{_COLON})-?\d[\d.]*"
    tag = rf"<(?:[\w.-]{{1,40}}:)?[\w.-]{{0,40}}(?:{_PASSWORD}|{_OTHER})(?:\s[^<>]{{0,200}})?>"
    yield rf"(?P<name>{tag})[^<>]+"


def _told() -> Iterator[str]:
    """A BMC's own words, "the password X", and those of Redfish's registries about a property of that name."""
    password = rf"{_BEGIN}{_PASSWORD}[ \t]{{1,4}}(?:(?:is|was)[ \t]{{1,4}})?"
    yield rf"(?P<name>{password}{_OPEN}){_NO_WORD}{_QUOTED}"
    yield rf"(?P<name>{password}){_MADE}"
    plain = rf"(?!(?:{_SENTENCE}|{_ABOUT})\b)[^\W\d_]{{3,64}}(?![\w@$!#%^&+?*~:=(/'\"-])"
    once = rf"{_BEGIN}{_PASSWORD}[ \t]{{1,4}}"
    yield rf"(?P<name>{once}){plain}(?=[ \t]{{1,4}}{_TOLD_OF})"
    yield rf"(?P<name>\b(?:with|using){_SOME}(?:(?:the|a|its){_SOME})?{once}){plain}(?=[ \t]*(?:[.,;)]|$))"
    value = r"(?!(?:for|of|provided)\b)(?:(?!\bvalue\b)[^\r\n]){1,120}?"
    yield rf"(?P<name>\bvalue{_SOME}){value}(?={_SOME}(?:provided{_SOME})?(?:for|of){_SOME}{_OF_PROPERTY}{_PROPERTY})"
    yield rf"(?P<name>\b{_OF_PROPERTY}{_PROPERTY}[^\r\n]{{0,60}}?\bvalue{_SOME}(?:of{_SOME})?{_OPEN}){_QUOTED}"
    yield rf"(?P<name>\.[A-Z]\w{{2,60}}\()[^()\r\n]{{1,120}}?(?=,{_ANY}{_PROPERTY})"


def _sent() -> Iterator[str]:
    """Headers, and keys."""
    yield rf"(?P<name>{_AUTHORIZATION}[A-Za-z][\w-]{{1,40}}{_SOME}){_PARTS}"
    yield rf"(?P<name>\bdigest{_SOME})(?=username\\{{0,7}}=){_PARTS}"
    yield rf"(?P<name>{_AUTHORIZATION}(?:[A-Za-z][\w-]{{1,40}}{_SOME})?)(?=[^\s\"',;&]{{0,99}}[\d=+/])[^\s\"',;&]{{8,}}"
    yield rf"(?P<name>(?<![\w-]){_HEADER}(?:{_CLOSE})?{_ANY}[:=]{_ANY}(?:{_CLOSE})?)[^\s\"'`,;&\\]+"
    yield rf"(?P<name>{_COOKIE}{_CLOSE}{_ANY}[:=]{_ANY}{_OPEN}){_QUOTED}"
    # To the end of its line where nothing else says where it ends.
    unquoted = rf"(?:{_CLOSE}{_ANY}[:=](?!{_ANY}{_CLOSE})|{_ANY}[:=]){_ANY}"
    yield rf"(?P<name>{_COOKIE}{unquoted})[^\r\n]+"
    yield r"(?P<name><cookie[ \t])[^>\r\n]+"
    yield r"(?P<name>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[^-]+"


def _tails() -> str:
    words = ("password", "passwd", "passphrase", "secret", "token")
    return "|".join(sorted({word[at:] for word in words for at in range(1, len(word))}, key=len, reverse=True))


@lru_cache(maxsize=1)
def _forms() -> tuple[re.Pattern[str], ...]:
    """Each with the group ``name``, what stays; the rest of what it finds is masked.

    None costs more than the length of the text, whatever the text is: what repeats is bounded, or nothing behind it can
    fail. They are compiled at the first need, which on most nodes never comes, and on the controller before the fork.
    """
    return tuple(re.compile(form, re.I) for form in (*_named(), *_told(), *_sent()))


#: The rest of a document whose beginning was cut off, and a part of the name with it.
_CUT = re.compile(rf"(?P<name>\A(?:{_tails()}){_CLOSE}{_COLON}{_OPEN}){_QUOTED}", re.I)


def without_echoes(text: str, mask: str) -> str:
    """The text with the mask in place of what its own words call a secret."""
    text = _CUT.sub(lambda match: match["name"] + mask, text)
    plain = text.lower()
    if any(word in plain for word in _WORDS):
        for form in _forms():
            text = form.sub(lambda match: match["name"] + mask, text)
    return text
