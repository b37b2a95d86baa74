# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The site: where a link of a page leads to there, and which lead nowhere. Sphinx itself runs in make docs-site,
as a step of make test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "make" / "docs_site.py"


def program(*words: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(PROGRAM), *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    (folder / "reference").mkdir()
    (folder / "reference" / "index.rst").write_text("Modules\n=======\n", encoding="utf-8")
    done = program("pages", folder / "site", folder / "reference")
    assert done.returncode == 0, done.stderr
    return folder / "site" / "source"


def test_each_page_is_there_and_beside_every_other(source: Path) -> None:
    index = (source / "index.md").read_text(encoding="utf-8")
    listed = {line for line in index.splitlines() if line and " " not in line and not line.startswith((":", "`", "|"))}
    pages = {path.relative_to(source).with_suffix("").as_posix() for path in source.rglob("*.md")} - {"index"}
    assert pages <= listed and {"readme", "how-to/react-to-alerts", "roles/drain", "collection/index"} <= listed
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md"))) - 1 + len(list((ROOT / "roles").glob("*/README.md")))


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("index.md", "(how-to/adopt.md)"),
        ("index.md", "(contributing.md)"),
        ("readme.md", "(how-to/upgrade.md)"),
        ("how-to/use-with-awx.md", "(../roles/awx.md)"),
        ("how-to/use-with-awx.md", "(look-after-the-ledger.md#move-to-postgresql)"),
        (
            "reference/execution-environment.md",
            "(https://github.com/gpufleet/gpufleet.baremetal/blob/main/meta/ee-bindep.txt)",
        ),
        ("roles/awx.md", "(../how-to/use-with-awx.md)"),
    ],
)
def test_a_link_leads_to_where_the_page_is_in_the_site(source: Path, page: str, link: str) -> None:
    assert link in (source / page).read_text(encoding="utf-8")


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    html = tmp_path / "html"
    (html / "a").mkdir(parents=True)
    (html / "index.html").write_text('<a href="a/">A</a><a id="here"></a><a href="#here">B</a>', encoding="utf-8")
    (html / "a" / "index.html").write_text('<a href="../index.html#here">A</a>', encoding="utf-8")
    assert program("links", tmp_path).returncode == 0
    (html / "b.html").write_text('<a href="index.html#gone"></a><img src="c.png"><a href="//x.org">', encoding="utf-8")
    done = program("links", tmp_path)
    assert done.returncode == 1 and done.stdout.splitlines() == [
        "b.html: c.png: no such page",
        "b.html: index.html#gone: no such place in it",
        "2 links lead nowhere",
    ]
