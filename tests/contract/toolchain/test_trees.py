# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make trees: what is told of recorded Redfish trees, and that a wrong claim or a traceback is noticed."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from recorded import CHECKOUT, demanded

ROOT, SYSTEM = "/redfish/v1", "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
TARGETS = "BootSourceOverrideTarget@Redfish.AllowableValues"


def ref(uri: str) -> dict[str, str]:
    return {"@odata.id": uri}


def system(uri: str, **more: Any) -> dict[str, Any]:
    reset = {"target": f"{uri}/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]}
    boot = {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", TARGETS: ["None", "Pxe"]}
    name = uri.rpartition("/")[2]
    return {
        "@odata.id": uri, "Id": name, "SerialNumber": f"SN-{name}", "PowerState": "On", "Manufacturer": "Example",
        "SystemType": "Physical", "Bios": ref(f"{uri}/Bios"), "Boot": boot,
        "Actions": {"#ComputerSystem.Reset": reset}, **more,
    }  # fmt: skip


def tree(*names: str, **more: Any) -> dict[str, Any]:
    uris = [f"{ROOT}/Systems/{name}" for name in names]
    root = {"Vendor": "Example", "RedfishVersion": "1.15.0", "Systems": ref(f"{ROOT}/Systems")}
    return {
        ROOT: root,
        f"{ROOT}/Systems": {"Members": [ref(uri) for uri in uris]},
        **{uri: system(uri, **more) for uri in uris},
    }


def record(folder: Path, name: str, docs: dict[str, Any]) -> Path:
    for uri, doc in docs.items():
        place = folder / name / uri.strip("/")
        place.mkdir(parents=True, exist_ok=True)
        (place / "index.json").write_bytes(doc if isinstance(doc, bytes) else json.dumps(doc).encode())
    return folder


def pack(folder: Path, name: str, docs: dict[str, Any]) -> None:
    with tarfile.open(folder / f"{name}.tar.xz", "w:xz") as archive:
        for uri, doc in docs.items():
            data = json.dumps(doc).encode()
            member = tarfile.TarInfo(f"{name}{uri}/index.json")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "make/trees.py", str(folder), *more]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=300, check=False)


def reports(folder: Path, *more: str, status: int = 0) -> dict[str, Any]:
    done = run(folder, "--format", "json", *more)
    assert done.returncode == status, done.stdout + done.stderr
    return {one["tree"]: one for one in json.loads(done.stdout)["trees"]}


def test_what_is_told_of_a_tree(tmp_path: Path) -> None:
    docs = tree("1", EthernetInterfaces=ref(f"{SYSTEM}/EthernetInterfaces"), LastResetTime="2026-01-01T00:00:00Z")
    docs[f"{SYSTEM}/EthernetInterfaces"] = {"Members": [ref(f"{SYSTEM}/EthernetInterfaces/A")]}
    docs[f"{SYSTEM}/EthernetInterfaces/A"] = {"MACAddress": "B8:3F:D2:90:97:C4"}
    report = reports(record(tmp_path, "one", docs))["one"]
    assert (report["system"], report["power"], report["wrong"]) == (SYSTEM, "on", [])
    assert report["identity"]["serial"] == {"value": "SN-1", "source": f"{SYSTEM}#/SerialNumber"}
    assert report["resets"]["force_off"] == {"method": "POST", "uri": RESET, "body": {"ResetType": "ForceOff"}}
    assert report["resets"]["restart"]["error"]["kind"] == "unsupported"
    assert report["restart_shows_by"] == "reset_time"
    body = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    assert report["boot"]["pxe"] == {"method": "PATCH", "uri": SYSTEM, "body": body}
    assert report["boot"]["uefi_http"]["error"]["kind"] == "unsupported"
    assert [(one["mac"], one["sources"]) for one in report["macs"]] == [
        ("b8:3f:d2:90:97:c4", [f"{SYSTEM}/EthernetInterfaces/A#/MACAddress"])
    ]
    assert report["log"]["error"]["what"] == "this BMC shows no system event log"
    text = run(tmp_path).stdout
    assert f"PATCH {SYSTEM} {json.dumps(body)}" in text and "1 trees, 0 of them bad" in text


