# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._net import mac
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils import _places as places
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_columns import ALIASES, COLUMNS, is_secret
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_csv import read_csv
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_secrets import password_lookup
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_trust import Lookup
from hypothesis import given
from hypothesis import strategies as st

HEADER = "name,serial,bmc_ip,boot_mac\n"
ROW = "gpu001,ABC0001,10.0.0.1,52:54:00:77:00:01\n"


def read(folder: Path, content: str | bytes, **options: object) -> list[Record]:
    path = folder / "servers.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_csv(str(path), **options)  # type: ignore[arg-type]


def refused(folder: Path, content: str | bytes, **options: object) -> str:
    with pytest.raises(ConfigError) as error:
        read(folder, content, **options)
    return str(error.value).replace(str(folder) + "/", "")


def test_a_whole_row(tmp_path: Path) -> None:
    content = (
        "Hostname,Service Tag,UUID,SKU,Hall,Rack,U,iDRAC IP,BMC User,BMC Password Ref,PXE MAC,OOB MAC,IP,"
        "GPUs,DPU Serials,Tenant,Scheduler,Slurm Node,Provisioner,BMC Protocol,Fault Domain,Cooling Loop\n"
        "gpu001,ABC0001,4C4C4544-0042-3510-8052-B4C04F4E3033,h100-sxm-8,H1,r12,7,10.1.0.1,root,env:BMC_PW,"
        "5254.0077.0001,52-54-00-77-01-01,10.2.0.1,8,MT1 MT2,blue,Slurm,g1,MAAS,IPMI,row-a,west\n"
    )
    (row,) = read(tmp_path, content)
    assert row.name == "gpu001" and row.where.endswith("servers.csv:2")
    assert row.identities() == [
        ("serial", "ABC0001"),
        ("system UUID", "4c4c4544-0042-3510-8052-b4c04f4e3033"),
        ("MAC", "52:54:00:77:00:01"),
        ("MAC", "52:54:00:77:01:01"),
    ]
    assert row.variables == {
        "gpufleet_serial": "ABC0001",
        "gpufleet_system_uuid": "4c4c4544-0042-3510-8052-b4c04f4e3033",
        "gpufleet_sku": "h100-sxm-8",
        "gpufleet_bmc_address": "10.1.0.1",
        "gpufleet_bmc_username": "root",
        "gpufleet_bmc_password": "{{ lookup('ansible.builtin.env', 'BMC_PW') }}",
        "gpufleet_bmc_protocol": "ipmi",
        "gpufleet_boot_mac": "52:54:00:77:00:01",
        "gpufleet_tenant": "blue",
        "gpufleet_scheduler": "slurm",
        "gpufleet_scheduler_node": "g1",
        "gpufleet_provisioner": "maas",
        "gpufleet_failure_domain": "row-a",
        "ansible_host": "10.2.0.1",
        "csv_location": "H1",
        "csv_rack": "r12",
        "csv_position": "7",
        "csv_bmc_mac": "52:54:00:77:01:01",
        "csv_gpu_count": 8,
        "csv_dpu_serials": ["MT1", "MT2"],
        "csv_cooling_loop": "west",
    }


@pytest.mark.parametrize("titles", ["topology_leaf,topology_block", "Leaf switch,NVLink domain"])
def test_the_plan_of_the_cables_is_where_a_look_at_them_reads_it(tmp_path: Path, titles: str) -> None:
    rows = "gpu001,ABC0001,leaf-a1,row1-rack01\ngpu002,ABC0002,leaf-a1; leaf-a2,\n"
    one, pair = read(tmp_path, f"name,serial,{titles}\n{rows}")
    assert [one.variables[key] for key in places.KEYS] == ["leaf-a1", "row1-rack01"]
    assert places.names(pair.variables[places.LEAF]) == ("leaf-a1", "leaf-a2")


