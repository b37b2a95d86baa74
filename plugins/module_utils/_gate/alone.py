# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One load at a time on a node. PRIVATE to the collection.

A tool that nobody could end goes on loading the GPUs after its gate; what the next run measured beside it would
fail a healthy node. So each of them holds a lock of the kernel's while its tool runs, and so does whatever that tool
starts. It is on the folder that shows the GPUs: that is one for all users of the node, and nothing must be written for
it. Who else takes it keeps a gate from its measurement, and gains no pass.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import DeadlineExceeded
from ansible_collections.gpufleet.baremetal.plugins.module_utils._locks import locked
from ansible_collections.gpufleet.baremetal.plugins.module_utils._process import handed_on
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context

#: Of a finding that says that nothing was measured, since another gate was at it.
BUSY = "busy"
#: Whoever runs a gate as a part of its own holds the GPUs for it. No option: nobody else says so.
HELD = "_held"
TEXT = "not run: another gate loads the GPUs of this node, as one does whose run was killed, until its tool ends"
_PCI = "/sys/bus/pci/devices"
#: A tool that ends just now is waited for; one that runs for minutes is not.
_WAIT_SECONDS = 30.0


@contextmanager
def alone(params: Mapping[str, Any], ctx: Context, *, timeout: float) -> Iterator[bool]:
    """Hold the GPUs of this node while the body loads them; False where another gate does.

    :param timeout: seconds that the gate has; it waits no longer than that for the other one.
    """
    if params.get(HELD):
        yield True
        return
    descriptor = os.open(_place(params), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with handed_on(descriptor):
            yield _taken(descriptor, ctx, min(_WAIT_SECONDS, timeout))
    finally:
        os.close(descriptor)


def _place(params: Mapping[str, Any]) -> str:
    """The folder that shows the GPUs, or the nearest one above it where the kernel has none."""
    place = os.path.abspath(str(params.get("pci_path") or _PCI))
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


def _taken(descriptor: int, ctx: Context, seconds: float) -> bool:
    def held() -> bool:
        return locked(descriptor)

    try:
        return ctx.wait(held, bool, timeout=seconds, interval=0.2, wanted="no other gate loads the GPUs")
    except DeadlineExceeded:
        return False
