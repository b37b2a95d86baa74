# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_verify in artifact mode: what is tampered with is refused, and the message says what it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import trustme
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _away as away
from ansible_collections.gpufleet.baremetal.plugins.module_utils import _fetch as fetch
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, Fenced, Unreachable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.image import image_verify
from ansible_collections.gpufleet.baremetal.plugins.module_utils._trust.specs import IMAGE_VERIFY
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context, Lifeline

DEFAULTS = {name: option.get("default") for name, option in IMAGE_VERIFY.items()}


def verify(image: dict[str, Any], **params: Any) -> dict[str, Any]:
    ctx = Context(node="gpu001")
    return image_verify({**DEFAULTS, "image": image, **params}, ctx).as_dict(ctx)


def findings(result: dict[str, Any]) -> set[str]:
    return {item["id"] for item in result["findings"]}


def test_a_good_image(image: Any, keys: Any) -> None:
    result = verify(image.declared())
    assert result["verdict"] == "pass" and "failed" not in result and not result["changed"]
    assert result["image"]["sha256"] == image.sha256 and result["image"]["signer"] == keys.fingerprints["images"]
    assert {check["id"] for check in result["checks"]} >= {"signature", "digest", "declared_digest", "size", "manifest"}
    [event] = result["events"]
    assert (event["kind"], event["name"]) == ("verdict", "image_artifact")
    assert set(event["data"]) >= {
        "schema", "gate", "verdict", "checks", "findings", "tool", "argv", "started", "ended", "evidence_digest",
    }  # fmt: skip


def test_paths_are_urls_too(image: Any) -> None:
    assert verify(image.declared(base=str(image.folder)))["verdict"] == "pass"


def test_over_http(image: Any, web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert verify(image.declared(base=web.url))["verdict"] == "pass"


def test_a_blank_in_the_name_of_a_file_is_sent_in_quotes(image: Any, web: Any) -> None:
    (image.folder / "hpc 1.4.sig").write_bytes(b"signed")
    assert fetch.read_small(f"{web.url}/hpc 1.4.sig", ca_path=None, timeout=5.0) == b"signed"


def test_over_tls_only_the_authority_that_was_named_counts(
    image: Any, web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    web.over_tls(context)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(away, "AWAY_INTERVAL", 60.0)
    ca_path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_path))
    assert verify(image.declared(base=web.url), ca_path=str(ca_path))["verdict"] == "pass"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(ca_path))
    begun = time.monotonic()
    unknown = verify(image.declared(base=web.url), run_cache="run-1")
    assert unknown["verdict"] == "inconclusive" and "SSLError" in unknown["msg"]
    assert "set ca_path in gpufleet_image" in unknown["msg"]
    lost = verify(image.declared(base=web.url, ca_path=str(tmp_path / "lost.pem")), run_cache="run-1")
    assert lost["kind"] == "artifact" and "correct ca_path in gpufleet_image" in lost["msg"]
    assert time.monotonic() - begun < 50.0, "a certificate does not become trusted by waiting"


def test_a_tampered_artifact(image: Any) -> None:
    declared = image.declared(sha256=None)
    content = image.artifact.read_bytes()
    image.artifact.write_bytes(b"X" + content[1:])
    result = verify(declared)
    assert result["verdict"] == "fail" and result["failed"]
    assert findings(result) == {"tampered_artifact"}
    assert "hpc-1.4.tar.gz is not the one that was signed" in result["msg"]


def test_tampered_checksums(image: Any) -> None:
    image.artifact.write_bytes(b"evil")
    sums = image.folder / "SHA256SUMS"
    signature = (image.folder / "SHA256SUMS.asc").read_bytes()
    image.publish()
    (image.folder / "SHA256SUMS.asc").write_bytes(signature)
    result = verify(image.declared())
    assert result["verdict"] == "fail" and findings(result) == {"bad_signature"}
    assert sums.name in result["msg"]


def test_a_wrong_signer(image: Any, keys: Any) -> None:
    image.publish(signer="stranger")
    result = verify(image.declared())
    assert result["verdict"] == "fail" and findings(result) == {"wrong_signer"}
    assert keys.fingerprints["stranger"] in result["msg"]


def test_a_tampered_manifest(image: Any) -> None:
    path = image.folder / "hpc-1.4.manifest.json"
    path.write_text(path.read_text().replace("590.48.01", "535.00.00"))
    result = verify(image.declared())
    assert result["verdict"] == "fail" and findings(result) == {"tampered_manifest"}


