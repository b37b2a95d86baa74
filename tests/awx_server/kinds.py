# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each kind of object has: its fields, what they may be, and to what they point. Plain data, after AWX 24.6.1."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

TEXT, FLAG, COUNT, DATA = (str,), (bool,), (int,), (dict,)


class Field(NamedTuple):
    """form: the types that it may be. to: the kind that it points to, by id. null: it may be none."""

    form: tuple[type, ...] = TEXT
    default: Any = ""
    null: bool = False
    to: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


def needed(*choices: str) -> Field:
    return Field(required=True, choices=choices)


def one_of(*choices: str, default: str = "") -> Field:
    return Field(choices=choices, default=default)


def flag(default: bool = False) -> Field:
    return Field(FLAG, default)


def count(default: Optional[int] = 0) -> Field:
    return Field(COUNT, default, null=default is None)


def to(kind: str, *, required: bool = False) -> Field:
    return Field(COUNT, None, null=not required, to=kind, required=required)


def asks(*names: str) -> dict[str, Field]:
    return {f"ask_{name}_on_launch": flag() for name in names}


PROMPTS: dict[str, Field] = {
    "extra_data": Field(DATA, {}),
    "inventory": to("inventories"),
    "limit": Field(TEXT, None, null=True),
    "job_type": Field(TEXT, None, null=True, choices=("run", "check")),
    "diff_mode": Field(FLAG, None, null=True),
}
NAMED: dict[str, Field] = {"name": needed(), "description": Field()}
OF_AN_ORGANIZATION: dict[str, Field] = {**NAMED, "organization": to("organizations")}

FIELDS: dict[str, dict[str, Field]] = {
    "organizations": NAMED,
    "credential_types": {
        **NAMED,
        "kind": needed("cloud", "net"),
        "inputs": Field(DATA, {}),
        "injectors": Field(DATA, {}),
        "managed": flag(),
    },
    "credentials": {**OF_AN_ORGANIZATION, "credential_type": to("credential_types", required=True)},
    "execution_environments": {
        **OF_AN_ORGANIZATION,
        "image": needed(),
        "pull": one_of("", "always", "missing", "never"),
        "credential": to("credentials"),
    },
    "projects": {
        **OF_AN_ORGANIZATION,
        "scm_type": one_of("", "git", "svn", "insights", "archive"),
        "scm_url": Field(),
        "scm_branch": Field(),
        "scm_update_on_launch": flag(),
        "allow_override": flag(),
        "credential": to("credentials"),
        "default_environment": to("execution_environments"),
    },
    "inventories": {
        **NAMED,
        "organization": to("organizations", required=True),
        "kind": one_of("", "smart", "constructed"),
        "host_filter": Field(TEXT, None, null=True),
        "variables": Field(),
    },
    "inventory_sources": {
        **NAMED,
        "inventory": to("inventories", required=True),
        "source": needed("scm", "ec2", "gce", "azure_rm", "vmware", "satellite6", "openstack", "rhv", "controller"),
        "source_path": Field(),
        "source_project": to("projects"),
        "source_vars": Field(),
        "credential": to("credentials"),
        "execution_environment": to("execution_environments"),
        "overwrite": flag(),
        "overwrite_vars": flag(),
        "update_on_launch": flag(),
    },
    "notification_templates": {
        **NAMED,
        "organization": to("organizations", required=True),
        "notification_type": needed("email", "slack", "webhook", "pagerduty", "mattermost"),
        "notification_configuration": Field(DATA, {}),
        "messages": Field(DATA, None, null=True),
    },
    "job_templates": {
        **NAMED,
        "job_type": one_of("run", "check", default="run"),
        "inventory": to("inventories"),
        "project": to("projects"),
        "playbook": Field(),
        "execution_environment": to("execution_environments"),
        "forks": count(),
        "limit": Field(),
        "extra_vars": Field(),
        "job_slice_count": count(1),
        "survey_enabled": flag(),
        "allow_simultaneous": flag(),
        **asks("limit", "variables", "job_type", "diff_mode", "inventory", "labels"),
    },
    "workflow_job_templates": {
        **OF_AN_ORGANIZATION,
        "inventory": to("inventories"),
        "limit": Field(TEXT, None, null=True),
        "extra_vars": Field(),
        "survey_enabled": flag(),
        "allow_simultaneous": flag(),
        **asks("limit", "variables", "inventory"),
    },
    "workflow_job_template_nodes": {
        "workflow_job_template": to("workflow_job_templates", required=True),
        "unified_job_template": to("unified_job_templates"),
        "identifier": Field(),
        "all_parents_must_converge": flag(),
        **PROMPTS,
    },
    "workflow_approval_templates": {**NAMED, "timeout": count()},
    "schedules": {
        **NAMED,
        "unified_job_template": to("unified_job_templates", required=True),
        "rrule": needed(),
        "enabled": flag(True),
        **PROMPTS,
    },
}

