# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the event source is told, by a rulebook or by a site, and who speaks to it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts import taken
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from jinja2.nativetypes import NativeEnvironment

#: As it lies in a collection: it finds what it imports by that.
EDA = Path(taken.__file__).parents[3] / "extensions" / "eda"
RULEBOOKS = sorted((EDA / "rulebooks").glob("*.yml"))
TOKEN = "a-token-of-the-monitors"
HOSTS = ["gpu001", "gpu002", "gpu003"]


def ruleset(path: Path) -> dict[str, Any]:
    [told] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return told


def arguments(path: Path, variables: dict[str, Any]) -> dict[str, Any]:
    said = ruleset(path)["sources"][0]["gpufleet.baremetal.health"]
    env = NativeEnvironment()
    return {name: env.from_string(one).render(variables) if isinstance(one, str) else one for name, one in said.items()}


async def spoken(
    port: int, document: Any, tls: Any = False, scheme: str = "http", kind: str = "slurm"
) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _try in range(100):
            try:
                url = f"{scheme}://127.0.0.1:{port}/{kind}"
                async with session.post(url, json=document, ssl=tls) as answer:
                    return answer.status, await answer.json() if "json" in answer.content_type else {}
            except aiohttp.ClientConnectorCertificateError:
                raise
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
    raise AssertionError("nobody listens")


def listening(ledger: Ledger, tmp_path: Path, port: int, **more: Any) -> dict[str, Any]:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n", encoding="utf-8")
    return {"port": port, "token_path": str(path), "ledger_url": ledger.url, **more}


@contextmanager
def written_by_another(ledger: Ledger) -> Iterator[None]:
    """Who else writes waits until then."""
    path = ledger.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as another:
        another.execute("BEGIN IMMEDIATE")
        yield
        another.execute("ROLLBACK")


def askers() -> set[threading.Thread]:
    """Each source has one thread that asks the ledger, from its first question on."""
    return {one for one in threading.enumerate() if one.name.startswith("ThreadPoolExecutor")}
