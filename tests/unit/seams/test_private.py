# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What we write is for its owner alone, and lies where it was meant to lie."""

from __future__ import annotations

import ast
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _private as private
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.evidence import save
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verdict import Sheet

PLUGINS = Path(private.__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """As careless as a user may be."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class Refused(Exception):
    """The finding that takes a pass away."""


def evidence(path: Path) -> str:
    sheet = Sheet()
    kept = save(sheet, {"evidence_path": str(path)}, Context(), lambda: {"raw": "text"})
    if sheet.findings:
        assert not kept and sheet.verdict == "inconclusive"
        raise Refused(sheet.findings[0].text)
    return kept


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    return folder


def test_s3_evidence_is_its_owners_alone_and_replaced_whole(own: Path) -> None:
    path = own / "evidence.json"
    path.write_text("old")
    path.chmod(0o666)
    assert evidence(path) == str(path)
    assert mode(path) == 0o600 and path.read_text() == '{"raw": "text"}'
    assert [entry.name for entry in own.iterdir()] == ["evidence.json"], "no draft stays"


@pytest.mark.parametrize("lay", [Path.symlink_to, Path.hardlink_to])
def test_s3_evidence_follows_no_link(own: Path, tmp_path: Path, lay: object) -> None:
    if not hasattr(Path, "hardlink_to"):
        pytest.skip("Path.hardlink_to came with Python 3.10")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lay(own / "evidence.json", victim)  # type: ignore[operator]
    with pytest.raises(Refused, match="through a link") as told:
        evidence(own / "evidence.json")
    assert victim.read_text() == "precious" and "remove it" in str(told.value)


def test_s3_evidence_is_written_into_no_device_and_no_folder(own: Path) -> None:
    os.mkfifo(own / "pipe")
    (own / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(Refused, match="is no file"):
            evidence(own / name)


@pytest.mark.parametrize("open_to", [0o770, 0o707, 0o1777])
def test_s3_evidence_lies_in_no_folder_where_others_may_write(own: Path, open_to: int) -> None:
    own.chmod(open_to)
    with pytest.raises(Refused, match="others may write") as told:
        evidence(own / "evidence.json")
    assert str(own) in str(told.value) and "0700" in str(told.value) and not list(own.iterdir())


def test_s3_nor_below_one_unless_nobody_can_rename_what_is_anothers(own: Path, tmp_path: Path) -> None:
    (own / "deep").mkdir(mode=0o700)
    own.chmod(0o777)
    with pytest.raises(Refused, match="others may write"):
        evidence(own / "deep" / "evidence.json")
    own.chmod(0o1777)
    assert evidence(own / "deep" / "evidence.json")
    (tmp_path / "link").symlink_to(own / "deep")
    assert evidence(tmp_path / "link" / "other.json"), "a link of our own on the way is as good as what it leads to"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_s3_evidence_lies_in_no_folder_of_somebody_else(own: Path) -> None:
    os.chown(own, 12345, 12345)
    with pytest.raises(Refused, match="others may write"):
        evidence(own / "evidence.json")


def test_s3_a_file_that_is_written_anywhere_is_private_and_replaced_whole(own: Path) -> None:
    (own / "file").write_text("old")
    (own / "file").chmod(0o666)
    private.write(str(own / "file"), "new")
    assert (own / "file").read_text() == "new" and mode(own / "file") == 0o600 and len(list(own.iterdir())) == 1
    with pytest.raises(OSError):
        private.write(str(own / "none" / "file"), "new")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def _device(path: Path) -> None:
    """As /dev/null is one."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")


#: What may stand where a person lets a file be written, and what the message calls it.
THERE: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a socket": _socket,
    "a device": _device,
    "a folder": Path.mkdir,
    "a link": lambda path: path.symlink_to(path.with_name("victim")),
    "a link, to nowhere": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("kind", THERE)
