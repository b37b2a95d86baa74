# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a report in a real browser: wide and narrow, by the keyboard alone, without an error in its console."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Event
from ansible_collections.gpufleet.baremetal.tests.unit.plugins.test_fleet_report import report
from suite import browser as browsers
from suite import services

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not browsers.program(), reason="needs the Debian package chromium-headless-shell"),
]
WIDE, NARROW = 1280, 360
MANY = {f"gpu{number:03}": f"SN{number:03}" for number in range(1, 1001)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a fleet in which a node has said what would be a script elsewhere."""
    folder = tmp_path_factory.mktemp("report")
    report(folder, path=str(folder / "report.html"))
    return folder / "report.html"


@pytest.fixture(scope="module")
@services.real
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browsers.Browser]:
    running = browsers.Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()


def pixels(png: bytes) -> tuple[int, int, int]:
    """Width, height, and how many values its bytes have: a page that is blank has a handful."""
    width, height = struct.unpack(">II", png[16:24])
    data, at = b"", 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        data += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += size + 12
    return width, height, len(set(zlib.decompress(data)))


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_it_is_seen_whole_and_says_nothing_in_its_console(page: Path, browser: browsers.Browser, width: int) -> None:
    browser.open(page, width)
    assert browser.errors == []
    assert browser.asked and all(one == page.as_uri() for one in browser.asked), "it asked for something else"
    wide, _high, values = pixels(browser.screenshot())
    assert wide == width and values > 50
    # A table may be scrolled in its own place; the page may not, or half of it is out of sight.
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.querySelector('.tiles').getBoundingClientRect().height") > 20
    assert browser.value("document.querySelectorAll('details.node').length") == 3


def test_who_has_no_mouse_narrows_it_down_and_opens_a_node(page: Path, browser: browsers.Browser) -> None:
    browser.open(page, WIDE)
    for _press in range(30):
        browser.press("Tab", 9)
        if browser.value("document.activeElement.id") == "find":
            break
    assert browser.value("document.activeElement.id") == "find"
    browser.type("gpu002 quarantined")
    assert browser.value("document.getElementById('found').textContent") == "1 shown"
    assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid", "one sees where one is"
    browser.press("Tab", 9)
    assert browser.value("document.activeElement.tagName") == "SUMMARY"
    browser.press("Enter", 13, "\r")
    assert browser.value("document.activeElement.parentElement.open") is True
    assert browser.value("document.activeElement.parentElement.querySelector('ol li') !== null")
    assert browser.errors == []


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_waves_are_seen_where_they_were_and_lead_to_their_nodes(
    page: Path, browser: browsers.Browser, width: int
) -> None:
    browser.open(page, width)
    browser.value("document.getElementById('waves').scrollIntoView()")
    assert browser.value("document.querySelectorAll('.rollout tbody tr').length") == 2
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert pixels(browser.screenshot())[2] > 50
    places = "[...document.querySelectorAll('.rollout rect')].map((one) => one.getBoundingClientRect().width)"
    assert all(wide >= 1 for wide in browser.value(places)), "each is to be seen, however short it was"
    browser.value("document.querySelector('nav a[href=\"#waves\"]').focus()")
    browser.press("Enter", 13, "\r")
    assert browser.value("location.hash") == "#waves"
    browser.press("Tab", 9)
    assert browser.value("document.activeElement.closest('.rollout') !== null"), "its table can be scrolled by keys"
    browser.press("Tab", 9)
    browser.press("Enter", 13, "\r")
    at = "document.getElementById(location.hash.slice(1)).querySelector('b').textContent"
    assert browser.value(at) == "gpu002" and browser.errors == []


#: Each word's colour against what lies behind it, as WCAG 2.1 counts it; the worst of all, with the word.
CONTRAST = """(() => {
  const parts = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const light = (rgb) => { const [r, g, b] = rgb.map((one) => one / 255)
    .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => { for (; node; node = node.parentElement) {
    const own = parts(getComputedStyle(node).backgroundColor);
    if (own.length === 3 || own[3] > 0) return own.slice(0, 3); } return [255, 255, 255]; };
  let worst = [99, ""];
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) { const node = words.currentNode.parentElement;
    if (!words.currentNode.data.trim() || ["SCRIPT", "STYLE"].includes(node.tagName)) continue;
    const [a, b] = [light(parts(getComputedStyle(node).color).slice(0, 3)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, words.currentNode.data.trim().slice(0, 40)]; }
  return [...worst, light(behind(document.body))]; })()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_word_can_be_read_by_day_and_by_night(page: Path, browser: browsers.Browser, scheme: str) -> None:
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    try:
        browser.open(page, WIDE)
        ratio, word, paper = browser.value(CONTRAST)
        assert ratio >= 4.5, (ratio, word)
        assert (paper < 0.1) == (scheme == "dark")
        # Where one is, and how long something took, is told by no word.
        link = browser.value("getComputedStyle(document.querySelector('rect')).fill")
        assert link == browser.value("getComputedStyle(document.querySelector('a')).color")
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def a_thousand(folder: Path) -> None:
    """In two waves and more; every hundredth has failed."""
    image = "gpu-golden 2026.11.2"
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        ids = [ledger.identify(host, aliases=[("serial", serial)]) for host, serial in MANY.items()]
        ledger.append("r1", [(node, Event("wave", "planned", {"wave": 1, "of": 2})) for node in ids])
        for wave in (ids[:1], ids[1:900]):
            begun = {"canary": len(wave) == 1, "size": len(wave), "image": image}
            ledger.append("r1", [(node, Event("wave", "begun", begun)) for node in wave])
            ledger.append("r1", [(node, Event("state", "imaging", {"from": "drained"})) for node in wave])
        ends = [
            ("quarantined", "NVLink 7 is down") if number % 100 == 9 else ("admitted", "") for number in range(1000)
        ]
        told = [Event("state", state, {"from": "validating", "reason": why}) for state, why in ends]
        ledger.append("r1", list(zip(ids, told)))


def test_a_thousand_nodes_are_one_page_that_can_be_used(tmp_path: Path, browser: browsers.Browser) -> None:
    report(tmp_path, lives=a_thousand, hosts=MANY, path=str(tmp_path / "report.html"), details=200)
    page = tmp_path / "report.html"
    assert page.stat().st_size < 3_000_000
    for width in (WIDE, NARROW):
        browser.open(page, width)
        assert browser.value("document.querySelectorAll('details.node').length") == 1000
        assert browser.value("document.documentElement.scrollWidth") <= width
        assert pixels(browser.screenshot())[2] > 50
        # Of its own clock, from the first byte to the last line that was laid out; a busy machine takes a few seconds.
        assert browser.value("performance.timing.loadEventEnd - performance.timing.responseStart") < 20_000
    waves = "[...document.querySelectorAll('.rollout tbody tr')].map((one) => one.cells[3].innerText.split('\\n')[0])"
    assert browser.value(waves) == ["1 through", "890 through, 9 failed"]
    assert "Planned and not begun: 100 nodes" in browser.value("document.querySelector('.rollout').innerText")
    browser.value("document.getElementById('find').focus()")
    begun = browser.value("performance.now()")
    browser.type("quarantined nvlink")
    assert browser.value("document.getElementById('found').textContent") == "10 shown"
    assert browser.value("performance.now()") - begun < 10_000
    assert browser.errors == []


def test_an_error_would_be_seen(tmp_path: Path, browser: browsers.Browser) -> None:
    """The last one: what it finds stays in the list."""
    broken = tmp_path / "broken.html"
    broken.write_text("<script>document.getElementById('gone').textContent = 1;</script>", encoding="utf-8")
    browser.open(broken, WIDE)
    assert browser.errors and pixels(browser.screenshot())[2] < 50