#: What runs: a workflow and a schedule name any of them, and no two have one id.
UNIFIED = (
    "job_templates",
    "workflow_job_templates",
    "projects",
    "inventory_sources",
    "workflow_approval_templates",
)
#: What may not be said twice.
UNIQUE: dict[str, tuple[str, ...]] = {
    "organizations": ("name",),
    "credential_types": ("name", "kind"),
    "execution_environments": ("name",),
    "projects": ("name", "organization"),
    "inventories": ("name", "organization"),
    "inventory_sources": ("name", "inventory"),
    "notification_templates": ("name", "organization"),
    "job_templates": ("name", "organization"),
    "workflow_job_templates": ("name", "organization"),
    "workflow_job_template_nodes": ("identifier", "workflow_job_template"),
    "schedules": ("name", "unified_job_template"),
}
_TOLD = {f"notification_templates_{when}": "notification_templates" for when in ("started", "success", "error")}
NEXT = ("success_nodes", "failure_nodes", "always_nodes")
#: By kind, its lists of others and what stands in them.
LISTS: dict[str, dict[str, str]] = {
    "organizations": {**_TOLD, "galaxy_credentials": "credentials"},
    "projects": _TOLD,
    "inventory_sources": _TOLD,
    "job_templates": {**_TOLD, "credentials": "credentials"},
    "workflow_job_templates": {**_TOLD, "notification_templates_approvals": "notification_templates"},
    "workflow_job_template_nodes": {
        **dict.fromkeys(NEXT, "workflow_job_template_nodes"),
        "credentials": "credentials",
    },
}
#: What goes with what it belongs to.
WITH: dict[str, tuple[tuple[str, str], ...]] = {
    "inventories": (("inventory_sources", "inventory"),),
    "workflow_job_templates": (
        ("workflow_job_template_nodes", "workflow_job_template"),
        ("schedules", "unified_job_template"),
    ),
    "job_templates": (("schedules", "unified_job_template"),),
    "projects": (("schedules", "unified_job_template"),),
    "inventory_sources": (("schedules", "unified_job_template"),),
}
#: What a service of notifications has to be told, and what it may be.
NOTIFY: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "webhook": (
        frozenset({"url", "http_method", "headers"}),
        frozenset({"disable_ssl_verification", "username", "password"}),
    ),
    "slack": (frozenset({"token", "channels"}), frozenset({"hex_color"})),
    "mattermost": (
        frozenset({"mattermost_url"}),
        frozenset({"mattermost_username", "mattermost_channel", "mattermost_icon_url", "mattermost_no_verify_ssl"}),
    ),
    "pagerduty": (frozenset({"subdomain", "token", "service_key", "client_name"}), frozenset()),
    "email": (
        frozenset({"host", "port", "username", "password", "use_tls", "use_ssl", "sender", "recipients", "timeout"}),
        frozenset(),
    ),
}