def test_a_manifest_of_another_version(image: Any) -> None:
    result = verify(image.declared(version="1.5"))
    assert result["verdict"] == "fail" and findings(result) == {"other_image_declared"}


def test_another_digest_is_declared_than_signed(image: Any) -> None:
    result = verify(image.declared(sha256="0" * 64))
    assert result["verdict"] == "fail" and findings(result) == {"other_digest_declared"}


def test_the_declared_digest_may_say_its_kind(image: Any) -> None:
    assert verify(image.declared(sha256=f"sha256:{image.sha256.upper()}"))["verdict"] == "pass"


def test_a_wrong_size(image: Any) -> None:
    result = verify(image.declared(size=1))
    assert result["verdict"] == "fail" and findings(result) == {"wrong_size"}


def test_conflicting_checksums(image: Any) -> None:
    line = f"{image.sha256}  hpc-1.4.tar.gz\n"
    image.publish(sums=(line + line.replace(image.sha256, "0" * 64)).encode())
    result = verify(image.declared())
    assert result["verdict"] == "fail" and findings(result) == {"conflicting_checksums"}


def test_an_artifact_that_is_not_listed(image: Any) -> None:
    image.publish(sums=f"{image.sha256}  other.tar.gz\n".encode())
    result = verify(image.declared())
    assert result["verdict"] == "fail" and findings(result) == {"not_listed"}


@pytest.mark.parametrize("missing", ["signature_url", "keyring"])
def test_what_is_not_signed_never_passes(image: Any, missing: str) -> None:
    result = verify(image.declared(**{missing: None}))
    assert result["verdict"] == "inconclusive" and result["failed"]
    assert findings(result) == {"signature_not_declared"}


def test_nothing_is_declared(image: Any) -> None:
    result = verify({"name": "hpc", "version": "1.4", "url": str(image.artifact)})
    assert result["verdict"] == "inconclusive" and result["failed"]
    with pytest.raises(ConfigError, match="missing: name, version, url"):
        verify({})
    with pytest.raises(ConfigError, match="missing: version"):
        verify({"name": "hpc", "url": "x"})


def test_a_signature_over_the_artifact_itself(image: Any, keys: Any) -> None:
    path = image.folder / "hpc-1.4.tar.gz.asc"
    path.write_bytes(keys.sign("images", image.artifact.read_bytes()))
    declared = image.declared(checksums_url=None, signature_url=str(path))
    good = verify(declared)
    assert good["verdict"] == "pass" and good["image"]["sha256"] == image.sha256
    image.artifact.write_bytes(b"X" + image.artifact.read_bytes()[1:])
    bad = verify(declared)
    assert bad["verdict"] == "fail" and findings(bad) == {"bad_signature"}


def test_without_reading_the_artifact(image: Any, web: Any) -> None:
    result = verify(image.declared(base=web.url), deep=False)
    assert result["verdict"] == "pass"
    assert "/hpc-1.4.tar.gz" not in web.asked
    undeclared = verify(image.declared(base=web.url, sha256=None), deep=False)
    assert undeclared["verdict"] == "inconclusive" and "gpufleet_image must declare sha256" in undeclared["msg"]


@pytest.mark.parametrize("deep", [True, False])
def test_v9_the_kernel_is_signed_like_the_artifact(image: Any, deep: bool) -> None:
    declared = image.declared(kernel_url=f"file://{image.folder}/vmlinuz")
    assert verify(declared, deep=deep)["verdict"] == "pass"
    (image.folder / "vmlinuz").write_bytes(b"evil")
    bad = verify(declared, deep=deep)
    assert bad["verdict"] == "fail" and findings(bad) == {"tampered_kernel"}, bad["msg"]
    (image.folder / "other").write_bytes(b"kernel" * 4000)
    unlisted = verify(image.declared(kernel_url=f"file://{image.folder}/other"), deep=deep)
    assert unlisted["verdict"] != "pass" and "other" in unlisted["msg"]


def test_v9_a_kernel_beside_an_artifact_that_is_signed_itself_is_signed_by_nobody(image: Any, keys: Any) -> None:
    path = image.folder / "hpc-1.4.tar.gz.asc"
    path.write_bytes(keys.sign("images", image.artifact.read_bytes()))
    kernel = f"file://{image.folder}/vmlinuz"
    result = verify(image.declared(checksums_url=None, signature_url=str(path), kernel_url=kernel))
    assert result["verdict"] == "inconclusive" and findings(result) == {"kernel_not_declared"}


