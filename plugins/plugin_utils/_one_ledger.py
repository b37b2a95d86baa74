# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One ledger for all tasks of a run. PRIVATE to the collection.

Each task opens it anew, in a worker of its own. A file that was replaced between two of them knows nothing of the
leases, intents and holds of the first, and nobody would notice.
"""

from __future__ import annotations

import hashlib

from ansible.utils.display import Display
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.places import check, default_url
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _of_run

display = Display()
#: What to do with a ledger that knows nothing of a site on which nodes serve.
WRONG_ONE = (
    "If nodes of this site are in service already, this is another ledger than theirs, or theirs was lost: correct"
    " gpufleet_ledger_url, or restore a backup (gpufleet.baremetal.ledger), or else take them in as they are"
    " (gpufleet.baremetal.adopt). Until then they are somebody else's"
)


def of_this_run(url: str, *, create: bool, kind: type[Ledger] = Ledger) -> Ledger:
    """The ledger, which is the one that the first task of this run opened at this URL.

    :param kind: as what it is opened.
    :raises ConfigError: where no ledger may lie there. :raises Unreachable: where another file lies there now than
        before, or none; none is made.
    """
    note = f"ledger-{hashlib.sha256((url or default_url()).encode()).hexdigest()[:24]}"
    place = _of_run.read(note)
    if not place:  # else a task of this run has looked, and nothing of that changes under a run
        check(url)
    ledger = kind(url, create=create, place=place)
    if ledger.place:
        _of_run.leave(note, ledger.place)
    if ledger.new and create:
        display.warning(f"a new, empty ledger was made: {ledger.shown_url}. {WRONG_ONE}")
    return ledger
