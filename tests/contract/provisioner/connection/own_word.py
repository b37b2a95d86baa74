# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that says of its boot what a file says; without the file nobody answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: own_word
short_description: a node of the tests
description: Answers each command with the text of one file.
options:
  answers:
    description: The file.
    type: path
    vars:
      - name: node_answers
"""


class Connection(ConnectionBase):
    transport = "own_word"
    has_pipelining = True

    def _connect(self) -> Any:
        return self

    def exec_command(self, cmd: str, in_data: Any = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        path = Path(str(self.get_option("answers")))
        if not path.exists():
            raise AnsibleConnectionFailure("nobody answers")
        return 0, path.read_bytes(), b""

    def put_file(self, in_path: str, out_path: str) -> None:
        raise AnsibleConnectionFailure("nothing is shipped to this node")

    def fetch_file(self, in_path: str, out_path: str) -> None:
        raise AnsibleConnectionFailure("nothing is fetched from this node")

    def close(self) -> None:
        """Nothing is open."""
