# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing that a source says is ever a template: not in a run, and not in an automation controller's job.

Every field of every source carries every way to write a template. Each of them would leave a file behind. What is
asked of them is asked of the real programs: a run over the fleet's file, and a run over the inventory that
ansible-inventory wrote down, which is what an automation controller hands to its jobs.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from ansible_collections.gpufleet.baremetal.plugins.module_utils._text import harmless
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _inventory_cells as cells
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import COLUMNS
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_trust import for_a_run, for_an_export
from hypothesis import given, settings
from hypothesis import strategies as st
from suite.properties import at_most

from tests.maas_server.config import Config, User
from tests.maas_server.server import MaasServer
from tests.maas_server.store import Machine

pytestmark = pytest.mark.slow
KEY = "consumer1:token1:secret-of-maas"
HEADER = "#jinja2:variable_start_string:'<<',variable_end_string:'>>'"
#: MARK stands for a file's name; each of these makes the file if anything ever evaluates it.
CALL = "lookup('ansible.builtin.pipe', 'touch MARK')"
TEXTS = (
    HEADER + "\n<< " + CALL + " >>",
    HEADER.upper().replace("VARIABLE", "variable") + "\n<< " + CALL + " >>",
    "#jinja2: block_start_string:'<%', block_end_string:'%>'\n<% set x = " + CALL + " %>y",
    "#jinja2:line_statement_prefix:'%%'\n%% set x = " + CALL,
    " " + HEADER + "\n<< " + CALL + " >>",
    "{{ " + CALL + " }}",
    "{{" + CALL + "}}{{" + CALL + "}}",
    "{% set x = " + CALL + " %}x",
    "{%- if " + CALL + " -%}x{%- endif -%}",
    "a{{ query('ansible.builtin.pipe', 'touch MARK') | first }}b",
    "{{ '{{ ' ~ \"" + CALL.replace("'", "\\'") + "\" ~ ' }}' }}",
    "{# " + CALL + " #}{{ " + CALL + " }}",
    "{{ {'a': [" + CALL + "]} }}",
    "\ufeff" + HEADER + "\n<< " + CALL + " >>",
    HEADER + "\r\n<< " + CALL + " >>",
    "#jinja2:variable_start_string:'[[',variable_end_string:']]',trim_blocks:False\n[[ " + CALL + " ]]",
    "#jinja2:line_comment_prefix:'##',line_statement_prefix:'#'\n# if " + CALL + "\n# endif",
    "{%+ for x in [" + CALL + "] +%}{{ x }}{%+ endfor +%}",
    "{% macro m() %}{{ " + CALL + " }}{% endmacro %}{{ m() }}",
    "{{ q('ansible.builtin.pipe', 'touch MARK') }}",
    "{{ hostvars | dict2items | map(attribute='key') | list }}{{ " + CALL + " }}",
    "{{ omit if " + CALL + " else omit }}",
    "!unsafe {{ " + CALL + " }}",
    "{{\n" + CALL + "\n}}",
    "'{{ " + CALL + " }}'",
    '"}}{{ ' + CALL + ' }}{{"',
    "{% raw %}{% endraw %}{{ " + CALL + " }}",
)
#: What harmless() makes of a text must be what arrives.
CONTROL = [f"gpufleet_{name}" for name in ("sku", "failure_domain", "tenant", "scheduler_node")]
#: Columns whose cells are of a form that no template has; what each refuses is asked below.
FORMED = {
    "name", "node_id", "system_uuid", "provisioner", "scheduler", "bmc_mac", "bmc_ip", "bmc_protocol",
    "bmc_ca_path", "bmc_password_ref", "boot_mac", "primary_ip", "gpu_count", "dpu_bmc_macs",
    "cpu_count", "drive_count", "memory_gib", "nic_count", "provisioner_id",
}  # fmt: skip
#: All variables of all hosts, templated as each host's own task would see them, by one task of one host.
ALL = "{{ dict(groups['all'] | zip(groups['all'] | map('extract', hostvars))) | to_json | b64encode }}"
SHOW_ALL = ("-m", "ansible.builtin.debug", "-a", f"msg={ALL}")


def flat(text: str) -> str:
    """As a cell may hold it."""
    return text.replace("\r", "").replace("\n", " ").replace("\ufeff", "").strip()