def test_no_alias_is_given_twice() -> None:
    names = [alias for name, (_variable, aliases) in COLUMNS.items() for alias in (name, *aliases)]
    # primary_ip's own variable is a name of the column as well
    assert len(names) == len(set(names)) == len(ALIASES)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + (HEADER + ROW).encode(),
        (HEADER + ROW).replace("\n", "\r\n").encode(),
        (HEADER + ROW).replace(",", ";").encode(),
        (HEADER + ROW).replace(",", "\t").encode(),
        ("sep=;\n" + (HEADER + ROW).replace(",", ";")).encode(),
        ("# who made this\n\n" + HEADER + "\n# spare\n" + ROW + ",,,\n\n").encode(),
        (HEADER + ROW.replace("ABC0001", '"ABC0001"').replace("52:54:00:77:00:01", "525400770001")).encode(),
        (HEADER.strip() + ",\n" + ROW).replace(",\n", "\n").encode(),
    ],
)
def test_forms_that_spreadsheets_write(tmp_path: Path, content: bytes) -> None:
    (row,) = read(tmp_path, content)
    assert (row.name, row.serial, row.macs) == ("gpu001", "ABC0001", ["52:54:00:77:00:01"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (HEADER + "gpu001,1.23E+10,10.0.0.1,52:54:00:77:00:01\n", "servers.csv:2:2: serial: '1.23E+10' is a number"),
        (HEADER + "gpu001,3-Jan,10.0.0.1,52:54:00:77:00:01\n", "servers.csv:2:2: serial: '3-Jan' is a date"),
        (HEADER + "gpu001,#N/A,10.0.0.1,52:54:00:77:00:01\n", "servers.csv:2:2: serial: '#N/A' is a spreadsheet"),
        (HEADER + "gpu001,########,10.0.0.1,52:54:00:77:00:01\n", "a spreadsheet's error"),
        (HEADER + "gpu001,To be filled by O.E.M.,10.0.0.1,\n", "what a board says that has no serial"),
        (HEADER + "gpu001,A1,10.0.0.256,\n", "servers.csv:2:3: bmc_ip: '10.0.0.256'"),
        (
            HEADER + "gpu001,A1,10.1.7.1/24,\n",
            "servers.csv:2:3: bmc_ip: '10.1.7.1/24': a network; an address without the",
        ),
        (HEADER + "gpu001,A1,https://10.1.7.1/255.255.255.0,\n", "a network; an address without"),
        (HEADER + "gpu001,A1,[fd00::7]/64,\n", "a network; an address without"),
        (HEADER + "gpu001,A1,bmc one,\n", "neither an address, nor a host name, nor a URL"),
        (HEADER + "gpu001,A1,10.0.0.1,52:54:00-77-00-01\n", "servers.csv:2:4: boot_mac: '52:54:00-77-00-01': not"),
        (HEADER + "gpu001,A1,10.0.0.1,5.254E+11\n", "is a number that a spreadsheet made of it"),
        (HEADER + "gpu001,A1,10.0.0.1,25400770001\n", "not a MAC address of twelve"),
        (HEADER + "gpu001,A1,10.0.0.1,01:00:5e:00:00:01\n", "belongs to no single card"),
        (HEADER + ROW + "gpu002,ABC0001,10.0.0.2,\n", "servers.csv:3:2: serial: 'ABC0001' stands in line 2 already"),
        (HEADER + ROW + "gpu002,abc0001,10.0.0.2,\n", "'abc0001' stands in line 2 already"),
        (HEADER + ROW + "GPU001,A2,10.0.0.2,\n", "servers.csv:3:1: name: 'GPU001' stands in line 2 already"),
        (HEADER + ROW + "gpu002,A2,10.0.0.1,\n", "servers.csv:3:3: bmc_ip: '10.0.0.1' stands in line 2 already"),
        (HEADER + ROW + "gpu002,A2,10.0.0.2,5254.0077.0001\n", "stands in line 2 already"),
        ("serial,boot_mac,bmc_mac\nA1,52:54:00:77:00:01,\nA2,,525400770001\n", "servers.csv:3:3: bmc_mac"),
        (HEADER + "gpu001,,10.0.0.1,\n", "servers.csv:2:1: nothing tells which machine this is"),
        (HEADER + "gpu001,A1\n", "servers.csv:2:3: 2 cells, the header has 4"),
        (HEADER + "gpu001,A1,10.0.0.1,,extra\n", "servers.csv:2:5: 5 cells"),
        ("name,serial,service_tag\ng,a,b\n", "servers.csv:1:3: a second column for serial ('service_tag')"),
        ("name,,serial\ng,,b\n", "servers.csv:1:2: '' is no name of a column"),
        ("serial,provisioner\nA1,foreman\n", "one of bcm, ironic, maas, pxe, warewulf, xcat is wanted"),
        *(
            (f"serial,provisioner_id\nA1,{cell}\n", f"provisioner_id: {cell!r}: no name or id of one node")
            for cell in ("gpu001?fields=uuid", "gpu001/states", "..", "gpu[01-09]", "gpu001;power off", "gpu001#")
        ),
        ("serial,gpu_count\nA1,eight\n", "a whole number is wanted"),
        (
            "serial,bmc_ca_path\nA1,/x/$AWS_SECRET_ACCESS_KEY\n",
            "servers.csv:2:2: bmc_ca_path: '/x/$AWS_SECRET_ACCESS_KEY'",
        ),
        ("serial,BMC CA\nA1,/x/${HOME}.pem\n", "servers.csv:2:2: bmc_ca_path: '/x/${HOME}.pem': an absolute path"),
        ("serial,bmc_ca_path\nA1,~root/ca.pem\n", "an absolute path without $ and ~ is wanted"),
        ("serial,bmc_ca_path\nA1,ca.pem\n", "an absolute path without $ and ~ is wanted"),
        ('serial,note\nA1,"two\nlines"\n', "servers.csv:2:2: note: holds a control character or a line break"),
        ('serial,note\nA1,"open\n', "not CSV"),
        ("", "empty"),
        (HEADER, "no server"),
        ((HEADER + ROW).encode("utf-16"), "not UTF-8 text"),
        ((HEADER + "gpu001,A1,10.0.0.1,\ngpü2,A2,10.0.0.2,\n").encode("latin-1"), "servers.csv:3:3: byte 0xfc"),
    ],
)
def test_damage_is_refused_with_its_place(tmp_path: Path, content: str | bytes, said: str) -> None:
    assert said in refused(tmp_path, content)


