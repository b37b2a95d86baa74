# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a ledger may lie: one place for the machine, and none that is gone with its container."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import places
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.holder import this_run
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.store import Ledger

FORK: Any = multiprocessing.get_context("fork")
DISK = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
LAYER = "27 1 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/a,upperdir=/b\n"
FOLDER_AS_ROOT = "27 1 254:0 /var/lib/containers/storage/vfs/dir/ab / rw - ext4 /dev/vda rw\n"
DATASET = "27 1 0:50 / / rw - zfs rpool/docker/ab rw\n"
VOLUME = "28 27 254:0 /srv/gpu\\040fleet /var/lib/gpufleet rw - ext4 /dev/vda rw\n"
POD = "28 27 254:0 /var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/x /var/lib/gpufleet rw - ext4 /dev/vda rw\n"
ANONYMOUS = f"28 27 254:0 /var/lib/docker/volumes/{'0af3' * 16}/_data /var/lib/gpufleet rw - ext4 /dev/vda rw\n"
NAMED = "28 27 254:0 /var/lib/docker/volumes/gpufleet/_data /var/lib/gpufleet rw - ext4 /dev/vda rw\n"
MEMORY = "28 27 0:51 / /var/lib/gpufleet rw - tmpfs tmpfs rw\n"
RUNNER = "28 27 254:0 /tmp/awx_1 /runner rw - ext4 /dev/vda rw\n"
URL = "sqlite:////var/lib/gpufleet/ledger.sqlite"
VARIABLES = (
    *("GPUFLEET_LEDGER_URL", "GPUFLEET_LEDGER_MAY_BE_LOST", "XDG_STATE_HOME", "AWX_HOST", "AWX_JOB_ID"),
    *("AWX_PRIVATE_DATA_DIR", "TOWER_JOB_ID", "TOWER_HOST", "CONTROLLER_HOST", "JOB_ID", "KUBERNETES_SERVICE_HOST"),
)
#: AWX names its own side of a job's folder, which the job's container has as /runner.
PRIVATE = "/tmp/awx_812_x1y2"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine of the test's own: its disk, its folder of state, and a user's home."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "mounts").write_text(DISK)
    monkeypatch.setattr(places, "MACHINE_FOLDER", str(tmp_path / "var" / "gpufleet"))
    monkeypatch.setattr(places, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(places, "_MARKS", (str(tmp_path / "mark"),))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield tmp_path


def contained(machine: Path, mounts: str) -> None:
    (machine / "mark").touch()
    (machine / "mounts").write_text(mounts)


# -- one place for the machine -----------------------------------------------------------------------------------------


def test_q7_users_who_name_no_ledger_have_one_together(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for user in ("ann", "bob"):
        monkeypatch.setenv("HOME", str(machine / user))
        monkeypatch.setenv("XDG_STATE_HOME", str(machine / user / "state"))
        places.check("")
        found.add(places.default_url())
    assert found == {f"sqlite:///{machine}/var/gpufleet/ledger.sqlite"}


def test_q7_the_machines_place_is_private(machine: Path) -> None:
    places.check("")
    with Ledger() as ledger:
        assert ledger.url == places.default_url()
    assert (machine / "var" / "gpufleet").stat().st_mode & 0o777 == 0o700


@pytest.mark.needs_root
@pytest.mark.parametrize("there", [True, False])
def test_q7_who_may_not_write_there_gets_no_ledger_of_his_own(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # every user comes as far as that
    request.addfinalizer(lambda: shutil.rmtree(folder))
    folder.chmod(0o755)
    monkeypatch.setattr(places, "MACHINE_FOLDER", str(folder / "gpufleet"))
    if there:
        Ledger().close()
    told = FORK.Queue()

    def ask() -> None:
        os.setuid(65534)
        for url, create in (("", True), ("", False), (places.default_url(), False)):
            try:
                places.check(url)
                told.put(str(Ledger(url, create=create).shown_url))
            except ConfigError as exc:
                told.put((exc.what, exc.do))

    process = FORK.Process(target=ask)
    process.start()
    said = [told.get(timeout=60) for _number in range(3)]
    process.join(60)
    assert [what for what, _do in said[:2]] == [
        "no ledger is named, and this user may not write that of this machine"
    ] * 2
    assert "gpufleet_ledger_url" in said[0][1] and "install -d -m 0700 -o 65534" in said[0][1]
    if there:
        assert said[2][0] == "this user may not look into the folder of the ledger", "it is no empty one"


def test_q7_a_users_ledger_of_an_earlier_release_is_not_left_behind_in_silence(machine: Path) -> None:
    earlier = machine / "home" / ".local" / "state" / "gpufleet" / "ledger.sqlite"
    Ledger(f"sqlite:///{earlier}").close()
    with pytest.raises(ConfigError, match="one of an earlier release") as caught:
        places.check("")
    assert str(earlier) in caught.value.do and "gpufleet_ledger_url" in caught.value.do
    places.check(f"sqlite:///{earlier}")
    Ledger().close()
    places.check("")


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///var/lib/gpufleet/ledger.sqlite",
        "sqlite://var/l.sqlite",
    ]
    + ["sqlite+pysqlite:///l.sqlite", "sqlite:/var/lib/gpufleet/ledger.sqlite", "sqlite"],
)
def test_u8_a_url_that_is_another_file_for_each_run_or_task_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="absolute path") as caught:
        places.check(url)
    assert "gpufleet_ledger_url" in caught.value.do and caught.value.seen == url