class Traps:
    """Texts that leave a file behind when they are evaluated."""

    def __init__(self, folder: Path, lines: bool) -> None:
        self.folder = folder
        texts = TEXTS if lines else [flat(text) for text in TEXTS]
        self.sent = [text.replace("MARK", str(folder / f"mark-{n}")) for n, text in enumerate(texts)]
        self.texts = [harmless(text) for text in self.sent]

    def nested(self, number: int) -> dict[str, Any]:
        """Deep inside, and in the spelling in which ansible-core writes down what it has marked."""
        text = self.sent[number]
        trusted = {
            "__ansible_type": "_AnsibleTaggedStr",
            "value": text,
            "tags": [{"__ansible_type": "TrustedAsTemplate"}],
        }
        return {"deep": [{text: [text, {"more": text}]}], "typed": [trusted, {"__ansible_unsafe": text}]}

    def sprung(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("mark-*"))


@pytest.fixture
def maas() -> Iterator[Any]:
    server = MaasServer(Config(users=(User("admin", KEY),)))
    server.start()
    yield server
    server.close()


def from_csv(site: Any, traps: Traps) -> int:
    """Cells of columns without a meaning of their own; cells with line breaks are refused anyway."""
    free = [*sorted(set(COLUMNS) - FORMED), "note"]
    lines = [f"name,{','.join(free)}"]
    for number, text in enumerate(traps.sent):
        quoted = '"' + text.replace('"', '""') + '"'
        lines.append(",".join([f"gpu{number:03}", *[quoted] * len(free)]))
    site.write("servers.csv", "\n".join(lines) + "\n")
    fields = {"csv_picked": "note", "csv_made": "{deep: [{text: model}], more: join('', [rack])}"}
    site.configure({"type": "csv", "path": "servers.csv", "fields": fields}, **expressions("csv_picked", "csv_rack"))
    return len(free) + 1  # two of them are lists, and cut at their blanks


def expressions(text: str, group: str) -> dict[str, Any]:
    """What a site writes over such text must not wake it either, nor what it writes into a cache."""
    return {
        "compose": {"as_is": text, "joined": f"{text} ~ ''", "wrapped": f"[{text}, {{'k': {text}}}]"},
        "groups": {"all_of_them": f"{text} != ''"},
        "keyed_groups": [{"key": group, "prefix": "of"}],
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": "cache",
    }


def from_ironic(site: Any, ironic: Any, traps: Traps) -> int:
    for number, text in enumerate(traps.sent):
        ironic.add(
            f"gpu{number:03}",
            f"52:54:00:77:00:{number:02x}",
            extra={**dict.fromkeys(CONTROL, flat(text)), "gpufleet_serial": flat(text), "nested": traps.nested(number)},
            driver_info={"redfish_address": text, "redfish_username": text, "redfish_system_id": text},
            description=text, instance_uuid=text, fault=text, lessee=text, traits=[text], last_error=text,
            properties={"cpu_arch": text, "vendor": traps.nested(number)},
            resource_class=text, conductor_group=text, owner=text,
            provision_state=text, power_state=text,
        )  # fmt: skip
    site.env["IRONIC_PASSWORD"] = "s3cret-of-ironic"
    source = {"type": "ironic", "url": ironic.url, "username": "admin", "password": "s3cret-of-ironic"}
    source["fields"] = {"ironic_picked": "extra.nested", "ironic_made": "{deep: [owner]}", "ironic_whole": "@"}
    source["control_variables"] = [*CONTROL, "gpufleet_serial"]
    site.configure(source, **expressions("ironic_owner", "ironic_resource_class"))
    return 24


def from_maas(site: Any, maas: Any, traps: Traps) -> int:
    for number, text in enumerate(traps.sent):
        maas.store.machines[f"abc{number}"] = Machine(
            f"abc{number}", f"gpu{number:03}", macs=[f"52:54:00:77:01:{number:02x}"], status=6,
            zone=text, pool=text, tags=[text, text], owner=text, architecture=text, osystem=text, distro_series=text,
            power_type="redfish", hardware=dict.fromkeys(("system_vendor", "system_product", "system_serial"), text),
            power_parameters={"power_address": text, "power_user": text, "node_id": text, "power_pass": "x"},
            annotations={**dict.fromkeys(CONTROL, flat(text)), "note": text},
            description=text, status_message=text, error_description=text, hwe_kernel=text, domain=text,
        )  # fmt: skip
    site.env["GPUFLEET_MAAS_API_KEY"] = KEY
    fields = {"maas_picked": "zone.name", "maas_made": "{deep: [owner], more: tag_names[0]}", "maas_whole": "@"}
    source = {"type": "maas", "url": maas.url, "bmc": True, "fields": fields, "control_variables": CONTROL}
    site.configure(source, **expressions("maas_picked", "maas_zone"))
    return 24