@pytest.mark.parametrize("cell", ["gpu001", "gpu-1_a.r~2.lab", "4c4c4544-0042-3510-8052-b4c04f4e3033", "abc1"])
def test_whatever_a_provisioner_calls_one_node_by_is_taken(tmp_path: Path, cell: str) -> None:
    (row,) = read(tmp_path, f"serial,provisioner_id\nA1,{cell}\n")
    assert row.variables["gpufleet_provisioner_id"] == cell


@pytest.mark.parametrize("given", ["tab", "Tab", "\\t", "\t"])
def test_a_tab_is_written_as_people_can(tmp_path: Path, given: str) -> None:
    (row,) = read(tmp_path, "serial\tsite\nA1\tx, y\n", delimiter=given)
    assert row.variables["csv_site"] == "x, y"


@pytest.mark.parametrize("given", [";;", "semicolon", "\\n", "\n", '"', "\t\t", ", "])
def test_what_parts_no_cells_is_refused_by_the_options_name(tmp_path: Path, given: str) -> None:
    said = refused(tmp_path, HEADER + ROW, delimiter=given)
    assert "the option delimiter is no character" in said and repr(given) in said and "import_servers_delimiter" in said


@given(st.text(max_size=3))
def test_any_delimiter_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, delimiter: str) -> None:
    with contextlib.suppress(ConfigError):
        assert read(tmp_path_factory.mktemp("csv"), HEADER + ROW, delimiter=delimiter)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    said = refused(tmp_path, HEADER + "a,1.2E+9,10.0.0.1,x\nb,S2,10.0.0.1,\nc,,,\n")
    for place in ("servers.csv:2:2:", "servers.csv:2:4:", "servers.csv:3:3:", "servers.csv:4:1:"):
        assert place in said, said
    many = refused(tmp_path, HEADER + "".join(f"n{number},#REF!,,\n" for number in range(50)))
    assert "50 mistake(s)" in many and "and 30 more" in many


def test_lost_leading_zeros(tmp_path: Path) -> None:
    serials = ["1234567", "1234568", "1234569", "1234570", "34571"]
    content = "serial\n" + "".join(f"{serial}\n" for serial in serials)
    assert "servers.csv:6:1: serial: '34571' is shorter than the others (7 digits)" in refused(tmp_path, content)
    assert len(read(tmp_path, content, check_serials=False)) == 5
    mixed = "serial\n" + "".join(f"{serial}\n" for serial in ("1", "22", "333", "4444"))
    assert len(read(tmp_path, mixed)) == 4


@pytest.mark.parametrize(
    "title", ["bmc_password", "Password", "IPMI Password", "bmc_pass", "api key", "iDRAC pwd", "secret"]
)
def test_no_secret_in_plain_text(tmp_path: Path, title: str) -> None:
    said = refused(tmp_path, f"serial,{title}\nA1,hunter2\n")
    assert "servers.csv:1:2" in said and "bmc_password_ref" in said and "hunter2" not in said


