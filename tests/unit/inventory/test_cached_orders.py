# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a source says goes into a cache as one text, and comes out as what it was: ansible-core obeys no word of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROW = "name,serial,ansible_host\n"


def order(mark: Path) -> dict[str, Any]:
    """In ansible-core's own form of JSON: a string, trusted as a template, that runs a program."""
    value = "{{ lookup('ansible.builtin.pipe', 'id > " + str(mark) + "') }}"
    return {"__ansible_type": "_AnsibleTaggedStr", "value": value, "tags": [{"__ansible_type": "TrustedAsTemplate"}]}


@pytest.mark.parametrize(
    "more",
    [
        {"filters": [{"exclude": "ironic_properties.vendor == 'x'"}]},
        {"filters": [{"exclude": "note == 'x'"}]},
        {"compose": {"text": "ironic_properties.vendor"}, "groups": {"some": "note != 'x'"}},
    ],
)
def test_s1_no_order_comes_out_of_the_cache(site: Any, ironic: Any, tmp_path: Path, more: dict[str, Any]) -> None:
    mark = tmp_path / "mark"
    ironic.add("gpu001", "52:54:00:77:00:01", properties={"vendor": order(mark)}, extra={"note": order(mark)})
    nonsense = {"vendor": {"__ansible_type": "nonsense"}}
    ironic.add("gpu002", "52:54:00:77:00:02", properties=nonsense, extra={"note": "none"})
    site.env["IRONIC_PASSWORD"] = "s3cret-of-ironic"
    source = {"type": "ironic", "url": ironic.url, "username": "admin", "password": "s3cret-of-ironic"}
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": "cache"}
    site.configure({**source, "fields": {"note": "extra.note"}}, **cache, **more)
    for _time in range(3):
        answer = site.ask()
        assert not mark.exists(), "a record ran a program"
        assert "gpu001" in answer.text and "gpu002" in answer.text, answer.text


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "localhost.localdomain", "127.0.0.1", "all", "ungrouped"])
def test_no_machine_is_called_what_means_another(site: Any, name: str) -> None:
    """Every task that is delegated to localhost, and what it is given, would go to that machine."""
    site.write("servers.csv", f"{ROW}gpu001,S1,10.0.0.1\n{name},S2,10.0.0.2\n")
    site.configure({"type": "csv", "path": "servers.csv"})
    answer = site.ask(ok=False)
    assert f"'{name}' cannot be the name of a host" in answer.text, answer.text