def logged(**more: Any) -> dict[str, Any]:
    """A tree with a log of three events."""
    log = f"{SYSTEM}/LogServices/SEL"
    docs = tree("1", LogServices=ref(f"{SYSTEM}/LogServices"))
    docs[f"{SYSTEM}/LogServices"] = {"Members": [ref(log)]}
    docs[log] = {"Id": "SEL", "Entries": ref(f"{log}/Entries")}
    rows = [{"Id": str(one), "Created": f"2026-01-0{one}T00:00:00Z", "Severity": "OK", "Message": f"Event {one}"}
            for one in (1, 2, 3)]  # fmt: skip
    docs[f"{log}/Entries"] = {"Members": rows, "Members@odata.count": 3, **more}
    return docs


def test_which_log_would_be_read_is_told(tmp_path: Path) -> None:
    report = reports(record(tmp_path, "one", logged()))["one"]
    told = report["log"]
    assert (told["uri"], told["kind"], told["total"], told["unread"]) == (f"{SYSTEM}/LogServices/SEL", "sel", 3, [])
    assert [one["id"] for one in told["newest"]] == ["3", "2", "1"] and report["wrong"] == []
    line = f"log           {SYSTEM}/LogServices/SEL (sel), 3 entries, the newest 2026-01-03T00:00:00Z ok: Event 3"
    assert line in run(tmp_path).stdout


def test_folders_and_archives_and_a_machine_that_must_be_named(tmp_path: Path) -> None:
    record(tmp_path, "folder", tree("1"))
    pack(tmp_path, "archive", tree("A", "B"))
    told = reports(tmp_path)
    assert told["folder"]["system"] == SYSTEM
    assert told["archive"]["error"]["kind"] == "config" and "A (serial SN-A), B" in told["archive"]["error"]["seen"]
    assert reports(tmp_path / "folder")["folder"]["system"] == SYSTEM
    named = reports(tmp_path, "--system", "B")
    assert named["archive"]["system"] == f"{ROOT}/Systems/B" and named["folder"]["error"]["what"]


@pytest.mark.parametrize("body", [b"", b"null", b"<html>", b"[]", b'{"Systems": 1}'])
def test_a_tree_that_is_none_is_an_error_and_no_traceback(tmp_path: Path, body: bytes) -> None:
    report = reports(record(tmp_path, "odd", {**tree("1"), ROOT: body}))["odd"]
    assert report["error"]["kind"] in ("bad_answer", "unsupported") and "traceback" not in report


def test_what_cannot_be_read_is_told_and_hides_no_other_tree(tmp_path: Path) -> None:
    record(tmp_path, "good", tree("1"))
    pack(tmp_path, "cut", tree("1"))
    whole = (tmp_path / "cut.tar.xz").read_bytes()
    (tmp_path / "cut.tar.xz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.tar.gz").write_text("no archive")
    record(tmp_path, "nested/redfish/v1", tree("1"))  # as a recorder leaves it that was told a folder too deep
    record(tmp_path, "deep", {**tree("1"), ROOT: b"[" * 100_000})
    told = reports(tmp_path, status=1)
    assert told["good"]["system"] == SYSTEM and not told["good"]["wrong"]
    assert (
        "cannot be read" in told["cut.tar.xz"]["unreadable"] and "cannot be read" in told["text.tar.gz"]["unreadable"]
    )
    assert "NAME/redfish/v1/**" in told["nested"]["unreadable"]
    assert told["deep"]["error"]["kind"] == "bad_answer" and "traceback" not in told["deep"]
    assert "3 of them bad: cut.tar.xz, nested, text.tar.gz" in run(tmp_path).stdout