@pytest.mark.parametrize(
    "title",
    [
        "bmc_pw", "BMC PW", "bmcpw", "pw", "credentials", "BMC Credentials", "cred", "creds", "bmc_creds", "bmc_key",
        "Key", "ssh-key", "SSHKey", "access key", "bmc_keys", "ipmi_kg", "KG", "kg_key", "psk", "Passwort", "Kennwort",
        "mot de passe", "passcode", "Root Pass", "idrac_pass", "ilo pw 2", "bmc_pin", "BMC_PW_1", "admin passwd",
        "private_key", "apikey", "bmc token", "community_secret", "rootpw", "bmcpassword", "user_pass", "LoginPwd",
    ],
)  # fmt: skip
def test_s3_a_column_of_any_kind_of_secret_is_refused_with_its_place(tmp_path: Path, title: str) -> None:
    said = refused(tmp_path, f"serial,rack,{title}\nA1,r1,hunter2\n")
    assert "servers.csv:1:3: the column number 3 would" in said and "hunter2" not in said
    assert "remove it and change what stood in it" in said and "bmc_password_ref" in said


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("serial,TOKEN=hunter2\nA1,x\n", ""),
        ("serial,x: hunter2,x: hunter2\nA1,x,y\n", ""),
        ("serial,hunter2,hunter2\nA1,x,y\n", ""),
        ("serial,_hunter2\nA1,x\n", ""),
        ("serial,9hunter2\nA1,x\n", ""),
        ("serial,seriel=hunter2\nA1,x\n", ""),
        ('{"env": {"GPUFLEET_BMC_PASSWORD": "hunter2"}, "cwd": "/"}\n', ":"),
        ('{"env": {"GPUFLEET_BMC_PASSWORD": "hunter2"}, "cwd": "/"}\n', '}'),
    ],
)  # fmt: skip
def test_a_title_that_is_no_plain_word_is_told_by_its_number(tmp_path: Path, content: str, delimiter: str) -> None:
    """What is read may be no list at all."""
    said = ""
    try:
        read(tmp_path, content, delimiter=delimiter)
    except ConfigError as error:
        said = str(error)
    assert "hunter2" not in said


def test_s3_no_column_of_ours_and_none_that_is_like_a_word_for_a_secret_is_refused(tmp_path: Path) -> None:
    ours = {*ALIASES} - {name for name, place in ALIASES.items() if place == "bmc_password_ref"}
    like = {"keyboard", "monkey", "compass", "pwr_feed", "power_w", "spins", "weight_kg", "turnkey"}
    assert {name for name in ours | like if is_secret(name)} == set()
    assert read(tmp_path, "serial,turnkey,compass\nA1,yes,north\n")[0].variables["csv_turnkey"] == "yes"


@pytest.mark.parametrize(
    ("ref", "lookup"),
    [
        ("env:BMC_PW", "{{ lookup('ansible.builtin.env', 'BMC_PW') }}"),
        ("file:/etc/gpufleet/bmc", "{{ lookup('ansible.builtin.file', '/etc/gpufleet/bmc') }}"),
        ("var:vault_bmc_password", "{{ vault_bmc_password }}"),
    ],
)
def test_places_of_secrets(ref: str, lookup: str) -> None:
    assert password_lookup(ref) == lookup and isinstance(password_lookup(ref), Lookup)


@pytest.mark.parametrize(
    "ref", ["hunter2", "env:A'B", "file:etc/x", "file:/x') }}{{ lookup('pipe', 'id", "var:a.b", "env:", "vault:x y"]
)
def test_what_is_no_place_is_refused_unseen(tmp_path: Path, ref: str) -> None:
    with pytest.raises(ValueError) as error:
        password_lookup(ref)
    assert ref not in str(error.value)


def test_a_password_in_the_reference_is_not_repeated(tmp_path: Path) -> None:
    assert "hunter2" not in refused(tmp_path, "serial,bmc_password_ref\nA1,hunter2\n")


@pytest.mark.parametrize(
    ("ref", "places", "taken"),
    [
        ("env:BMC_PW", None, True),
        ("file:/etc/shadow", None, True),
        ("env:BMC_PW", ["file:/x", "env:BMC_*"], True),
        ("env:bmc_pw", ["env:BMC_*"], False),
        ("env:AWS_SECRET_ACCESS_KEY", ["env:BMC_*"], False),
        ("var:BMC_PW", ["env:BMC_*"], False),
        ("env:BMC_PW", [], False),
        ("file:/etc/bmc/r1/u1", ["file:/etc/bmc/*"], True),
        ("file:/etc/bmc/../shadow", ["file:/etc/bmc/*"], False),
        ("file:/etc/bmc/..", ["file:/etc/bmc/*"], False),
        ("bmc/rack1", ["bmc/*"], True),
        ("bmc/rack1", ["env:*"], False),
    ],
)
def test_v2_a_list_names_no_place_of_a_secret_but_those_that_the_source_permits(
    tmp_path: Path, ref: str, places: list[str] | None, taken: bool
) -> None:
    content = f"serial,bmc_password_ref\nA1,{ref}\n"
    options = {"password_template": "{{ lookup('site.own.vault', 'REF') }}", "password_refs": places}
    if taken:
        assert "lookup" in str(read(tmp_path, content, **options)[0].variables["gpufleet_bmc_password"])
        return
    said = refused(tmp_path, content, **options)
    assert "servers.csv:2:2: bmc_password_ref: its content is no place that password_refs permits" in said
    assert ref not in said


