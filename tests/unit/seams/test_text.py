# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that a terminal acts on leaves the one function that makes a stranger's text harmless."""

from __future__ import annotations

import json
import unicodedata

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import redact, shown
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless, harmless_all, one_line
from ansible_collections.gpufleet.baremetal.plugins.module_utils._token import make_token
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._leaves import redact_known
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

#: What it does to a terminal or to a reader, and how it is shown.
CONTROLS = {
    "\x1b[2J\x1b]0;title\x07": r"\x1b[2J\x1b]0;title\x07",
    "\x9b31m": r"\x9b31m",
    "ok\rfailed": r"ok\x0dfailed",
    "a\x08b\x00c\x7f": r"a\x08b\x00c\x7f",
    "\u202etxt.exe\u2066": r"\u202etxt.exe\u2066",
    "in\u200bvisible\ufeff": r"in\u200bvisible\ufeff",
    "line\u2028line": r"line\u2028line",
    "\U000e0041 tag": r"\U000e0041 tag",
    "half \ud83d": r"half \ud83d",
}
ANY = st.text(st.characters(), max_size=30)
VALUES = st.recursive(ANY, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY, inner, max_size=3))


def acts(text: str) -> bool:
    return any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in text if char not in "\n\t")


@pytest.mark.parametrize("text", CONTROLS)
def test_s3_what_a_terminal_acts_on_is_spelled_out(text: str) -> None:
    assert harmless(text) == CONTROLS[text] and not acts(harmless(text))


PLAIN = ("", "plain", "Größe 5 µm", "two\nlines\tand a tab", "日本語", "100 % \\x1b", "a\u00a0b")


@pytest.mark.parametrize("text", PLAIN)
def test_s3_what_is_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text


def test_s3_the_line_breaks_of_another_system_are_line_breaks() -> None:
    assert harmless("one\r\ntwo\r\n") == "one\ntwo\n"


@settings(max_examples=at_most(300), deadline=None)
@given(VALUES)
def test_s3_no_value_however_nested_keeps_a_control(value: object) -> None:
    for seam in (harmless_all, redact, lambda one: redact_known({"of": one}, frozenset())):
        shown_as = json.dumps(seam(value), ensure_ascii=False)
        assert not acts(shown_as)
    assert harmless_all(harmless_all(value)) == harmless_all(value)


@settings(max_examples=at_most(200), deadline=None)
@given(ANY)
def test_s3_a_schedulers_reason_is_one_line_of_text(why: str) -> None:
    token = make_token("run-1", why)
    assert not acts(token) and "\n" not in token and "\t" not in token
    assert one_line(one_line(why)) == one_line(why)


def test_s3_a_control_between_the_letters_of_a_secret_frees_none_of_it() -> None:
    secret = "hunter2-of-the-bmc"
    assert secret not in shown(f"\x1b[1m{secret}\x1b[0m", frozenset({secret}))
    assert shown("\x1b[1mx", frozenset()) == r"\x1b[1mx"