@pytest.mark.parametrize(
    ("claim", "key"),
    [('"another serial"', "wrong"), ("1 // 0", "traceback")],
    ids=["a claim that is wrong", "a driver that breaks"],
)
def test_what_the_drivers_do_wrong_is_bad_and_ends_with_an_error(tmp_path: Path, claim: str, key: str) -> None:
    """In a copy of the tool, whose driver is made to say so."""
    for name in ("trees.py", "trees_claims.py", "trees_recorded.py"):
        shutil.copy(CHECKOUT / "make" / name, tmp_path)
    script = tmp_path / "trees.py"
    asked = "identity = self._asked(lambda bmc: bmc.identify.identity().as_dict())"
    assert script.read_text().count(asked) == 1
    script.write_text(script.read_text().replace(asked, f"{asked}\n        identity['serial'] = {claim}"))
    recordings = record(tmp_path / "recordings", "odd", tree("1"))
    argv = [sys.executable, str(script), str(recordings), "--format", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False, cwd=CHECKOUT)
    report = json.loads(done.stdout)
    assert done.returncode == 1 and report["bad"] == ["odd"] and report["trees"][0][key], done.stderr


def test_what_a_tree_says_reaches_no_terminal(tmp_path: Path) -> None:
    record(tmp_path, "loud", tree("1", Model="\x1b[31mred"))
    assert "\x1b" not in run(tmp_path).stdout and "red" in run(tmp_path).stdout


@pytest.mark.parametrize("made", [False, True])
def test_no_tree_is_told_as_none(tmp_path: Path, made: bool) -> None:
    folder = tmp_path / "empty"
    if made:
        folder.mkdir()
    done = run(folder)
    assert done.returncode == 2 and "no " in done.stderr


CLAIMS: list[tuple[str, Any]] = [
    ("serial", {"identity": {"serial": {"value": "OTHER", "source": f"{SYSTEM}#/SerialNumber"}}}),
    ("power", {"power": "off"}),
    ("no machine", {"system": f"{ROOT}/Systems"}),
    ("is not it", {"resets": {"on": {"method": "POST", "uri": RESET, "body": {"ResetType": "ForceOff"}}}}),
    ("not among", {"resets": {"restart": {"method": "POST", "uri": RESET, "body": {"ResetType": "PowerCycle"}}}}),
    ("not of this machine", {"boot": {"pxe": {"method": "PATCH", "uri": f"{ROOT}/Systems/2", "body": {}}}}),
    (
        "no one-time boot",
        {"boot": {"pxe": {"method": "PATCH", "uri": SYSTEM, "body": {"Boot": {"BootSourceOverrideTarget": "Pxe"}}}}},
    ),
    ("the event 9", {"log": {"uri": f"{SYSTEM}/LogServices/SEL", "newest": [{"id": "9"}], "unread": []}}),
    ("none is claimed", {"log": {"uri": f"{SYSTEM}/LogServices/SEL", "newest": [], "unread": []}}),
    ("does not stand in", {"macs": [{"mac": "b8:3f:d2:90:97:c4", "sources": [f"{SYSTEM}#/SerialNumber"]}]}),
]


@pytest.mark.parametrize(("words", "claim"), CLAIMS, ids=[words for words, _claim in CLAIMS])
def test_a_wrong_claim_is_noticed(monkeypatch: pytest.MonkeyPatch, words: str, claim: dict[str, Any]) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "make"))
    import trees
    import trees_claims
    import trees_recorded

    served = {uri: json.dumps(doc).encode() for uri, doc in logged().items()}
    report = trees.look("one", served)
    assert report["wrong"] == []
    lines = trees_claims.wrong({**report, **claim}, trees_recorded.RecordedBmc(served))
    assert any(words in line for line in lines), lines


def test_two_machines_that_are_told_apart_by_nothing_are_a_wrong_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "make"))
    import trees
    import trees_claims
    import trees_recorded

    served = {uri: json.dumps(doc).encode() for uri, doc in tree("1", "2").items()}
    report = {**trees.look("two", served, "1"), "asked": ""}
    assert "could be as well" in trees_claims.wrong(report, trees_recorded.RecordedBmc(served))[0]


@pytest.mark.slow
def test_every_recorded_tree_is_read_without_a_wrong_claim() -> None:
    done = run(demanded("redfish", "*.tar.xz"))
    assert done.returncode == 0, done.stdout
