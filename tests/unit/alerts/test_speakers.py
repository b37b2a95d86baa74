# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""By what a monitor shows that it may speak, and whose word it is then."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest
import trustme
from ansible_collections.gpufleet.baremetal.plugins.module_utils._alerts.kinds import KINDS
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from unit.alerts.listener import RULEBOOKS, TOKEN, arguments, listening, spoken

DOWN = {"event": "down", "nodes": []}
HEALTHY = {"node": "gpu001", "health": {"body": {"Overall Health": {"value": "Healthy"}}}}
RULEBOOK = {path.stem: path for path in RULEBOOKS}


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """Of the listener and of who speaks to it."""
    ours = trustme.CA()
    ours.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    ours.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "dcgm.token").write_text("of-the-watches-alone-0123\n", encoding="utf-8")
    return ours


@pytest.fixture
def by_certificate(authority: trustme.CA, ledger: Ledger, tmp_path: Path, port: int) -> dict[str, Any]:
    """What a site sets whose monitors show a certificate, and no token."""
    pem = str(tmp_path / "server.pem")
    told = listening(
        ledger, tmp_path, port, certificate_path=pem, key_path=pem, client_ca_path=str(tmp_path / "ca.pem")
    )
    del told["token_path"]
    return told


def shown(folder: Path, *signed: trustme.CA) -> ssl.SSLContext:
    """By a sender, to the listener that it knows."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    for one in signed:
        one.issue_cert("gpu007.example.com").configure_cert(context)
    return context


def ended(source: ModuleType, args: dict[str, Any]) -> None:
    """At its start, as it has no port yet to be spoken to."""
    asyncio.run(asyncio.wait_for(source.main(asyncio.Queue(1), args), 5))


Said = tuple[Any, str, ssl.SSLContext]


def answered(source: ModuleType, args: dict[str, Any], said: Iterable[Said]) -> list[int]:
    """0 where no line comes about."""
    codes: list[int] = []

    async def speak() -> None:
        running = asyncio.create_task(source.main(asyncio.Queue(1), args))
        for document, kind, context in said:
            try:
                codes.append((await spoken(args["port"], document, context, "https", kind))[0])
            except (aiohttp.ClientError, OSError):
                codes.append(0)
        running.cancel()

    asyncio.run(speak())
    return codes


def test_an_open_door_is_none(source: ModuleType, ledger: Ledger, tmp_path: Path, port: int) -> None:
    args = listening(ledger, tmp_path, port)
    (tmp_path / "short").write_text("0123456789\n", encoding="utf-8")
    for path, why in (
        ("", "says who may send alerts"),
        (str(tmp_path / "short"), "of token_path is too short to be one"),
    ):
        with pytest.raises(ConfigError, match=why):
            ended(source, {**args, "token_path": path})
    with pytest.raises(ConfigError, match="client_ca_path needs a certificate_path"):
        ended(source, {**args, "client_ca_path": str(tmp_path / "ca.pem")})


def test_who_shows_no_certificate_is_turned_away(
    source: ModuleType, authority: trustme.CA, by_certificate: dict[str, Any], tmp_path: Path
) -> None:
    args = {**by_certificate, "token_path": str(tmp_path / "token")}
    said = [(DOWN, "slurm", shown(tmp_path, *signed)) for signed in ((authority,), (), (trustme.CA(),))]
    assert answered(source, args, said) == [200, 0, 0]


@pytest.mark.parametrize("name", RULEBOOK)
def test_a_nodes_certificate_speaks_for_no_monitor_but_its_own(
    source: ModuleType, by_certificate: dict[str, Any], tmp_path: Path, name: str
) -> None:
    """With one file of variables for all rulebooks."""
    told = {f"gpufleet_{option}": value for option, value in by_certificate.items()}
    told["gpufleet_dcgm_token_path"] = str(tmp_path / "dcgm.token")
    with pytest.raises(ConfigError, match="a node's certificate would speak for all other monitors"):
        ended(source, arguments(RULEBOOK[name], told))


@pytest.mark.parametrize("own", [True, False], ids=["and a token", "and no token"])
def test_it_speaks_for_dcgm_where_that_is_all_that_is_heard(
    source: ModuleType, authority: trustme.CA, by_certificate: dict[str, Any], tmp_path: Path, own: bool
) -> None:
    args = {**by_certificate, "kinds": ["dcgm"], **({"dcgm_token_path": str(tmp_path / "dcgm.token")} if own else {})}
    (tmp_path / "dcgm.token").write_text(f"{TOKEN}\n", encoding="utf-8")
    said = [(document, kind, shown(tmp_path, authority)) for document, kind in ((HEALTHY, "dcgm"), (DOWN, "slurm"))]
    assert answered(source, args, said) == [200, 404]


def test_the_token_of_the_watches_is_enough(source: ModuleType, ledger: Ledger, tmp_path: Path, port: int) -> None:
    args = listening(ledger, tmp_path, port, kinds=["dcgm"])
    args["dcgm_token_path"] = args.pop("token_path")
    codes: list[int] = []

    async def speak() -> None:
        running = asyncio.create_task(source.main(asyncio.Queue(1), args))
        codes.append((await spoken(port, HEALTHY, kind="dcgm"))[0])
        async with aiohttp.ClientSession() as stranger, stranger.post(f"http://127.0.0.1:{port}/dcgm") as answer:
            codes.append(answer.status)
        running.cancel()

    asyncio.run(speak())
    assert codes == [200, 401]


@pytest.mark.parametrize("name", RULEBOOK)
def test_a_certificate_without_a_token_speaks_for_one_kind_of_monitor(
    source: ModuleType, authority: trustme.CA, by_certificate: dict[str, Any], tmp_path: Path, name: str
) -> None:
    told = {f"gpufleet_{option}": value for option, value in by_certificate.items()}
    args = arguments(RULEBOOK[name], told)
    if len(args["kinds"]) == 1:
        said = [({"alerts": []} if one == "alertmanager" else DOWN, one, shown(tmp_path, authority)) for one in KINDS]
        assert sorted(answered(source, args, said)) == [200, 404, 404, 404]
        return
    with pytest.raises(ConfigError, match="for each of several kinds.*Seen: nvsentinel, dcgm"):
        ended(source, args)


def test_nor_for_all_where_no_kind_is_named(source: ModuleType, by_certificate: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="for each of several kinds"):
        ended(source, by_certificate)


@pytest.mark.parametrize("written", ["", f" {TOKEN}\nof the nodes\n"], ids=["one file", "one token"])
@pytest.mark.parametrize("kinds", [[], ["nvsentinel", "dcgm"], ["dcgm"], ["slurm"]], ids=str)
def test_a_token_of_the_nodes_is_nobody_elses(
    source: ModuleType, ledger: Ledger, tmp_path: Path, port: int, written: str, kinds: list[str]
) -> None:
    args = listening(ledger, tmp_path, port, kinds=kinds)
    args["dcgm_token_path"] = args["token_path"]
    if written:
        args["dcgm_token_path"] = str(tmp_path / "dcgm.token")
        (tmp_path / "dcgm.token").write_text(written, encoding="utf-8")
    with pytest.raises(ConfigError, match="token_path and dcgm_token_path have one token"):
        ended(source, args)


FILES = ("token_path", "dcgm_token_path", "certificate_path", "key_path", "both", "client_ca_path")
NO_PEM = "PEM|lib|CERTIFICATE"
WRONG = [
    (option, written, seen) for option in FILES for written, seen in ((None, "No such"), (b"\xff", f"{NO_PEM}|no text"))
]
#: That is a token.
WRONG += [(option, b"a-token-of-no-use\n", NO_PEM) for option in FILES[2:]]


@pytest.mark.parametrize(("option", "written", "seen"), WRONG)
def test_a_file_that_cannot_be_used_is_named(
    source: ModuleType, by_certificate: dict[str, Any], tmp_path: Path, option: str, written: bytes | None, seen: str
) -> None:
    wrong = tmp_path / "wrong.pem"
    if written:
        wrong.write_bytes(written)
    args = {**by_certificate, "token_path": str(tmp_path / "token"), option: str(wrong)}
    if option == "both":
        option = "certificate_path"
        args.update(certificate_path=str(wrong), key_path="")
    with pytest.raises(ConfigError) as raised:
        ended(source, args)
    told = str(raised.value)
    assert told.startswith(f"{wrong}: {option} names no file") and f"Do: correct {option}" in told
    assert re.search(f"Seen: .*({seen})", told), told


def test_a_key_that_is_not_in_the_file_of_the_certificate_is_missed_there(
    source: ModuleType, by_certificate: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="ca.pem: certificate_path names no file.*Wanted: the key of"):
        ended(
            source, {**by_certificate, "kinds": ["slurm"], "certificate_path": str(tmp_path / "ca.pem"), "key_path": ""}
        )


@pytest.mark.parametrize("told", ["abc", "", "0", "65536", 5051.5, None])
def test_a_port_that_is_none_is_named(source: ModuleType, ledger: Ledger, tmp_path: Path, told: Any) -> None:
    with pytest.raises(ConfigError, match=f"port is no number .*Seen: {told!r}. Do: correct port"):
        ended(source, {**listening(ledger, tmp_path, 0), "port": told})


def test_a_port_that_another_one_has_is_named(source: ModuleType, ledger: Ledger, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as another:
        port = another.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: nobody can listen there.*in use"):
            ended(source, listening(ledger, tmp_path, port))
