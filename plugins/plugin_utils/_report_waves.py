# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The waves in a report, run by run: a template of Jinja2, in which every value is escaped. PRIVATE."""

from __future__ import annotations

#: ``most`` nodes of a wave that did not come through are told one by one, and names in a list; the JSON has them all.
WAVES = """{% from "parts" import table, nodes as count %}
{% set most = 10 %}
<h2 id="waves">Waves</h2>
{% if not waves.runs and not waves.marks %}<p>No wave was planned, begun or paused since then.</p>{% endif %}
{% if waves.now.paused %}<p class="ink">{{ count(waves.now.paused | length) }} paused, and in no
 wave until resumed.</p>{% endif %}
{% for image, why in waves.now.images | dictsort if why %}<p class="bad">The roll-out of {{ image }} is broken off.</p>
{% endfor %}
{% for run in waves.runs %}<section class="rollout"><h3>{{ run.images | join(", ") or "Waves" }}</h3>
<p>{{ run.run }}, {{ run.first }} {{ "to " ~ run.last if run.last else "on, and goes on" }};
 planned: {{ count(run.planned.nodes) }} in {{ run.planned.waves }} wave{{ "s" if run.planned.waves != 1 }}.</p>
{% if run.waves %}{% call table("Waves of " ~ run.run, ["Wave", "Nodes#", "When", "Came out"]) %}
{% for wave in run.waves %}<tr><td>{{ wave.wave }}{% if wave.canary %}<br><small>canary</small>{% endif %}</td>
<td class="number">{{ wave.nodes }}</td>
<td><svg class="track" viewBox="0 0 100 8" preserveAspectRatio="none" role="img"
 aria-label="{{ wave.begun }} to {{ wave.ended or 'no end' }}">
<rect x="{{ [wave.left, 99] | min }}" width="{{ [wave.width, 1] | max }}" height="8"/></svg>
<br><small>{{ wave.begun }} to {{ wave.ended or "no end" }}</small></td>
<td>{% for outcome, number in wave.outcomes.items() %}{{ ", " if not loop.first -}}
<span class="{{ {'through': 'good', 'failed': 'bad', 'left': 'bad', 'going': 'busy'}.get(outcome, '') }}">
{{- number }} {{ outcome }}</span>{% endfor %}<br><small>{{ wave.folded }}</small>
{% set ns = namespace(told=0) %}{% for host, one in wave.hosts.items() if one.outcome != "through" %}
{% if loop.index <= most %}<br><small><a href="#{{ anchor(host) }}">{{ host }}</a>
 {{ one.outcome }}{{ ", " ~ one.state if one.state }}{{ ": " ~ one.reason if one.reason }}</small>{% endif %}
{% if loop.last and loop.length > most %}<br><small>and {{ loop.length - most }} more</small>{% endif %}{% endfor %}
</td></tr>
{% endfor %}{% endcall %}{% endif %}
{% for back in run.withdrawn %}<p>Given back: {{ count(back.nodes) }}, {{ back.hosts[:most] | join(", ") }}
{{- " and more" if back.nodes > most }}: {{ back.reason }}</p>{% endfor %}
{% if run.not_begun %}<p>Planned and not begun: {{ count(run.not_begun | length) }},
 {{ run.not_begun[:most] | join(", ") }}{{ " and more" if run.not_begun | length > most }}</p>{% endif %}
{% for halt in run.halted %}<p class="{{ 'bad' if halt.broken_off else 'ink' }}">No wave after {{ halt.at }}:
 {{ halt.reason }}</p>{% endfor %}</section>
{% endfor %}
{% if waves.marks %}<h3>Pauses, and what let no wave begin</h3>
{% call table("Pauses", ["What", "Nodes#", "When", "Who and why"]) %}
{% for mark in waves.marks %}<tr><td class="state">{{ mark.what }}</td><td class="number">{{ mark.nodes }}</td>
<td>{{ mark.at }}{% if mark.until and mark.until != mark.at %}<br><small>to {{ mark.until }}</small>
{%- elif mark.what == "paused" %}<br><small>stands</small>{% endif %}</td>
<td>{% if mark.runs %}{{ mark.runs }} run{{ "s" if mark.runs != 1 }} began nothing: {% endif %}
{{- mark.by }}{{ ": " if mark.by and mark.reason }}{{ mark.reason }}
{% if mark.folded %}<br><small>{{ "all: " if mark.whole }}{{ mark.folded }}</small>{% endif %}
{% if mark.images %}<br><small>{{ mark.images | join(", ") }}</small>{% endif %}</td></tr>
{% endfor %}{% endcall %}{% endif %}
"""