def test_v9_a_verdict_names_the_declaration_that_it_is_of(image: Any) -> None:
    told = [
        verify(image.declared(**other))["image"]["declared"]
        for other in ({}, {}, {"kernel_url": f"file://{image.folder}/vmlinuz"}, {"named": "x"}, {"size": None})
    ]
    assert told[0] == told[1] == told[4] and len(set(told)) == 3


def test_what_cannot_be_fetched_is_inconclusive(image: Any, web: Any) -> None:
    gone = verify(image.declared(base=web.url, url=f"{web.url}/nowhere/hpc-1.4.tar.gz"))
    assert gone["verdict"] == "inconclusive" and "HTTP 404" in gone["msg"]
    dead = verify(image.declared(base="http://user:hunter2@127.0.0.1:9"))
    assert dead["verdict"] == "inconclusive" and "hunter2" not in str(dead)


@pytest.mark.parametrize(
    ("option", "value"), [("ca_path", "/nope.pem"), ("timeout", 0), ("timeout", -1), ("timeout", 10**12)]
)
def test_v2_an_option_that_cannot_be_used_is_named(image: Any, web: Any, option: str, value: Any) -> None:
    result = verify(image.declared(base=web.url), **{option: value})
    assert result["verdict"] == "inconclusive" and f"the option {option}" in result["msg"]
    assert findings(result) == {"config"}


@pytest.mark.parametrize("status", [203, 206, 301, 403, 500, 503])
def test_t1_only_200_is_the_file(image: Any, web: Any, status: int) -> None:
    """The body is the right one: a server that is half there, or answers for another, has not given it."""
    web.status = status
    result = verify(image.declared(base=web.url))
    assert result["verdict"] == "inconclusive" and f"HTTP {status}" in result["msg"]


def test_t1_a_file_that_was_cut_while_it_was_read_is_no_other_file(image: Any, web: Any) -> None:
    """To call it tampered would send people to look for an attacker."""
    declared = image.declared(base=web.url)
    web.short = 3
    result = verify(declared, timeout=2)
    assert findings(result) == {"unreachable"}, result["msg"]


@pytest.mark.parametrize("change", [-3, 3])
def test_t1_a_file_that_changes_its_length_while_it_is_read_is_not_whole(image: Any, change: int) -> None:
    size = image.artifact.stat().st_size
    with fetch.opened(str(image.artifact), ca_path=None, timeout=5) as source:
        os.truncate(image.artifact, size + change)
        with pytest.raises(Unreachable, match="ended early"):
            list(source.pieces)


def test_a_short_answer_is_inconclusive(image: Any, web: Any) -> None:
    declared = image.declared(base=web.url)
    web.short = 3
    assert verify(declared, timeout=2)["verdict"] == "inconclusive"


def test_a_signature_file_as_large_as_a_film(image: Any) -> None:
    with open(image.folder / "SHA256SUMS.asc", "r+b") as target:
        target.truncate(3 * 1024 * 1024)
    result = verify(image.declared())
    assert result["verdict"] == "inconclusive" and "more than can be expected" in result["msg"]


@pytest.mark.parametrize("fail_on,fails", [("never", False), ("fail", False), ("inconclusive", True)])
def test_who_judges(image: Any, fail_on: str, fails: bool) -> None:
    result = verify(image.declared(signature_url=None), fail_on=fail_on)
    assert result.get("failed", False) is fails and result["verdict"] == "inconclusive"


# -- once a run --------------------------------------------------------------------------------------------------------


