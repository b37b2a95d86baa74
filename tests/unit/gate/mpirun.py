# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An mpirun without MPI that stands for one rank a node of nccl-tests, and prints what they print.

``MPIRUN`` names a JSON file: ``calls``, where it is noted how it was called, ``hosts``, by address its name, its
sysfs and ``rails``, by device the part that its counter shows, ``tables``, what is printed by the names of those that
take part, joined by a comma, or ``body`` in its place, and ``rc``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_BYTES = 10**12


def main(argv: list[str]) -> int:
    known = json.loads(Path(os.environ["MPIRUN"]).read_text(encoding="utf-8"))
    with Path(known["calls"]).open("a", encoding="utf-8") as calls:
        calls.write(" ".join(argv) + "\n")
    hosts = [known["hosts"][word.partition(":")[0]] for word in argv[argv.index("--host") + 1].split(",")]
    for host in hosts if known.get("body") is None else ():
        for device, part in host["rails"].items():
            counter = Path(host["sysfs"], "class/infiniband", device, "ports/1/counters/port_xmit_data")
            before = int(counter.read_text(encoding="utf-8"))
            counter.write_text(f"{before + int(_BYTES / 4 * part)}\n", encoding="utf-8")
    names = ",".join(sorted(host["name"] for host in hosts))
    print(known["body"] if known.get("body") is not None else known["tables"][names], end="")
    return int(known.get("rc", 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
