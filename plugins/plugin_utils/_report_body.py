# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands where in a report: a template of Jinja2, in which every value is escaped. PRIVATE to the collection."""

from __future__ import annotations

#: What several parts of it are made of.
PARTS = """{% macro table(label, columns) %}<div class="scroll" role="region" aria-label="{{ label }}" tabindex="0">
<table><thead><tr>{% for name in columns %}<th scope="col"{% if name.endswith("#") %} class="number"{% endif %}>
{{- name.rstrip("#") }}</th>{% endfor %}</tr></thead>
<tbody>{{ caller() }}</tbody></table></div>{% endmacro %}
{% macro listed(counts) %}{% for state, count in counts | dictsort %}{{ ", " if not loop.first }}{{ count }} {{ state }}
{%- endfor %}{% endmacro %}
{% macro nodes(number) %}{{ number }} node{{ "s" if number != 1 }}{% endmacro %}
"""

BODY = """<!doctype html>
{% from "parts" import table, listed %}
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<title>{{ title }}: {{ nodes | length }} nodes</title>
<style>{{ style }}</style>
</head>
<body>
<header>
<h1>{{ title }}: {{ nodes | length }} nodes</h1>
<p>As of <time>{{ at }}</time>; runs since <time>{{ since }}</time>.</p>
<nav aria-label="Parts"><a href="#causes">Causes</a> <a href="#waves">Waves</a> <a href="#runs">Runs</a>
<a href="#stages">Durations</a> <a href="#passports">Passports</a> <a href="#nodes">Nodes</a></nav>
</header>
<main>
<ul class="tiles">
{% for state, count in states | dictsort %}<li><b>{{ count }}</b>
<span class="state {{ tone(state) }}">{{ state }}</span></li>
{% endfor %}</ul>

<h2 id="causes">Where the nodes stand, by cause</h2>
{% call table("Causes", ["State", "Nodes#", "Cause and next step"]) %}
{% for group in groups %}<tr><td class="state {{ tone(group.state) }}">{{ group.state }}</td>
<td class="number">{{ group.count }}</td><td>{{ group.cause }}<br><small>{{ group.folded }}</small>
{% if group.remedy %}<br><small>remedy: <span class="ink">{{ group.remedy }}</span></small>{% endif %}
{% if group.left %}<br><small>left: {{ group.left }}</small>{% endif %}
{% if group.next %}<code class="next">{{ group.next }}</code>{% endif %}</td></tr>
{% endfor %}{% endcall %}

{% include "waves" %}
<h2 id="runs">Runs</h2>
{% if not runs %}<p>No run brought a node into another state since then.</p>{% else %}
{% call table("Runs", ["Run", "Nodes#", "When", "Left them"]) %}
{% for run in runs %}<tr><td>{{ run.run }}<br><small>{{ run.first }} to {{ run.last }}</small></td>
<td class="number">{{ run.nodes }}</td>
<td><svg class="track" viewBox="0 0 100 8" preserveAspectRatio="none" role="img"
 aria-label="{{ run.first }} to {{ run.last }}">
<rect x="{{ [run.left, 99] | min }}" width="{{ [run.width, 1] | max }}" height="8"/></svg></td>
<td>{{ listed(run.states) }}</td></tr>
{% endfor %}{% endcall %}{% endif %}

<h2 id="stages">How long the stages took</h2>
{% if not stages %}<p>No stage came to its end since then.</p>{% else %}
{% call table("Durations", ["Stage", "Times#", "Median#", "90 % within#", "Slowest#", "Of"]) %}
{% for one in stages %}<tr><td>{{ one.stage }}</td><td class="number">{{ one.count }}</td>
<td class="number">{{ lasted(one.median) }}</td><td class="number">{{ lasted(one.most) }}</td>
<td class="number">{{ lasted(one.slowest) }}</td><td>{{ one.host }}</td></tr>
{% endfor %}{% endcall %}{% endif %}

<h2 id="passports">Passports that end next</h2>
{% if not expiring %}<p>No node is in service.</p>{% else %}
{% call table("Passports", ["Node", "Ends", "Next step"]) %}
{% for one in expiring %}<tr><td>{{ one.host }}</td><td>{{ one.expires }}</td>
<td>{% if one.next %}<code>{{ one.next }}</code>{% else %}nothing is due{% endif %}</td></tr>
{% endfor %}{% endcall %}{% endif %}

<h2 id="nodes">Nodes</h2>
<p class="find"><label for="find">Narrow by name, state or reason</label>
<input id="find" type="search" autocomplete="off"><small id="found" role="status"></small></p>
{% for host in order %}{% set one = nodes[host] %}{% set page = pages.get(host) %}
<details class="node" id="{{ anchor(host) }}"
 data-words="{{ (host ~ ' ' ~ one.state ~ ' ' ~ one.reason ~ ' ' ~ one.stopped) | lower }}">
<summary><b>{{ host }}</b> <span class="state {{ tone(one.state) }}">{{ one.state }}</span>
 <small>{{ one.stopped or one.reason or one.since }}</small></summary>
{% if one.next %}<code class="next">{{ one.next }}</code>{% endif %}
{% if page %}{% include "node" %}{% elif one.node_id %}
<p>Its story is not in this report: see the playbook history.</p>
{% else %}<p>The ledger has never seen it.</p>{% endif %}
</details>{% endfor %}
</main>
<script>{{ script }}</script>
</body>
</html>
"""

NODE = """{% if page.story.known_as %}<p>Known by {{ page.story.known_as | join(", ") }}</p>{% endif %}
{% if page.passport %}<h3>Passport</h3>
<p class="ink">{{ page.passport.image.get("name", "") }} {{ page.passport.image.get("version", "") }},
 {{ page.passport.issued }} to {{ page.passport.expires }};
 {% for gate in page.passport.gates %}{{ ", " if not loop.first }}{{ gate.gate }} {{ gate.verdict }}{% endfor %}<br>
<small>{{ page.passport.digest }}, not verified here</small></p>{% endif %}
{% if page.measured %}<h3>Measured</h3>
<div class="scroll" role="region" aria-label="Measured on {{ host }}" tabindex="0"><table>
<thead><tr><th scope="col">Gate</th><th scope="col">Check</th><th scope="col" class="number">Newest</th>
<th scope="col">Wanted</th><th scope="col">Over time</th></tr></thead><tbody>
{% for row in page.measured %}{% set newest = row["values"][-1].value %}
<tr><td>{{ row.gate }}</td><td>{{ row.check }} {{ row.entity }}</td>
<td class="number {{ 'bad' if row.verdict == 'fail' }}">{{ "%.6g" | format(newest) }} {{ row.unit }}</td>
<td>{{ row.wanted }}</td><td><svg viewBox="0 0 120 24" role="img" aria-label="{{ row['values'] | length }} values">
<polyline points="{{ places(row['values']) }}"/></svg></td></tr>
{% endfor %}</tbody></table></div>{% endif %}
<h3>Story</h3>{% if page.story.earlier %}<p>There are earlier events: see the playbook history.</p>{% endif %}
<ol>{% for event in page.story.events | reverse %}<li><small>{{ event.at }}</small> {{ event.text }}
 <small>({{ event.run }}{{ ", by " ~ event.who if event.who }})</small></li>{% endfor %}</ol>
"""
