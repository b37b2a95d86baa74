# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of variables that somebody reads, as plain data: what is set by another name is read by nobody. PRIVATE.

The host variables of the ports come out of their own lists. What roles and playbooks take is spelled out here, since a
look at settings reads no YAML of ours; the rule in ``tests/tree`` holds it against their argument specs.
"""

from __future__ import annotations

from typing import Any

#: What a person says of one run, and how a site calls its job templates, beside the variables of a host.
OF_A_RUN: tuple[str, ...] = ("gpufleet_for_tenant", "gpufleet_awx_templates", "gpufleet_limit_required")

#: What the reports of our own playbooks leave for the jobs that follow, each called after its title, and what plans of
#: waves do.
ARTIFACTS: tuple[str, ...] = (
    "gpufleet_adoption",
    "gpufleet_burn_in",
    "gpufleet_day_0",
    "gpufleet_day_2",
    "gpufleet_drain",
    "gpufleet_identity",
    "gpufleet_maintenance",
    "gpufleet_move",
    "gpufleet_passports",
    "gpufleet_readmission",
    "gpufleet_reimage",
    "gpufleet_revalidation",
    "gpufleet_status",
    "gpufleet_verify_idle",
    "gpufleet_waves",
)

#: By role, what each of its options may be.
ROLES: dict[str, dict[str, dict[str, Any]]] = {
    "awx": {
        "awx_state": {"type": "str", "choices": ["present", "absent"]},
        "awx_organization": {"type": "str"},
        "awx_prefix": {"type": "str"},
        "awx_names": {"type": "dict"},
        "awx_project_url": {"type": "str"},
        "awx_branch": {"type": "str"},
        "awx_project_credential": {"type": "str"},
        "awx_playbooks": {"type": "str"},
        "awx_source_path": {"type": "str"},
        "awx_source_credential": {"type": "str"},
        "awx_environment_image": {"type": "str"},
        "awx_environment_pull": {"type": "str", "choices": ["always", "missing", "never"]},
        "awx_environment_credential": {"type": "str"},
        "awx_credentials": {"type": "list", "elements": "str"},
        "awx_forks": {"type": "int"},
        "awx_slices": {"type": "int"},
        "awx_canary": {"type": "str"},
        "awx_files": {"type": "str"},
        "awx_verify_queue": {"type": "str"},
        "awx_timezone": {"type": "str"},
        "awx_schedules": {"type": "dict"},
        "awx_notification": {"type": "dict"},
    },
    "baseline": {
        "baseline_booted_after": {"type": "float"},
        "baseline_deploy_id": {"type": "str"},
        "baseline_bmc_identity": {"type": "dict"},
        "baseline_max_clock_skew": {"type": "float"},
    },
    "burn_in": {
        "burn_in_hours": {"type": "float"},
        "burn_in_tests": {"type": "list", "elements": "str"},
        "burn_in_gpu_burn": {"type": "str"},
        "burn_in_compare": {"type": "str"},
        "burn_in_resumes": {"type": "bool"},
        "burn_in_stop": {"type": "bool"},
        "burn_in_interval": {"type": "float"},
        "burn_in_grace": {"type": "int"},
    },
    "deploy": {
        "deploy_resume": {"type": "str"},
        "deploy_timeout": {"type": "int"},
        "deploy_interval": {"type": "float"},
        "deploy_boot_timeout": {"type": "int"},
        "deploy_boot_interval": {"type": "float"},
        "deploy_pxe_mode": {"type": "str", "choices": ["uefi", "legacy", "keep"]},
        "deploy_pxe_prove": {"type": "str", "choices": ["auto", "readback", "boot"]},
        "deploy_pxe_timeout": {"type": "int"},
        "deploy_after": {"type": "list", "elements": "str"},
        "deploy_read_too": {"type": "dict"},
    },
    "drain": {
        "drain_after": {"type": "str"},
        "drain_timeout": {"type": "int"},
        "drain_interval": {"type": "float"},
        "drain_over_keep": {"type": "bool"},
    },
    "enroll": {
        "enroll_properties": {"type": "dict"},
        "enroll_driver": {"type": "dict"},
        "enroll_timeout": {"type": "int"},
        "enroll_interval": {"type": "float"},
        "enroll_verify_hardware": {"type": "bool"},
        "enroll_after": {"type": "list", "elements": "str"},
    },
    "gate": {
        "gate_dcgm_health": {"type": "bool"},
        "gate_dcgm_level": {"type": "int", "choices": [0, 1, 2, 3, 4]},
        "gate_dcgm_timeout": {"type": "int"},
        "gate_gpu_state": {"type": "bool"},
        "gate_level": {"type": "str", "choices": ["smoke", "readmit", "full"]},
        "gate_levels": {"type": "dict"},
        "gate_more": {"type": "dict"},
        "gate_order": {"type": "list", "elements": "str"},
        "gate_phases": {"type": "dict"},
        "gate_resume": {"type": "bool"},
        "gate_after": {"type": "list", "elements": "str"},
    },
    "hold": {
        "hold_why": {"type": "str"},
        "hold_kind": {"type": "str", "choices": ["work", "keep"]},
        "hold_over_keep": {"type": "bool"},
        "hold_force_reason": {"type": "str"},
        "hold_status": {"type": "dict"},
    },
    "image": {
        "image_signers": {"type": "list", "elements": "str"},
    },
    "join": {
        "join_policy": {"type": "dict"},
        "join_policy_file": {"type": "path"},
        "join_trial": {"type": "str", "choices": ["never", "auto", "always"]},
        "join_timeout": {"type": "int"},
        "join_interval": {"type": "float"},
        "join_hold_timeout": {"type": "int"},
        "join_hold_interval": {"type": "float"},
    },
    "netboot": {
        "netboot_dir": {"type": "path"},
        "netboot_interface": {"type": "str"},
        "netboot_address": {"type": "str"},
        "netboot_port": {"type": "int"},
        "netboot_mode": {"type": "str", "choices": ["proxy", "dhcp"]},
        "netboot_subnet": {"type": "str"},
        "netboot_netmask": {"type": "str"},
        "netboot_range": {"type": "list", "elements": "str"},
        "netboot_router": {"type": "str"},
        "netboot_dns": {"type": "list", "elements": "str"},
        "netboot_loaders": {"type": "dict"},
        "netboot_group": {"type": "str"},
        "netboot_command": {"type": "path"},
        "netboot_packages": {"type": "bool"},
        "netboot_units": {"type": "bool"},
    },
    "oob_ready": {
        "oob_ready_provisioner": {"type": "bool"},
        "oob_ready_deploys": {"type": "bool"},
        "oob_ready_new": {"type": "bool"},
        "oob_ready_take_running": {"type": "bool"},
        "oob_ready_unfit": {"type": "str"},
    },
    "passport": {
        "passport_identity": {"type": "dict"},
        "passport_bmc_identity": {"type": "dict"},
        "passport_valid_for": {"type": "int"},
        "passport_lifetime": {"type": "int"},
        "passport_policy": {"type": "dict"},
        "passport_policy_file": {"type": "path"},
    },
    "quarantine": {
        "quarantine_result": {"type": "dict"},
        "quarantine_playbook": {"type": "str"},
        "quarantine_at_provisioner": {"type": "bool"},
    },
    "reimage": {
        "reimage_resume": {"type": "str"},
        "reimage_after": {"type": "str"},
        "reimage_drain_timeout": {"type": "int"},
    },
}

#: Options of playbooks that are yes or no: what is neither would be read as no, without a word.
SWITCHES: frozenset[str] = frozenset({
    *("adopt_again", "adopt_other_name", "burn_in_stop", "day2_recycle_all", "day2_recycle_drift"),
    *("day2_recycle_waves", "gate_profile_hardware", "history_all", "import_servers_ask_bmc", "maintenance_readmit"),
    *("maintenance_replaces", "migrate_ask_bmc", "migrate_erase", "passports_all", "passports_renew"),
    *("report_ask_scheduler", "status_ask_scheduler", "topology_become", "topology_reconfigure", "waves_rollout"),
})  # fmt: skip

#: Options of playbooks that are numbers: what is none would be read as 0 without a word, or be refused by the task that
#: reads it, which comes after writes.
NUMBERS: frozenset[str] = frozenset({
    *("day2_recycle_look_timeout", "migrate_interval", "migrate_timeout", "verify_idle_at_once", "verify_idle_days"),
    *("verify_idle_level", "verify_idle_minutes"),
})  # fmt: skip

#: By playbook, what a person may give it with -e.
PLAYBOOKS: dict[str, tuple[str, ...]] = {
    "adopt": ("adopt_again", "adopt_other_name"),
    "awx_setup": ("awx_state",),
    "burn_in": ("burn_in_hours", "burn_in_stop", "burn_in_why"),
    "day0_bringup": ("oob_ready_take_running",),
    "day2_recycle": ("day2_recycle_all", "day2_recycle_drift", "day2_recycle_look_timeout", "day2_recycle_waves"),
    "drain": ("drain_why",),
    "evidence": ("evidence_case", "evidence_files", "evidence_folder"),
    "gate_profile": (
        "gate_profile_beside_known",
        "gate_profile_dest",
        "gate_profile_hardware",
        "gate_profile_leave_out",
        "gate_profile_like",
        "gate_profile_margin",
        "gate_profile_replace",
        "gate_profile_sku",
        "gate_profile_title",
    ),
    "history": ("history_all", "history_last", "history_of"),
    "identity": (
        "identity",
        "identity_force_reason",
        "identity_kind",
        "identity_part",
        "identity_value",
        "identity_was",
        "identity_why",
    ),
    "import_servers": (
        "import_servers",
        "import_servers_ask_bmc",
        "import_servers_check_serials",
        "import_servers_delimiter",
        "import_servers_dest",
        "import_servers_password_lookup",
        "import_servers_password_refs",
        "import_servers_path",
        "import_servers_purge",
        "import_servers_sources",
    ),
    "ledger": ("ledger", "ledger_force_reason", "ledger_older_than", "ledger_path", "ledger_to"),
    "maintenance": (
        "maintenance",
        "maintenance_readmit",
        "maintenance_replaces",
        "maintenance_until",
        "maintenance_why",
    ),
    "migrate_provisioner": ("migrate_ask_bmc", "migrate_erase", "migrate_interval", "migrate_timeout", "migrate_to"),
    "passports": (
        "passports_all",
        "passports_all_hours",
        "passports_days",
        "passports_reason",
        "passports_renew",
        "passports_serial",
        "passports_write_to",
    ),
    "report": (
        "report_ask_scheduler",
        "report_data",
        "report_days",
        "report_details",
        "report_metrics",
        "report_page",
        "report_title",
    ),
    "rollout": ("day2_recycle_look_timeout", "rollout_digest", "rollout_report", "rollout_version"),
    "status": ("status_ask_scheduler", "status_days", "status_fail_on", "status_write_to"),
    "topology": (
        "topology",
        "topology_become",
        "topology_fail_on",
        "topology_force_reason",
        "topology_format",
        "topology_infiniband_file",
        "topology_of",
        "topology_on",
        "topology_ports",
        "topology_reconfigure",
        "topology_sources",
    ),
    "verify_idle": (
        "verify_idle_at_once",
        "verify_idle_days",
        "verify_idle_level",
        "verify_idle_minutes",
        "verify_idle_on_fail",
        "verify_idle_options",
        "verify_idle_queue",
    ),
    "waves": (
        "fleet_plan_budgets",
        "fleet_plan_canary",
        "fleet_plan_elsewhere",
        "fleet_plan_failures",
        "fleet_plan_growth",
        "fleet_plan_recent_failures",
        "fleet_plan_recent_hours",
        "fleet_plan_remember",
        "fleet_plan_same_finding",
        "fleet_plan_windows",
        "waves",
        "waves_by",
        "waves_rollout",
        "waves_why",
    ),
}
