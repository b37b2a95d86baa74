# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as one file of HTML, which asks no network for anything. PRIVATE to the collection.

What nodes, provisioners and people said stands in it as text: the engine escapes each value, and the page's own policy
runs no script and takes no style but those two whose digests it names.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import jinja2
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._dossier import places
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._report_body import BODY, NODE, PARTS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._report_style import SCRIPT, STYLE
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._report_waves import WAVES
from markupsafe import Markup

#: How a state is to be taken in at a glance, beside its word; any other one is on its way.
_TONES = {"admitted": "good", "quarantined": "bad", "unknown": "bad", "unserved": "bad", "retired": ""}


def rendered(told: Mapping[str, Any]) -> str:
    """:param told: as the module fleet_report writes it as JSON, with ``order``, the hosts as they are to be shown."""
    engine = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.DictLoader({"page": BODY, "node": NODE, "parts": PARTS, "waves": WAVES}),
    )
    own = {"style": Markup(STYLE), "script": Markup(SCRIPT), "policy": Markup(_policy())}
    helpers = {"tone": lambda state: _TONES.get(state, "busy"), "lasted": lasted, "anchor": anchor, "places": places}
    return engine.get_template("page").render(**told, **own, **helpers)


def anchor(host: str) -> str:
    """An id without blanks, whatever the host is called."""
    return "node-" + hashlib.sha256(host.encode()).hexdigest()[:12]


def lasted(seconds: float) -> str:
    """As people say it: 42 s, 12 min, 3 h 05 min."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = round(whole / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def _policy() -> str:
    sources = f"style-src {_digest(STYLE)}; script-src {_digest(SCRIPT)}"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
