# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a report looks, and the little that it does by itself: its list of nodes can be narrowed. PRIVATE."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --paper: #fff; --line: #d0d7de; --card: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --busy: #9a6700; --link: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --paper: #0d1117; --line: #30363d;
  --card: #161b22; --good: #3fb950; --bad: #ff7b72; --busy: #d29922; --link: #79b8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; }
a { color: var(--link); } p, small { color: var(--soft); } .ink { color: var(--ink); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
nav a { margin-right: 1rem; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; padding: 0; list-style: none; }
.tiles li { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; }
.tiles b { display: block; font-size: 1.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; white-space: nowrap; } td.number, th.number { text-align: right; }
code { font: 13px/1.4 ui-monospace, monospace; background: var(--card); padding: .1rem .3rem; border-radius: .25rem; }
code.next { display: block; margin-top: .25rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.state { font-weight: 600; white-space: nowrap; } .good { color: var(--good); }
.bad { color: var(--bad); } .busy { color: var(--busy); }
svg { width: 120px; height: 24px; overflow: visible; }
.track { width: 100%; min-width: 12rem; height: .9rem; overflow: hidden; background: var(--card); }
rect { fill: var(--link); }
details { border-bottom: 1px solid var(--line); padding: .35rem 0; } summary { cursor: pointer; }
polyline { fill: none; stroke: var(--link); stroke-width: 1.5; }
input { font: inherit; width: 100%; padding: .4rem; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: .25rem; }
@media (max-width: 40rem) { body { font-size: 15px; padding: .6rem; } th, td { padding: .3rem; } }
@media print { nav, .find { display: none; } }
"""

SCRIPT = """
const field = document.getElementById("find");
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\\s+/);
  let shown = 0;
  for (const one of document.querySelectorAll("details.node")) {
    const fits = words.every((word) => one.dataset.words.includes(word));
    one.hidden = !fits;
    shown += fits ? 1 : 0;
  }
  document.getElementById("found").textContent = shown + " shown";
});
"""