# -- a container, a job of a controller --------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [LAYER, FOLDER_AS_ROOT, DATASET])
@pytest.mark.parametrize(
    ("mount", "kept"),
    [
        *(("", False), (VOLUME, True), (POD, False), (MEMORY, False), (VOLUME + MEMORY, False)),
        *((ANONYMOUS, False), (NAMED, True)),
    ],
)
def test_w2_a_file_in_a_container_is_refused_unless_it_outlives_it(
    machine: Path, root: str, mount: str, kept: bool
) -> None:
    contained(machine, root + mount)
    if kept:
        places.check(URL)
        return
    with pytest.raises(ConfigError, match="is gone with it") as caught:
        places.check(URL)
    assert "gpufleet_ledger_url" in caught.value.do and "mount" in caught.value.do


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "gpfs", "gfs2", "ocfs2", "beegfs", "fuse.glusterfs"),
        *("fuse.mfs", "fuse.juicefs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.made-tomorrow"),
    ],
)
@pytest.mark.parametrize("root", [DISK, LAYER])
def test_w2_no_file_is_kept_where_several_machines_write(
    machine: Path, monkeypatch: pytest.MonkeyPatch, root: str, kind: str
) -> None:
    """SQLite's journal needs memory that all who write have in common."""
    monkeypatch.setattr(places, "MACHINE_FOLDER", "/var/lib/gpufleet")
    if root == LAYER:
        contained(machine, "")
    (machine / "mounts").write_text(f"{root}28 27 0:61 / /var/lib/gpufleet rw - {kind} filer:/gpufleet rw\n")
    for url in (URL, *([""] if root == DISK else [])):
        with pytest.raises(ConfigError, match="a file system of several machines") as caught:
            places.check(url)
        assert kind in caught.value.seen and "filer:/gpufleet" in caught.value.seen
    places.check("postgresql:///gpufleet")
    monkeypatch.setenv("GPUFLEET_LEDGER_MAY_BE_LOST", "yes")
    places.check(URL)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "zfs", "nfsd", "fuseblk", "fuse.bindfs", "fuse.gocryptfs"])
