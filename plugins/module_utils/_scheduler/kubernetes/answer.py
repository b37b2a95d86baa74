# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an API server of Kubernetes answers, and whether it is the rules of access that refuse. PRIVATE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import said

#: The kind of each refusal; what a proxy in front of the API server must not be taken for.
STATUS = "Status"
#: The authoriser's own words, of an object, of a list, and of a path. A webhook of the site's may say "cannot" as well.
_FORBIDDEN = re.compile(r'(?:[\w./-]+(?: "[^"]*")? is )?forbidden: User "(?:[^"\\]|\\.)*" cannot ')


class Answer(NamedTuple):
    """What an API server said: the code, and the object."""

    code: int
    content: dict[str, Any]

    @property
    def reason(self) -> str:
        return str(self.content.get("reason") or "")

    @property
    def words(self) -> str:
        return said(self.code, self.content.get("message") or self.reason)

    @property
    def details(self) -> Mapping[str, Any]:
        told = self.content.get("details")
        return told if isinstance(told, dict) else {}

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        told = self.details.get("causes")
        return [one for one in told if isinstance(one, dict)] if isinstance(told, list) else []

    @property
    def of_access(self) -> bool:
        """A budget, and a webhook of the site's, are 403 as well; the words of the rules of access are these."""
        told = self.content.get("kind") == STATUS and _FORBIDDEN.match(str(self.content.get("message") or ""))
        return self.code == 403 and bool(told)
