# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers from CSV lists, NetBox, Ironic, MAAS, Warewulf, xCAT and BCM, joined by what identifies a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
short_description: GPU nodes from server lists, NetBox and provisioners, joined into one inventory
version_added: "0.1.0"
author: gpufleet.baremetal contributors (@gpufleet)
description:
  - Reads one or several sources and fills the host variables C(gpufleet_*) that the roles of this collection work on.
  - Rows of several sources are the same machine when they have the same serial, else the same system UUID, else the
    same MAC; names are never compared. Whatever is not one clear match is an error that names both rows.
  - Where two sources know the same variable, the one that is listed first decides it.
  - A source that cannot be read completely is an error, and never an empty or a short inventory.
  - The configuration file is called C(fleet.yml), or ends with C(.fleet.yml) or C(.fleet.yaml).
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices: [gpufleet.baremetal.fleet]
  sources:
    description:
      - The sources, in the order of their say. Strings may be templates, for instance with a lookup of a secret.
    type: list
    elements: dict
    required: true
    suboptions:
      type:
        description: What the source is.
        type: str
        required: true
        choices: [bcm, csv, ironic, maas, netbox, warewulf, xcat]
      name:
        description: A name for messages; by default its number and type.
        type: str
      join_only:
        description: Only adds to machines that an earlier source knows; its other rows are left out.
        type: bool
        default: false
      fields:
        description:
          - Host variables that are picked out of the source's own record, each with a JMESPath expression. The record
            is a machine of the MAAS API, a node of the Ironic API with its C(ports), a node of the Warewulf API with
            its C(name), a device of the NetBox API with its C(interfaces), each without what is secret there, the
            attributes of an xCAT node with its C(name), what cmsh tells of a node of BCM (C(name), C(mac), C(ip),
            C(category), C(softwareimage), C(status), C(powercontrol), C(bmc), C(kernelparameters), C(userdefined1)), or
            a row of V(csv) by the names of its columns.
          - What an expression finds replaces what the source itself would say; where it finds nothing, that stays.
            One that finds nothing in any record is told by a warning, and one that fails names the record.
          - A variable C(gpufleet_*) must be one that a column of V(csv) fills, and is checked like its cells; so is
            C(ansible_host). Any other name is free, but for those that Ansible keeps for itself, such as C(serial),
            C(name), C(tags) and C(port). It is given what was found, lists and mappings included.
          - What is found is data, and never a template. A secret cannot be picked.
        type: dict
        version_added: "0.1.0"
      control_variables:
        description:
          - Of V(ironic) and V(maas), host variables C(gpufleet_*) that are taken from what a tenant may write there,
            each from an entry of its own name. That is C(extra), then C(properties), of an Ironic node, and a MAAS
            machine's workload annotations. Without this option none is taken.
          - C(gpufleet_node_id), C(gpufleet_sku), C(gpufleet_failure_domain), C(gpufleet_tenant), C(gpufleet_scheduler)
            and C(gpufleet_scheduler_node) can be named; of V(ironic) also C(gpufleet_bmc_system_id),
            C(gpufleet_boot_mac) where several ports may boot, C(gpufleet_serial), which C(serial_number), C(serial) and
            C(system_serial) fill as well, and C(gpufleet_system_uuid), which C(system_uuid) fills as well.
          - What is found is checked like the cell of a list, and a wrong one is an error that names the machine. Name
            only what nobody but the operators can write there.
        type: list
        elements: str
        default: []
        version_added: "0.1.0"
      path:
        description: Of V(csv), the file, relative to the configuration file.
        type: path
      delimiter:
        description: Of V(csv), the character between cells, for a tab also V(tab); by default found in the header.
        type: str
      check_serials:
        description: Of V(csv), refuse serials of digits that seem to have lost their leading zeros.
        type: bool
        default: true
      password_lookup:
        description:
          - Of V(csv), the template that reads a secret for a C(bmc_password_ref) without a kind. C(REF) in it stands
            for the reference.
        type: str
      password_refs:
        description:
          - Of V(csv), the references that may stand in C(bmc_password_ref), such as V(env:BMC_*) and
            V(file:/etc/gpufleet/bmc/*). C(*), C(?) and C([...]) mean what they mean to a shell, but C(*) matches a
            slash too; C(..) in a reference is refused. An empty list permits none.
          - Without it any place can be named. Whoever writes the list then chooses which of the controller's secrets
            is sent to which address, so set it where the list is not your own.
        type: list
        elements: str
        version_added: "0.1.0"
      url:
        description:
          - Of V(ironic), V(maas), V(warewulf) and V(netbox), the address of the API; for MAAS with its path, such as
            C(/MAAS). Of V(xcat), the folder of its commands on this machine, such as C(/opt/xcat).
          - Of V(bcm), the path of its cmsh on the machine that reads the inventory, which is BCM's head node.
        type: str
      username:
        description: Of V(warewulf), and of V(ironic) with HTTP Basic, the user.
        type: str
      password:
        description:
          - Of V(ironic) and V(warewulf), the password of that user. A template with a lookup, never the secret itself.
        type: str
      cloud:
        description: Of V(ironic) behind Keystone, the name of a cloud in C(clouds.yaml), in place of URL and user.
        type: str
      api_key:
        description: Of V(maas), the API key. A template with a lookup, never the secret itself.
        type: str
      token:
        description: Of V(netbox), the API token. A template with a lookup, never the secret itself.
        type: str
        version_added: "0.1.0"
      boot_interface:
        description:
          - Of V(netbox), the name of the interface that boots. Without it the only one that has a MAC and is not for
            management.
        type: str
        version_added: "0.1.0"
      ca_path:
        description: Of V(ironic), V(maas), V(warewulf) and V(netbox), a file of certificate authorities for TLS.
        type: path
      query:
        description:
          - Of V(ironic) and V(maas), what the API itself shall filter by, such as C(conductor_group) or C(zone).
          - Of V(warewulf), whose API has no filters, what is kept of its answer. C(profile), C(cluster) and C(image)
            take one name or a list of which one must be the node's, and C(tags) a mapping of tags to what each of them
            must say. Of V(xcat) C(group) takes one group or a list of them. Of V(netbox) it is a filter of its list of
            devices, such as C(site), C(role), C(tag), C(status) or C(cf_sku), with a word or a list of words; what it
            would pass over is refused. A profile of Warewulf is one that stands in the node's own record, and must be
            known there.
          - Of V(bcm), C(category) and C(image), each one name or a list of which one must be the node's. One that BCM
            does not know is an error.
        type: dict
      bmc:
        description:
          - Of V(maas), also read the BMC's address and user. An administrator's key is needed. The passwords that MAAS
            sends along are dropped at once.
        type: bool
        default: false
      dpu_group:
        description:
          - Of V(maas), a group for its DPUs, which are hosts of the inventory then. Without it they are left out, and a
            warning says how many. MAAS has a DPU as a machine of its own since 3.7; it is a card in a node, and no
            node. C(maas_is_dpu) is true of one.
          - Also a host of this group is brought up and recycled by no role, unless the option C(driver) of its
            provisioner says C(is_dpu). Leave the group out of patterns such as V(all).
        type: str
        version_added: "0.1.0"
      timeout:
        description: Of V(maas), seconds for one answer, and for each silence in it. A thousand machines take MAAS 40 s.
          An answer that goes on coming has 180 s where this is shorter.
        type: float
        default: 600
  hostnames:
    description:
      - Expressions for the host's name; the first that gives a text is taken. They see the host's variables and
        C(name), which is the machine's name in the first source that has one.
    type: list
    elements: str
    default: [name, gpufleet_scheduler_node, gpufleet_serial]
  filters:
    description:
      - Rules that are tried in order; the first whose expression is true decides. A machine that none is true for is
        kept, unless the last rule is an C(include), which then must be true.
    type: list
    elements: dict
    default: []
    suboptions:
      include:
        description: An expression over the host's variables; true keeps the machine.
        type: str
      exclude:
        description: An expression over the host's variables; true leaves the machine out.
        type: str
  ironic_url:
    description: The C(url) of each V(ironic) source that has none.
    type: str
    env:
      - name: GPUFLEET_IRONIC_URL
  ironic_username:
    description: The C(username) of each V(ironic) source that has none.
    type: str
    env:
      - name: GPUFLEET_IRONIC_USERNAME
  ironic_password:
    description: The C(password) of each V(ironic) source that has none.
    type: str
    env:
      - name: GPUFLEET_IRONIC_PASSWORD
  ironic_ca_path:
    description: The C(ca_path) of each V(ironic) source that has none.
    type: path
    env:
      - name: GPUFLEET_IRONIC_CA_PATH
  ironic_cloud:
    description: The C(cloud) of each V(ironic) source that has none.
    type: str
    env:
      - name: GPUFLEET_IRONIC_CLOUD
  maas_url:
    description: The C(url) of each V(maas) source that has none.
    type: str
    env:
      - name: GPUFLEET_MAAS_URL
  maas_api_key:
    description: The C(api_key) of each V(maas) source that has none.
    type: str
    env:
      - name: GPUFLEET_MAAS_API_KEY
  maas_ca_path:
    description: The C(ca_path) of each V(maas) source that has none.
    type: path
    env:
      - name: GPUFLEET_MAAS_CA_PATH
  bcm_url:
    description: The C(url) of each V(bcm) source that has none.
    type: str
    env:
      - name: GPUFLEET_BCM_URL
  netbox_url:
    description: The C(url) of each V(netbox) source that has none.
    type: str
    env:
      - name: GPUFLEET_NETBOX_URL
  netbox_token:
    description: The C(token) of each V(netbox) source that has none.
    type: str
    env:
      - name: GPUFLEET_NETBOX_TOKEN
  netbox_ca_path:
    description: The C(ca_path) of each V(netbox) source that has none.
    type: path
    env:
      - name: GPUFLEET_NETBOX_CA_PATH
  warewulf_url:
    description: The C(url) of each V(warewulf) source that has none.
    type: str
    env:
      - name: GPUFLEET_WAREWULF_URL
  warewulf_username:
    description: The C(username) of each V(warewulf) source that has none.
    type: str
    env:
      - name: GPUFLEET_WAREWULF_USERNAME
  warewulf_password:
    description: The C(password) of each V(warewulf) source that has none.
    type: str
    env:
      - name: GPUFLEET_WAREWULF_PASSWORD
  warewulf_ca_path:
    description: The C(ca_path) of each V(warewulf) source that has none.
    type: path
    env:
      - name: GPUFLEET_WAREWULF_CA_PATH
requirements:
  - netaddr
  - jmespath for the option C(fields) of a source
  - openstacksdk for sources of type C(ironic)
  - requests for sources of type C(maas), C(warewulf) and C(netbox)
notes:
  - ansible-core goes on with what is left when an inventory cannot be read. Set
    C(ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=True), or C(any_unparsed_is_failed = true) in the section C([inventory])
    of C(ansible.cfg), so that it ends. In an automation controller it is a variable of the inventory source.
  - Keep lists outside of a folder that is an inventory itself, where they would be read as one.
  - Sources of type V(csv) are not cached, and never is a secret.
  - A source of type V(warewulf) needs Warewulf 4.6.3 or newer. It tells the address of a node's primary network as
    C(ansible_host), and the address and the user of its BMC. That every node there has a template for ipmitool says
    nothing of what else its BMC speaks, so C(gpufleet_bmc_protocol) is left to group variables.
  - A source of type V(bcm) tells of physical nodes alone. C(gpufleet_bmc_address) is the address of the interface that
    C(powercontrol) of the node names. BCM is asked for no password.
"""

EXAMPLES = r"""
# fleet.yml: a list of servers. The columns are described in the README of the inventory examples.
---
plugin: gpufleet.baremetal.fleet
sources:
  - type: csv
    path: servers.csv

# gpu.fleet.yml: Ironic says what there is, a list of servers adds rack, SKU and BMC credentials.
---
plugin: gpufleet.baremetal.fleet
sources:
  - type: ironic
    url: https://ironic.example.com:6385
    username: ansible
    password: "{{ lookup('ansible.builtin.env', 'IRONIC_PASSWORD') }}"
  - type: csv
    path: servers.csv
    join_only: true
filters:
  - exclude: ironic_maintenance and ironic_owner == 'lab'
keyed_groups:
  - key: csv_rack
    prefix: rack
  - key: gpufleet_sku
    prefix: sku
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: /var/cache/gpufleet
cache_timeout: 600

# maas.fleet.yml: one pool of a MAAS; the key comes from the environment variable GPUFLEET_MAAS_API_KEY.
---
plugin: gpufleet.baremetal.fleet
sources:
  - type: maas
    url: https://maas.example.com:5443/MAAS
    bmc: true
    query:
      pool: training
    fields:
      gpufleet_failure_domain: zone.name
      mainboard: hardware_info.mainboard_product
compose:
  gpufleet_sku: "{'DGXH100': 'h100-sxm-8'}[maas_system_product]"
groups:
  broken: maas_status == 8

# netbox.fleet.yml: what is racked and planned there for one role; the token comes from GPUFLEET_NETBOX_TOKEN.
---
plugin: gpufleet.baremetal.fleet
sources:
  - type: netbox
    url: https://netbox.example.com
    boot_interface: eno1
    query:
      role: gpu-node
      status: [planned, staged, active]
    fields:
      gpufleet_sku: custom_fields.sku
      gpufleet_failure_domain: rack.name

# warewulf.fleet.yml: one profile of a Warewulf; a list of servers adds rack and BMC credentials.
---
plugin: gpufleet.baremetal.fleet
sources:
  - type: warewulf
    url: https://warewulf.example.com:9874
    username: ansible
    password: "{{ lookup('ansible.builtin.env', 'WAREWULF_PASSWORD') }}"
    ca_path: /etc/gpufleet/warewulf.crt
    query:
      profile: gpu
      tags:
        ring: production
    fields:
      gpufleet_sku: tags.sku
  - type: csv
    path: servers.csv
    join_only: true
keyed_groups:
  - key: warewulf_image
    prefix: image

# bcm.fleet.yml: one category of a Base Command Manager, read on its head node; a list adds serials and BMC credentials.
---
plugin: gpufleet.baremetal.fleet
sources:
  - type: bcm
    url: /cm/local/apps/cmd/bin/cmsh
    query:
      category: [dgx-h100, dgx-h200]
  - type: csv
    path: servers.csv
    join_only: true
keyed_groups:
  - key: bcm_category
    prefix: category
"""

import difflib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError, AnsibleParserError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import IN_A_TASK
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import ConfigError, FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import shown
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._core import LEAST as _LEAST  # noqa: F401
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_join import (
    Machine,
    join,
    known_by,
    without_a_row,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_record import Record, is_host_name
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_sources import (
    RAW,
    SECRETS,
    beside,
    check_source,
)
from ansible_collections.gpufleet.baremetal.plugins.plugin_utils._inventory_trust import (
    Lookup,
    for_a_run,
    for_an_export,
    is_an_export,
    trust_as_template,
)

_SUFFIXES = (".fleet.yml", ".fleet.yaml")
_NAMES = ("fleet.yml", "fleet.yaml")
#: The provisioners' clients name their own options; here they are options of a source.
_OPTION = re.compile(r"\b(?:gpufleet_)?provisioner_(url|username|password|api_key|ca_path|cloud)\b")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """The fleet."""

    NAME = "gpufleet.baremetal.fleet"

    def verify_file(self, path: str) -> bool:
        named = path.endswith(_SUFFIXES) or os.path.basename(path) in _NAMES
        return bool(super().verify_file(path)) and named

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        config = self._read_config_data(path)
        self.load_cache_plugin()
        try:
            self._refuse_unknown(config)
            for name, variables, groups in self._hosts(path, cache):
                self._add(name, variables, groups)
        except FleetError as exc:
            # The whole story is in the message; a chain of causes would tell it three times.
            raise AnsibleParserError(_shown(f"{path}: {_of_a_source(exc)}")) from None
        except AnsibleError:
            raise
        except Exception as exc:  # whatever a library throws must not look like an empty fleet
            # Without its cause, whose words would be shown as they came.
            raise AnsibleParserError(_shown(f"{path}: {type(exc).__name__}: {exc}")) from None

    def _refuse_unknown(self, config: Mapping[str, Any]) -> None:
        """ansible-core leaves out what a plugin does not know, and with a typo what it stood for.

        :raises ConfigError: naming each such key, and what it looks like.
        """
        known = set(self.option_definitions) | {"plugin"}
        unknown = sorted(str(key) for key in config if str(key) not in known and not str(key).startswith(("x-", "_")))
        if unknown:
            like = {key: difflib.get_close_matches(key, sorted(known), n=1) for key in unknown}
            raise ConfigError(
                f"unknown keys: {', '.join(unknown)}",
                wanted=f"keys of the file: {', '.join(key for key in sorted(known) if not key.startswith('_'))}",
                do="; ".join(f"{key}: {found[0]} is meant?" for key, found in like.items() if found)
                or "correct or remove them; see ansible-doc -t inventory gpufleet.baremetal.fleet",
            )

    # -- reading -----------------------------------------------------------------------------------------------

    def _hosts(self, path: str, cache: bool) -> list[tuple[str, dict[str, Any], list[str]]]:
        """All of them before the first is added, so that a mistake in the last leaves no half inventory."""
        sources = self.get_option("sources")
        if not sources:
            raise ConfigError("the inventory names no source", do="list at least one under 'sources'")
        read = [
            (self._source(source, number, path, cache), boolean(source.get("join_only", False)))
            for number, source in enumerate(sources, 1)
        ]
        machines, left_out = join(read)
        if left_out:
            told = f"{len(left_out)} row(s) match no machine of an earlier source, such as {left_out[0].where}"
            self.display.v(_shown(told))
        hosts: dict[str, tuple[Machine, dict[str, Any]]] = {}
        dpus = []
        for machine in machines:
            variables = machine.variables()
            if not self._wanted(machine, variables):
                continue
            if machine.dpu and not machine.groups:
                dpus.append(machine)
                continue
            name = self._name(machine, variables)
            if name in hosts:
                raise ConfigError(
                    f"two machines would be called {name}",
                    seen=f"{hosts[name][0].where}; {machine.where}",
                    do="correct the names, or set 'hostnames' to expressions that tell them apart",
                )
            hosts[name] = (machine, variables)
        alone = without_a_row([machine for machine, _variables in hosts.values()], read)
        if alone:
            told = f"{len(alone)} machine(s) match no row of a list with join_only, and lack what stands there, such as"
            self.display.warning(_shown(f"{path}: {told} {alone[0].where} ({known_by(alone[0])})"))
        if dpus:
            told = f"{len(dpus)} machine(s) are DPUs, which are no nodes, and are left out (dpu_group), such as"
            self.display.warning(_shown(f"{path}: {told} {dpus[0].where}"))
        return [(name, variables, machine.groups) for name, (machine, variables) in hosts.items()]

    def _source(self, source: Any, number: int, path: str, cache: bool) -> list[Record]:
        kind = check_source(source, number)
        label = str(source.get("name") or f"source {number} ({source['type']})")
        options = {key: value if key in RAW else self._templated(value) for key, value in source.items()}
        for name, shared in kind.shared.items():
            if not options.get(name):
                options[name] = self._templated(self.get_option(shared))
        for name in ("path", "ca_path"):
            if options.get(name):
                options[name] = beside(str(options[name]), path)
        if not kind.remote:
            return kind.read(options, label)
        try:
            return self._cached(lambda: kind.read(options, label), options, path, cache)
        except FleetError as exc:
            raise exc.located(node=label)  # noqa: B904 (the same error, with its place)

    def _templated(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._templated(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._templated(item) for item in value]
        return self.templar.template(value) if isinstance(value, str) else value

    def _cached(self, read: Any, options: dict[str, Any], path: str, cache: bool) -> list[Record]:
        """Like any inventory's cache: asked for by the option, refused by --flush-cache, ended by its timeout."""
        if not self.get_option("cache"):
            return list(read())
        # None of before control variables were asked for by name, of structures, or in which a DPU is like a node.
        public = {"": 4, **{key: value for key, value in options.items() if key not in SECRETS}}
        digest = hashlib.sha256(json.dumps(public, sort_keys=True, default=str).encode()).hexdigest()[:16]
        key = f"{self.get_cache_key(path)}_{digest}"
        if cache:
            try:
                return [Record.from_dict(item) for item in json.loads(self._cache[key])]
            except KeyError:
                pass
        records: list[Record] = read()
        # As one text: ansible-core makes of a structure in its cache what words in it ask for, a trusted template too.
        self._cache[key] = json.dumps([record.as_dict() for record in records])
        return records

    # -- choosing ----------------------------------------------------------------------------------------------

    def _wanted(self, machine: Machine, variables: dict[str, Any]) -> bool:
        rules = self.get_option("filters")
        for rule in rules:
            if not isinstance(rule, dict) or len(rule) != 1 or next(iter(rule)) not in ("include", "exclude"):
                raise ConfigError("a filter that is neither one include nor one exclude", seen=str(rule))
            ((word, expression),) = rule.items()
            try:
                true = boolean(self._compose(expression, variables))
            except Exception as exc:  # an undefined variable must not decide who is in the fleet
                raise ConfigError(f"the filter {word}: {expression} fails: {exc}", node=machine.where) from exc
            if true:
                return bool(word == "include")
        return not rules or "include" not in rules[-1]

    def _name(self, machine: Machine, variables: dict[str, Any]) -> str:
        known = {**variables, "name": machine.name}
        for expression in self.get_option("hostnames"):
            try:
                name = str(self._compose(_trusted(expression), known) or "").strip()
            except Exception as exc:
                if "undefined" in str(exc).lower():
                    continue  # this machine lacks it; the next expression may do
                raise ConfigError(f"the expression {expression} in hostnames fails: {exc}", node=machine.where) from exc
            if name and not is_host_name(name):
                raise ConfigError(f"{name!r} cannot be the name of a host", node=machine.where)
            if name:
                return name
        raise ConfigError(
            "no expression in hostnames gives this machine a name",
            node=machine.where,
            do="add a name or a serial in its source, or an expression to 'hostnames'",
        )

    # -- adding ------------------------------------------------------------------------------------------------

    def _add(self, name: str, variables: dict[str, Any], groups: list[str]) -> None:
        self.inventory.add_host(name)
        for group in groups:
            self.inventory.add_host(name, group=self.inventory.add_group(group))
        for key, value in variables.items():
            self.inventory.set_variable(name, key, for_a_run(value))
        host = self.inventory.get_host(name)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), host.get_vars(), name, strict=strict)
        known = host.get_vars()
        self._add_host_to_composed_groups(self.get_option("groups"), known, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), known, name, strict=strict)
        self._settle(name, variables)

    def _settle(self, name: str, variables: dict[str, Any]) -> None:
        """Last, when nothing is evaluated any more: also what an expression has made of a source's text is text."""
        host = self.inventory.get_host(name)
        composed = [key for key in self.get_option("compose") or {} if key in host.vars]
        for key in composed:
            self.inventory.set_variable(name, key, for_a_run(host.vars[key]))
        if is_an_export():
            for key in {**variables, **dict.fromkeys(composed)}:
                if not isinstance(variables.get(key), Lookup) or key in composed:
                    self.inventory.set_variable(name, key, for_an_export(host.vars[key]))


def _shown(text: str) -> str:
    return shown(text, frozenset())


def _of_a_source(exc: FleetError) -> str:
    """Its words, which a verb would say of a task's options and of host variables."""
    return _OPTION.sub(_of_source, str(exc).replace(IN_A_TASK, "set "))


def _of_source(found: re.Match[str]) -> str:
    return f"the source's {found[1]}"


def _trusted(expression: str) -> str:
    """The defaults of an option come from this file, and are trusted like what a site writes into its own."""
    trusted: str = trust_as_template(expression)
    return trusted