def test_w2_a_file_system_of_this_machine_alone_is_a_place(machine: Path, kind: str) -> None:
    (machine / "mounts").write_text(f"{DISK}28 27 0:61 / /var/lib/gpufleet rw - {kind} /dev/vdb rw\n")
    places.check(URL)


def test_w2_without_a_url_a_container_has_no_ledger(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contained(machine, LAYER + VOLUME)
    with pytest.raises(ConfigError, match="no ledger is named") as caught:
        places.check("")
    assert "neither gpufleet_ledger_url nor GPUFLEET_LEDGER_URL is set" in str(caught.value)
    monkeypatch.setenv("GPUFLEET_LEDGER_URL", URL)
    places.check("")


@pytest.mark.parametrize("url", ["postgresql+psycopg://gpufleet@db.example.com/gpufleet", "postgresql:///gpufleet"])
def test_w2_a_server_is_a_place_for_all(machine: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    contained(machine, LAYER)
    monkeypatch.setenv("AWX_HOST", "https://awx.example.com")
    places.check(url)


def test_w2_a_pod_needs_no_mark_of_an_engine(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "mounts").write_text(LAYER)
    places.check(URL)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(ConfigError, match="is gone with it"):
        places.check(URL)


def test_w2_a_machine_whose_disk_was_made_of_an_image_is_a_machine(machine: Path) -> None:
    contained(machine, DISK)
    places.check("")
    places.check(URL)


@pytest.mark.parametrize(
    "names",
    [
        *(("AWX_HOST",), ("AWX_JOB_ID",), ("TOWER_JOB_ID",), ("AWX_PRIVATE_DATA_DIR",)),
        *(("CONTROLLER_HOST", "JOB_ID"), ("TOWER_HOST", "JOB_ID"), ("AWX_HOST", "AWX_PRIVATE_DATA_DIR", "JOB_ID")),
    ],
)
def test_w2_a_job_of_a_controller_needs_a_url(
    machine: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    for name in names:
        monkeypatch.setenv(name, PRIVATE)
    with pytest.raises(ConfigError, match="a job of an automation controller"):
        places.check("")
    with pytest.raises(ConfigError, match="reads no list of servers"):
        places.check_in_project("/etc/passwd")
    places.check(URL)  # it runs on the machine itself
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", "/tmp/awx_1")  # what is /runner in its container
    (machine / "mounts").write_text(DISK + RUNNER)
    with pytest.raises(ConfigError, match="is gone with it"):
        places.check("sqlite:////runner/project/ledger.sqlite")


@pytest.mark.parametrize("name", ["CONTROLLER_HOST", "TOWER_HOST", "JOB_ID"])
def test_w2_who_sets_up_a_controller_or_has_a_batch_systems_job_is_none(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "https://awx.example.com")
    places.check("")
    places.check_in_project("/etc/passwd")
    places.check_file("/runner/report.html", "the report")


@pytest.mark.parametrize("root", [DISK, LAYER])
def test_w2_a_jobs_own_folder_is_no_place_on_either_side(
    machine: Path, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    contained(machine, root + RUNNER + RUNNER.replace("/runner", PRIVATE))
    monkeypatch.setenv("AWX_HOST", "https://awx.example.com")
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", PRIVATE)
    for home in ("/runner", PRIVATE):
        with pytest.raises(ConfigError, match="is gone with it"):
            places.check(f"sqlite:///{home}/ledger.sqlite")
        with pytest.raises(ConfigError, match="the report would lie in a job"):
            places.check_file(f"{home}/artifacts/report.html", "the report")


def test_a_jobs_project_is_told_as_its_container_has_it(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWX_HOST", "https://awx.example.com")
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", PRIVATE)
    places.check_in_project("/runner/project/lists/servers.csv")
    for path in ("/runner/artifacts/812/command", "/runner/project/../env/envvars", "/runner/projects/x"):
        with pytest.raises(ConfigError, match="reads no list of servers") as caught:
            places.check_in_project(path)
        assert caught.value.wanted.startswith("a file below /runner/project,")


FILES = "28 27 0:60 / /var/lib/gpufleet-files rw - nfs4 nas:/files rw\n"


@pytest.mark.parametrize(
    ("mounts", "path", "kept"),
    [
        (LAYER + FILES, "/var/lib/gpufleet-files/report.html", True),
        (LAYER, "/var/lib/gpufleet-files/report.html", False),
        (LAYER + RUNNER, "/runner/project/report.html", False),
        (DISK + RUNNER, "/runner/project/report.html", False),
        (LAYER + MEMORY, "/var/lib/gpufleet/report.html", False),
        (DISK, "/var/lib/gpufleet-files/report.html", True),
    ],
)
def test_a_file_for_people_outlives_the_job_that_writes_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, path: str, kept: bool
) -> None:
    """One of several machines is a good place for it, and a container that a person is in is theirs."""
    contained(machine, mounts)
    places.check_file(path, "the report")
    monkeypatch.setenv("AWX_HOST", "https://awx.example.com")
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", "/tmp/awx_1")  # what is /runner in its container
    if kept:
        places.check_file(path, "the report")
        return
    with pytest.raises(ConfigError, match="the report would lie in a job") as caught:
        places.check_file(path, "the report")
    assert "awx_files" in caught.value.do and caught.value.seen.startswith("/")


def test_w2_who_tries_something_out_says_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contained(machine, LAYER)
    for url in ("", URL):
        with pytest.raises(ConfigError, match="GPUFLEET_LEDGER_MAY_BE_LOST=yes"):
            places.check(url)
    monkeypatch.setenv("GPUFLEET_LEDGER_MAY_BE_LOST", "yes")
    places.check(URL)


INSIDE = """
import json, sys
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger import places
told = []
for url in sys.argv[1:]:
    try:
        told.append(places.check(url) or "")
    except ConfigError as exc:
        told.append(exc.what)
print(json.dumps(told))
"""


@pytest.mark.needs_root
def test_w2_a_real_container_is_known(tmp_path: Path) -> None:
    """One made by the kernel's own means, as engines make theirs: layers for a root, and one folder from outside."""
    layers = tmp_path / "layers"
    subprocess.run(["mkdir", "-p", *(f"{layers}/{name}" for name in ("up", "work", "root", "kept"))], check=True)
    script = (
        f"set -e; mount -t tmpfs none {layers}; cd {layers}; mkdir up work root kept; touch up/.dockerenv;"
        f" mount -t overlay none -o lowerdir=/,upperdir={layers}/up,workdir={layers}/work root;"
        " mkdir -p root/kept root/proc; mount -t proc none root/proc; mount --bind /var/tmp root/kept;"
        ' exec chroot root "$@"'
    )
    asked = [sys.executable, "-c", INSIDE, "", "sqlite:////var/lib/l.sqlite", "sqlite:////kept/l.sqlite"]
    path = os.environ["PYTHONPATH"]
    if subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "/"], capture_output=True, check=True).stdout == b"overlay\n":
        pytest.skip("layers upon layers need a root that is no such thing itself")
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *asked],
        capture_output=True, check=False, text=True, env={"PYTHONPATH": path, "PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    nobody, layer, kept = json.loads(done.stdout)
    assert "no ledger is named" in nobody and "lies in a container" in layer and kept == ""


def test_w4_a_run_of_awx_is_found_by_the_number_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWX 24 tells it in JOB_ID, which means something else where it is not AWX that tells it."""
    monkeypatch.delenv("GPUFLEET_RUN_ID", raising=False)
    monkeypatch.setenv("JOB_ID", "4711")
    assert not this_run(os.getpid()).run_id.startswith("awx-")
    monkeypatch.setenv("AWX_HOST", "https://awx.example.com")
    assert this_run(os.getpid()).run_id.startswith(f"awx-4711-{os.getpid()}-")