def test_a_batch_reads_the_artifact_once(image: Any, web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    fork = multiprocessing.get_context("fork")
    declared = image.declared(base=web.url)
    answers = fork.Queue()

    def one() -> None:
        answers.put(verify(declared, run_cache="run-1")["verdict"])

    group = [fork.Process(target=one) for _number in range(6)]
    for process in group:
        process.start()
    assert [answers.get(timeout=60) for _process in group] == ["pass"] * 6
    for process in group:
        process.join(30)
    assert web.asked.count("/SHA256SUMS") == web.asked.count("/hpc-1.4.manifest.json") == 1
    folder = tmp_path / f"gpufleet-trust-{os.getuid()}"
    assert folder.stat().st_mode & 0o077 == 0


def test_another_run_believes_nothing(image: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    declared = image.declared(sha256=None)
    assert verify(declared, run_cache="run-1")["verdict"] == "pass"
    told = image.artifact.stat()
    image.artifact.write_bytes(b"X" + image.artifact.read_bytes()[1:])
    assert verify(declared, run_cache="run-1")["verdict"] == "fail", "a changed file is read again"
    image.artifact.write_bytes(b"artifact" * 40000)
    os.utime(image.artifact, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert verify(declared, run_cache="run-1")["verdict"] == "pass"
    image.publish(signer="stranger")
    assert verify(declared, run_cache="run-2")["verdict"] == "fail"


def test_t1_what_was_remembered_holds_for_the_same_signers_and_keyring_alone(
    image: Any, keys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert verify(image.declared(), run_cache="run-1")["verdict"] == "pass"
    others = verify(image.declared(), run_cache="run-1", signers=[keys.fingerprints["stranger"]])
    assert others["verdict"] == "fail" and findings(others) == {"wrong_signer"}
    image.keyring.write_bytes(keys.ring("stranger"))
    assert verify(image.declared(), run_cache="run-1")["verdict"] == "fail"


@pytest.mark.parametrize("signed", ["sums", "artifact"])
def test_t1_only_the_signers_that_were_asked_for_count(image: Any, keys: Any, signed: str) -> None:
    """Both keys are in the keyring; one of them is not to sign images."""
    image.keyring.write_bytes(keys.ring("images", "stranger"))
    declared = image.declared()
    if signed == "artifact":
        path = image.folder / "hpc-1.4.tar.gz.asc"
        path.write_bytes(keys.sign("images", image.artifact.read_bytes()))
        declared = image.declared(checksums_url=None, signature_url=str(path))
    assert verify(declared, signers=[keys.fingerprints["images"]])["verdict"] == "pass"
    other = verify(declared, signers=[keys.fingerprints["stranger"]])
    assert other["verdict"] == "fail" and findings(other) == {"wrong_signer"}


def test_t1_a_digest_is_held_against_an_artifact_that_is_signed_itself(image: Any, keys: Any) -> None:
    path = image.folder / "hpc-1.4.tar.gz.asc"
    path.write_bytes(keys.sign("images", image.artifact.read_bytes()))
    declared = image.declared(checksums_url=None, signature_url=str(path), sha256="0" * 64)
    result = verify(declared)
    assert result["verdict"] == "fail" and findings(result) == {"other_digest_declared"}


@pytest.mark.parametrize("content", [{"schema": 2}, {"version": None}, {"driver": 590}])
def test_t1_a_signed_manifest_of_another_form_is_none(image: Any, content: dict[str, Any]) -> None:
    path = image.folder / "hpc-1.4.manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
    image.publish()
    result = verify(image.declared())
    assert result["verdict"] == "inconclusive" and findings(result) == {"bad_answer"}


class Orphaned(Lifeline):
    """The run is gone as soon as anybody asks."""

    def beat(self) -> None:
        raise Fenced("the run that this worker belongs to is gone")


@pytest.mark.parametrize("size", [10, 3 * 1024 * 1024])
def test_t1_a_run_that_is_gone_reads_no_further(image: Any, size: int) -> None:
    image.artifact.write_bytes(b"x" * size)
    image.publish()
    ctx = Context(node="gpu001", lifeline=Orphaned())
    with pytest.raises(Fenced):
        image_verify({**DEFAULTS, "image": image.declared()}, ctx)


@pytest.mark.parametrize("kind", ["folder", "device"])
def test_t1_what_is_no_file_is_not_read(image: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "hpc-1.4.tar.gz"
    path.symlink_to("/dev/null" if kind == "device" else tmp_path)
    result = verify(image.declared(url=str(path)))
    assert result["verdict"] == "inconclusive"


def test_t1_a_failure_is_not_remembered(image: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    content = image.artifact.read_bytes()
    image.publish(signer="stranger")
    assert verify(image.declared(), run_cache="run-1")["verdict"] == "fail"
    image.publish()
    assert image.artifact.read_bytes() == content
    assert verify(image.declared(), run_cache="run-1")["verdict"] == "pass"


@pytest.mark.parametrize("mode", [0o770, 0o705])
def test_a_cache_that_others_may_write_is_refused(
    image: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"gpufleet-trust-{os.getuid()}").mkdir()
    (tmp_path / f"gpufleet-trust-{os.getuid()}").chmod(mode)
    with pytest.raises(ConfigError, match="somebody else"):
        verify(image.declared(), run_cache="run-1")
