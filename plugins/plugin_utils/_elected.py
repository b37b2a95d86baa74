# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several workers of one run need one answer: the first asks, the others wait for it. PRIVATE to the collection."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._locks import locked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._wait import wait_until


class Seat:
    """The elected worker's answer."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def answer_for(self, host: str, hosts: Sequence[str]) -> dict[str, Any] | None:
        """What the elected one found, if it is about this host.

        Nothing where this host has read it before, for then the task is being repeated; and nothing where it was
        asked of others: of an earlier batch of ``serial``, or before this host had come so far.
        """
        try:
            known = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if host in known["served"] or not (host in known["hosts"] or set(hosts) <= set(known["hosts"])):
            return None
        self._write({**known, "served": [*known["served"], host]})
        answer: dict[str, Any] = known["answer"]
        return answer

    def answer(self, answer: Mapping[str, Any], host: str, hosts: Sequence[str]) -> None:
        self._write({"served": [host], "hosts": list(hosts), "answer": answer})

    def _write(self, content: Mapping[str, Any]) -> None:
        private.write(str(self._path), json.dumps(content, default=str))


@contextmanager
def elected(name: str, beat: Callable[[], None]) -> Iterator[Seat]:
    """Lets one worker in at a time. The kernel takes a dead worker's lock away; an orphan stops waiting by itself.

    The files lie in the temporary folder that Ansible makes for each run: no other user can write there, no other run
    looks there, and Ansible removes it at the run's end.
    """
    path = Path(C.DEFAULT_LOCAL_TMP) / f"gpufleet-{hashlib.sha256(name.encode()).hexdigest()[:24]}"
    with private.open_lock(str(path.with_suffix(".lock"))) as lock:
        wait_until(
            lambda: locked(lock), bool, timeout=float("inf"), interval=0.2, wanted="the answer for all", beat=beat
        )
        yield Seat(path.with_suffix(".json"))