def test_the_sites_own_lookup(tmp_path: Path) -> None:
    template = "{{ lookup('community.hashi_vault.vault_kv2_get', 'REF').secret.password }}"
    (row,) = read(tmp_path, "serial,bmc_password_ref\nA1,bmc/rack1\n", password_template=template)
    assert row.variables["gpufleet_bmc_password"] == template.replace("REF", "bmc/rack1")
    assert "no reference that may" in refused(
        tmp_path, "serial,bmc_password_ref\nA1,x') }}{{ 1\n", password_template=template
    )


@given(st.integers(0, 2**48 - 1), st.sampled_from([":", "-", ".", ""]), st.booleans())
def test_macs_have_one_spelling(number: int, divider: str, upper: bool) -> None:
    digits = f"{number & ~(1 << 40) or 2:012x}"
    step = 4 if divider == "." else 2
    text = divider.join(digits[place : place + step] for place in range(0, 12, step))
    wanted = ":".join(digits[place : place + 2] for place in range(0, 12, 2))
    assert mac(text.upper() if upper else text) == wanted


@given(st.text(max_size=30))
def test_any_cell_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """No text may end in another exception, and none may reach a template."""
    folder = tmp_path_factory.mktemp("csv")
    cell = '"' + text.replace('"', '""') + '"'
    try:
        rows = read(folder, f"serial,note,bmc_password_ref\nA1,{cell},\nA2,,{cell}\n".encode("utf-8", "surrogatepass"))
    except ConfigError:
        return
    for row in rows:
        assert not isinstance(row.variables.get("csv_note"), Lookup)


def test_r4_nodes_of_one_chassis_are_listed_by_system_and_boot_port(tmp_path: Path) -> None:
    """Both tell one serial, so neither row has it."""
    header = "name,bmc_ip,bmc_system_id,boot_mac\n"
    rows = "n1,10.0.0.1,Node0,52:54:00:77:00:01\nn2,10.0.0.1,Node1,52:54:00:77:00:02\n"
    assert [record.name for record in read(tmp_path, header + rows)] == ["n1", "n2"]
    assert "'10.0.0.1' stands in line 2 already" in refused(tmp_path, header + rows.replace("Node1", "Node0"))


@pytest.mark.parametrize(
    ("title", "meant"),
    [
        *(("seriel", "serial"), ("Serial Numbr", "serial"), ("hostnmae", "name"), ("sytem uuid", "system_uuid")),
        *(("boot mca", "boot_mac"), ("bmc adress", "bmc_ip"), ("bmc_protcol", "bmc_protocol"), ("tennant", "tenant")),
        *(("tenan", "tenant"), ("seria", "serial"), ("bmc_addres", "bmc_ip"), ("failure_domai", "failure_domain")),
        *(("faliure_domain", "failure_domain"), ("Slurm Noed", "scheduler_node"), ("service tga", "serial")),
    ],
)
def test_u8_a_column_that_looks_like_a_known_one_is_a_typo(tmp_path: Path, title: str, meant: str) -> None:
    """It became csv_seriel without a word, and the machines had no serial."""
    said = refused(tmp_path, f"uuid,{title}\n4C4C4544-0042-3510-8052-B4C04F4E3033,x\n")
    assert f"servers.csv:1:2: the column '{title}' is unknown: {meant}?" in said


@pytest.mark.parametrize(
    "title",
    ["rack2", "racks", "note", "owner", "cooling_loop", "row", "pdu", "serial_of_psu", "site_code", "bmc_ip_2", "notes"]
    + ["warranty", "delivery", "purchase_order", "switch2", "hostname_old", "model_year", "state", "status", "tags"]
    + ["manufactured", "provisioned", "scheduled", "root_mac", "gpu_modes"],
)
def test_u8_a_column_of_a_sites_own_is_none(tmp_path: Path, title: str) -> None:
    (row,) = read(tmp_path, f"serial,{title}\nABC0001,x\n")
    assert row.variables[f"csv_{title}"] == "x"
