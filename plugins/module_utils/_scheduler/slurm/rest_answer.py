# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an answer of slurmrestd says, whatever its status. PRIVATE to the collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import BadAnswer, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import short
from ansible_collections.gpufleet.baremetal.plugins.module_utils._scheduler.slurm.rest_tables import NUMBERS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._transport import GATEWAY, Peer, said

PEER = Peer(
    "slurmrestd",
    reach="check gpufleet_scheduler_url, and that slurmrestd runs there",
    trust="name the authority that vouches for slurmrestd in gpufleet_scheduler_ca_path",
    login="check the token (gpufleet_scheduler_token_path), and that gpufleet_scheduler_user is its user",
    key="token",
    setting="gpufleet_scheduler_url",
)
#: No token, or none that slurmrestd takes; the second is slurmctld's own word.
_LOGIN = frozenset({401, 511})


@contextmanager
def not_too_deep(address: str, what: str) -> Iterator[None]:
    """What is nested deeper than this program can follow is a wrong answer, and ends nobody else's look."""
    try:
        yield
    except RecursionError as exc:
        raise BadAnswer(f"{what}: nested deeper than any answer", address=address, do="look at slurmrestd") from exc
    except BadAnswer as exc:
        raise exc.located(address=address) from exc


def judged(answer: Any, address: str, method: str, path: str, *, of_slurm: bool) -> dict[str, Any]:
    """The content of an answer that is what was asked for.

    :param of_slurm: it is one that has ``errors``, empty where there are none.
    :raises FleetError: for any other.
    """
    code, request = answer.status_code, f"{method} {path}"
    if code in _LOGIN:
        raise PEER.login_refused(address, seen=f"HTTP {code}")
    if 300 <= code < 400:
        raise BadAnswer(f"{request}: a redirect", address=address, seen=f"HTTP {code}", details=PEER.elsewhere())
    try:
        content = answer.json()
    except (ValueError, RecursionError) as exc:
        raise _no_json(answer, address, method, path) from exc
    if not isinstance(content, dict) or (of_slurm and not isinstance(content.get("errors"), list)):
        raise BadAnswer(
            f"{request}: not what slurmrestd answers",
            address=address,
            seen=said(code, content),
            details=PEER.elsewhere(),
            do=f"correct {PEER.setting}, if another program than slurmrestd answers there",
        )
    if code == 200 and not content.get("errors"):
        return content
    raise _refused(content, code, address, method, path)


def _no_json(answer: Any, address: str, method: str, path: str) -> FleetError:
    code = answer.status_code
    if code in GATEWAY or (code >= 400 and code != 404):
        return PEER.refusal(address, method, path, code, said(code, answer.text))
    return PEER.no_json(address, f"{method} {path}", code, answer.text, kind=answer.headers.get("Content-Type"))


def _refused(content: Mapping[str, Any], code: int, address: str, method: str, path: str) -> FleetError:
    errors = [one for one in content.get("errors") or [] if isinstance(one, dict)]
    words = "; ".join(" ".join(str(one.get(key) or "") for key in ("description", "error")).strip() for one in errors)
    numbers = [one.get("error_number", one.get("errno")) for one in errors]
    for number in numbers:
        meaning = NUMBERS.get(number) if isinstance(number, int) else None
        if meaning and not (number == -1 and method != "GET"):
            return meaning.kind(
                f"{method} {path}: {meaning.words}",
                address=address,
                seen=said(code, f"{words} ({number})"),
                do=meaning.do,
                details={"status": code, "number": number},
            )
    seen = said(code, words or short(content, 200))
    if code < 400:
        return BadAnswer(f"{method} {path}: HTTP {code} with errors", address=address, seen=seen)
    return PEER.refusal(address, method, path, code, seen)
