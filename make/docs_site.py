# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation as a site: pages, roles, and the reference of all plugins, with every link followed.

docs_site.py pages SITE REFERENCE    lay out SITE/source: the pages of docs/, the READMEs, what antsibull-docs wrote
docs_site.py links SITE              follow each link in SITE/html that stays there; 1 where one leads nowhere
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
CONF = "docs_site_conf.py"
REPOSITORY = "https://github.com/gpufleet/gpufleet.baremetal/blob/main/"
#: Where pages come from, and what they are called there.
SINGLE = {"docs/README.md": "index.md", "README.md": "readme.md", "CONTRIBUTING.md": "contributing.md"}
SINGLE["inventory/README.md"] = "inventory-examples.md"
SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How to",
    "explanation": "Explanation",
    "reference": "Reference",
    "roles": "Roles",
}
ANSIBLE = "https://docs.ansible.com/ansible/latest/"
#: What antsibull-docs refers to there: its label, what it is called, and where it stands.
LABELS = (
    ("action_plugins", "Action plugins", "plugins/action.html"),
    ("callback_plugins", "Callback plugins", "plugins/callback.html"),
    ("common_return_values", "Common return values", "reference_appendices/common_return_values.html"),
    ("ansible_configuration_settings", "Configuration settings", "reference_appendices/config.html"),
)
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")
_FENCE = re.compile(r"^\s*(```|~~~)")


def places() -> dict[str, str]:
    """By path in the repository, the path in the site."""
    found = dict(SINGLE)
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        found.setdefault(name, name.removeprefix("docs/"))
    for path in sorted((ROOT / "roles").glob("*/README.md")):
        found[path.relative_to(ROOT).as_posix()] = f"roles/{path.parent.name}.md"
    return {name: place for name, place in found.items() if (ROOT / name).is_file()}


def moved(text: str, name: str, known: dict[str, str]) -> str:
    """The page, with each link to a file led to where that is in the site, or else to the repository."""
    lines, fenced = [], False
    for line in text.splitlines(keepends=True):
        fenced = fenced is not bool(_FENCE.match(line))
        lines.append(line if fenced else _LINK.sub(lambda link: link[1] + led(link[2], name, known) + link[3], line))
    return "".join(lines)


def led(target: str, name: str, known: dict[str, str]) -> str:
    parts = urlsplit(target)
    if parts.scheme or not parts.path:
        return target
    there = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
    anchor = f"#{parts.fragment}" if parts.fragment else ""
    if there not in known:
        return f"{REPOSITORY}{there}{anchor}"
    return posixpath.relpath(known[there], posixpath.dirname(known[name]) or ".") + anchor


def contents(known: dict[str, str]) -> str:
    """What stands beside each page, section by section."""
    single = [Path(place).stem for place in known.values() if place in SINGLE.values() and place != "index.md"]
    parts = [toctree("The collection", single)]
    for folder, title in SECTIONS.items():
        parts.append(toctree(title, sorted(place[:-3] for place in known.values() if place.startswith(f"{folder}/"))))
    return "\n".join([*parts, toctree("Modules and plugins", ["collection/index"])])


def toctree(title: str, names: list[str]) -> str:
    return "\n```{toctree}\n:hidden:\n:maxdepth: 1\n:caption: " + title + "\n\n" + "\n".join(names) + "\n```\n"


def lay_out(site: Path, reference: Path) -> None:
    shutil.rmtree(site, ignore_errors=True)
    source, known = site / "source", places()
    for name, place in known.items():
        page = source / place
        page.parent.mkdir(parents=True, exist_ok=True)
        text = moved((ROOT / name).read_text(encoding="utf-8"), name, known)
        page.write_text(text + (contents(known) if place == "index.md" else ""), encoding="utf-8")
    shutil.copytree(reference, source / "collection")
    (source / "collection" / "ansible.rst").write_text(of_ansible(), encoding="utf-8")
    shutil.copy(ROOT / "make" / CONF, source / "conf.py")


def of_ansible() -> str:
    """A page that has what the reference refers to in Ansible's own documentation, whose index lies in the network."""
    parts = [f".. _{label}:\n\n{title}\n{'-' * len(title)}\n\n{ANSIBLE}{page}\n" for label, title, page in LABELS]
    return ":orphan:\n\nAnsible's own documentation\n===========================\n\n" + "\n".join(parts)


# -- links -------------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """ids: what a link may lead to in it. links: where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = {""}
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.ids |= {told[name] or "" for name in ("id", "name") if told.get(name)}
        self.links += [told[name] or "" for name in ("href", "src") if told.get(name)]


def dead(html: Path) -> Iterator[str]:
    """Each link within the site that leads to no page, or to no place in one."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(html.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(html)}: {link}: no such page"
            elif target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path.relative_to(html)}: {link}: no such place in it"


def main() -> int:
    if sys.argv[1:2] == ["pages"] and len(sys.argv) == 4:
        lay_out(Path(sys.argv[2]), Path(sys.argv[3]))
        return 0
    if sys.argv[1:2] == ["links"] and len(sys.argv) == 3:
        found = sorted(set(dead(Path(sys.argv[2]) / "html")))
        print("\n".join([*found, f"{len(found)} links lead nowhere"]))
        return 1 if found else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