def test_what_is_no_file_is_neither_replaced_nor_followed(own: Path, kind: str) -> None:
    (own / "victim").write_text("precious")
    THERE[kind](own / "named")
    before = os.lstat(own / "named")
    called = kind.partition(",")[0]
    with pytest.raises(OSError, match=f"{called} stands there"):
        private.write(str(own / "named"), "new")
    for path in (f"{own}/named", f"{own}/named/"):
        with pytest.raises(ConfigError, match=f"the report would take the place of {called}") as told:
            private.check_place(path, "the report")
        with pytest.raises(ConfigError, match=f"the report would take the place of {called}"):
            private.write_for_people(path, "new", "the report")
        assert str(own / "named") in str(told.value.seen) and kind in str(told.value.seen).replace(f"{own}/", "")
    assert os.lstat(own / "named") == before and (own / "victim").read_text() == "precious"
    assert {one.name for one in own.iterdir()} == {"named", "victim"}, "no draft stays, and nothing is made"


def test_folders_are_made_for_whoever_may_read_the_file(own: Path) -> None:
    """What is there stays as it is; of what is private, one folder keeps all below it."""
    for name, given in (("all", 0o644), ("mine", 0o600)):
        private.write_for_people(str(own / name / "deep" / "file"), "new", "the report", given)
    assert [mode(own / name) for name in ("all", "all/deep", "mine/deep")] == [0o755, 0o755, 0o700]
    (own / "all").chmod(0o700)
    private.write_for_people(str(own / "all" / "again" / "file"), "new", "the report", 0o644)
    assert mode(own / "all") == 0o700 and mode(own / "all" / "again") == 0o755


def test_where_nothing_or_a_file_stands_nothing_is_in_the_way(own: Path) -> None:
    (own / "file").write_text("old")
    (own / "way").symlink_to(own)
    for path in (own / "file", own / "new", own / "none" / "new", own / "file" / "below", own / "way" / "file"):
        private.check_place(str(path), "the report")


def test_s3_a_copy_is_private_and_never_over_what_is_there(own: Path) -> None:
    (own / "shown").write_text("of a site")
    (own / "shown").chmod(0o644)
    private.copy(str(own / "shown"), str(own / "copy"))
    assert (own / "copy").read_text() == "of a site" and mode(own / "copy") == 0o600
    (own / "link").symlink_to(own / "victim")
    for there in ("copy", "link"):
        with pytest.raises(FileExistsError):
            private.copy(str(own / "shown"), str(own / there))
    assert not (own / "victim").exists()


def test_s3_a_lock_is_private_and_no_link(own: Path) -> None:
    with private.open_lock(str(own / "lock")):
        assert mode(own / "lock") == 0o600
    (own / "link").symlink_to(own / "victim")
    with pytest.raises(OSError):
        private.open_lock(str(own / "link"))
    assert not (own / "victim").exists()


def ledgers(folder: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in folder.iterdir()}


def test_s3_a_ledger_and_its_companions_are_their_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger:
        ledger.identify("gpu001", aliases=[("serial", "GF0001")])
        assert ledgers(folder) == dict.fromkeys(("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"), 0o600)
    assert mode(folder) == 0o700


def test_s3_a_ledger_of_before_is_closed_to_others(own: Path) -> None:
    url = f"sqlite:///{own}/ledger.sqlite"
    with Ledger(url) as held:
        held.identify("gpu001", aliases=[("serial", "GF0001")])
        for path in own.iterdir():
            path.chmod(0o644)
        with Ledger(url):
            assert set(ledgers(own).values()) == {0o600}
        (own / "ledger.sqlite").chmod(0o644)
        with Ledger(url, create=False):
            assert ledgers(own)["ledger.sqlite"] == 0o644, "check mode alters nothing"


#: A private temporary folder of its own, made by mkdtemp.
ALLOWED = {("module_utils/_trust/openpgp.py", "write_bytes")}
WRITES = ("write_text", "write_bytes", "mkdtemp_", "touch", "copy", "copyfile", "copytree")


def written(path: Path) -> Iterator[str]:
    """How a file of ours writes: what it calls, and the mode that it opens files with."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        modes = [arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
        owner = getattr(getattr(node.func, "value", None), "id", "")
        opens = name == "open" and owner in ("", "io") and any(set(str(one)) & set("wax+") for one in modes)
        if opens or (name in WRITES and owner not in ("copy", "dict")):
            yield "open for writing" if opens else name


def test_s3_every_file_that_we_write_is_written_privately() -> None:
    found = {
        (str(path.relative_to(PLUGINS)), how) for path in sorted(PLUGINS.rglob("*.py")) for how in written(path)
    } - ALLOWED
    assert {one for one in found if one[1] != "copy"} == set(), "write it through _private.py"