@pytest.fixture(params=["csv", "ironic", "maas"])
def trapped(request: pytest.FixtureRequest, site: Any, tmp_path: Path) -> tuple[Any, Traps, int]:
    """A fleet full of traps, the traps, and in how many fields each of them stands at the least."""
    fill = {"csv": from_csv, "ironic": from_ironic, "maas": from_maas}[request.param]
    peers = [] if request.param == "csv" else [request.getfixturevalue(request.param)]
    folder = tmp_path / "marks"
    folder.mkdir()
    traps = Traps(folder, lines=request.param != "csv")
    return site, traps, fill(site, *peers, traps)


def seen_by_a_run(answer: Any) -> dict[str, Any]:
    (text,) = re.findall(r'"msg": "([A-Za-z0-9+/=]+)"', answer.text)
    found: dict[str, Any] = json.loads(base64.b64decode(text))
    return found


def times(value: Any, text: str) -> int:
    """How often this very string stands in a value, however deep."""
    if isinstance(value, dict):
        return sum(times(item, text) for item in value.values())
    if isinstance(value, list):
        return sum(times(item, text) for item in value)
    return int(value == text)


def own(variables: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in variables.items()
        if key.startswith(("csv_", "ironic_", "maas_", "gpufleet_", "topology_"))
    }


def test_s1_no_field_of_a_source_is_a_template(trapped: tuple[Any, Traps, int]) -> None:
    site, traps, fields = trapped
    for cached in ("first", "out of the cache"):
        seen = seen_by_a_run(site.ask("gpu000", *SHOW_ALL, program="ansible"))
        assert traps.sprung() == [], cached
        assert len(seen) == len(traps.texts)
        for number, text in enumerate(traps.texts):
            variables = seen[f"gpu{number:03}"]
            # An Ironic without a text for a field would pass otherwise.
            assert times(own(variables), text) >= fields, f"{text!r} arrives as it was written"
            if "gpufleet_tenant" in variables:
                assert {variables[name] for name in CONTROL} == {harmless(flat(traps.sent[number]))}
            assert variables["as_is"] == variables["joined"] == variables["wrapped"][0] == text


def test_s1_an_exported_inventory_wakes_nothing_in_a_job(trapped: tuple[Any, Traps, int], tmp_path: Path) -> None:
    """ansible-core trusts what an inventory script prints, and so a job trusts what a controller stored."""
    site, traps, fields = trapped
    exported = site.ask(itself=True)
    assert traps.sprung() == []
    script = tmp_path / "stored"
    document = json.dumps(exported.data).replace("'", "'\\''")
    script.write_text(f"#!/bin/sh\nprintf '%s\\n' '{document}'\n", encoding="utf-8")
    script.chmod(0o755)
    seen = seen_by_a_run(site.ask("gpu000", *SHOW_ALL, program="ansible", config=script))
    assert traps.sprung() == [] and len(seen) == len(traps.texts)
    for number, text in enumerate(traps.texts):
        assert times(own(seen[f"gpu{number:03}"]), text) >= fields


def test_s2_what_a_run_keeps_as_a_fact_is_no_template_in_the_next(trapped: tuple[Any, Traps, int]) -> None:
    """Variables of a source that a play sets as facts come back out of the cache of facts."""
    site, traps, _fields = trapped
    task = {"kept": "{{ {'text': as_is, 'deep': [wrapped]} }}", "cacheable": True}
    play = {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.set_fact": task}]}
    kept = site.write("keep.yml", json.dumps([play]))
    site.env.update(ANSIBLE_CACHE_PLUGIN="jsonfile", ANSIBLE_CACHE_PLUGIN_CONNECTION=str(site.folder / "facts"))
    site.ask(str(kept), program="ansible-playbook")
    seen = seen_by_a_run(site.ask("gpu000", *SHOW_ALL, program="ansible"))
    assert traps.sprung() == []
    for number, text in enumerate(traps.texts):
        kept_there = seen[f"gpu{number:03}"]["kept"]
        assert kept_there["text"] == text and kept_there["deep"][0] == [text, {"k": text}]


@pytest.mark.parametrize("column", sorted(FORMED - {"name"}))
@pytest.mark.parametrize("text", TEXTS)
def test_s2_a_cell_of_a_form_is_no_template(column: str, text: str) -> None:
    assert cells.problem(column, text) and cells.problem(column, flat(text))


PIECES = st.sampled_from(
    [
        "{{", "}}", "{%", "%}", "{#", "#}", "#jinja2", ":", "variable_start_string:'<<'", "<<", ">>", "\n", "\r\n", " ",
        "lookup('ansible.builtin.pipe', 'id')", "{", "}", "#", "\ufeff", "\x1b[", "{{ 7 * 7 }}", "!unsafe", "\\", "'",
        '"', "a", "__ansible_type", "__ansible_unsafe",
    ],
)  # fmt: skip
ANY_TEXT = st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=12))
ANY_VALUE = st.recursive(
    ANY_TEXT | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)


def spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            harmless(key).replace("__ansible", "source__ansible", int(harmless(key).startswith("__ansible"))): spelled(
                item
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [spelled(item) for item in value]
    return harmless(value) if isinstance(value, str) else value


@pytest.mark.parametrize("was", [lambda text: text, trust_as_template], ids=["plain", "trusted before"])
@settings(max_examples=at_most(300), deadline=None)
@given(value=ANY_VALUE)
def test_s2_whatever_a_source_sends_stays_what_it_is(was: Any, value: Any) -> None:
    """By ansible-core's own templating, and also where a program marked the text before."""

    def marked(one: Any) -> Any:
        if isinstance(one, dict):
            return {was(key): marked(item) for key, item in one.items()}
        if isinstance(one, list):
            return [marked(item) for item in one]
        return was(one) if isinstance(one, str) else one

    templar = Templar(loader=DataLoader(), variables={})
    for found in (for_a_run(marked(value)), for_an_export(for_a_run(marked(value)))):
        assert templar.template(found) == spelled(value)


def test_s1_a_run_trusts_no_string_however_harmless(site: Any, tmp_path: Path) -> None:
    """Only the export marks strings, and the lookup of a secret, which is ours, is the one template of a run."""
    probe = tmp_path / "filter_plugins"
    probe.mkdir()
    (probe / "trusted.py").write_text(
        "from ansible.template import is_trusted_as_template\n"
        "class FilterModule:\n"
        "    def filters(self):\n"
        "        return {'trusted': lambda known: [k for k, v in known.items() if is_trusted_as_template(v)]}\n",
        encoding="utf-8",
    )
    site.write("servers.csv", "name,serial,rack,bmc_password_ref\ngpu001,ABC0001,r1,env:BMC_PW\n")
    site.configure({"type": "csv", "path": "servers.csv"}, compose={"where": "csv_rack"})
    site.env.update(ANSIBLE_FILTER_PLUGINS=str(probe), BMC_PW="x")
    asked = "{{ {'serial': gpufleet_serial, 'rack': csv_rack, 'where': where} | trusted }}"
    said = site.ask("all", "-m", "ansible.builtin.debug", "-a", f"msg={asked}", program="ansible", itself=True).text
    assert '"msg": []' in said


HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202e ok\rfailed"


@pytest.fixture(params=["ironic", "maas"])
def hostile(request: pytest.FixtureRequest, site: Any) -> Any:
    """A source whose every text would take the terminal over."""
    peer = request.getfixturevalue(request.param)
    if request.param == "ironic":
        names = ("resource_class", "conductor_group", "owner", "provision_state", "power_state")
        fields = dict.fromkeys(names, HOSTILE)
        peer.add("gpu001", "52:54:00:77:00:01", properties={HOSTILE: [HOSTILE]}, **fields)
        site.configure({"type": "ironic", "url": peer.url, "username": "admin", "password": "s3cret-of-ironic"})
    else:
        peer.store.machines["abc1"] = Machine(
            "abc1", "gpu001", macs=["52:54:00:77:01:01"], status=6, zone=HOSTILE, pool=HOSTILE, tags=[HOSTILE],
            owner=HOSTILE, architecture=HOSTILE, osystem=HOSTILE, hardware={"system_vendor": HOSTILE},
        )  # fmt: skip
        site.env["GPUFLEET_MAAS_API_KEY"] = KEY
        site.configure({"type": "maas", "url": peer.url})
    return site


@pytest.mark.parametrize("shown", [("--graph", "--vars"), ("--list",), ("--list", "--yaml"), ("--host", "gpu001")])
def test_s3_no_text_of_a_source_writes_to_a_terminal(hostile: Any, shown: tuple[str, ...]) -> None:
    text = hostile.ask(*shown).text
    assert "x1b[2J" in text and not [char for char in "\x1b\x07\x9b\u202e\r" if char in text]
    assert r"\u001b" not in text, "nor anything else that is handed on"


def test_s3_a_complaint_about_a_source_writes_to_no_terminal(site: Any, ironic: Any) -> None:
    site.configure({"type": "ironic", "url": ironic.url, "username": "admin", "password": "s3cret-of-ironic"})
    ironic.add(f"gpu{HOSTILE}", "52:54:00:77:00:01")
    ironic.add(f"gpu{HOSTILE}", "52:54:00:77:00:01")
    text = site.ask(ok=False).text
    assert r"\x1b[2J" in text and not [char for char in "\x1b\x07\x9b\u202e\r" if char in text]
