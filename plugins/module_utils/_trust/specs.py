# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument specs of ``image_verify`` and ``node_passport``, shared by module and action. PRIVATE to the collection."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baremetal.plugins.module_utils._argspec import FAIL_ON, FLEET, GATES, spec

#: The golden image, as the host variable ``gpufleet_image`` declares it.
IMAGE_OPTIONS: dict[str, dict[str, Any]] = {
    "name": {"type": "str"},
    "version": {"type": "str"},
    "named": {"type": "str"},
    "url": {"type": "str"},
    "sha256": {"type": "str"},
    "size": {"type": "int"},
    "checksums_url": {"type": "str"},
    "signature_url": {"type": "str"},
    "manifest_url": {"type": "str"},
    "keyring": {"type": "path"},
    "ca_path": {"type": "path"},
    "kernel_url": {"type": "str"},
    "format": {"type": "str", "choices": ["ramdisk", "whole-disk"]},
}

IMAGE_VERIFY = spec(
    FLEET,
    FAIL_ON,
    mode={"type": "str", "choices": ["artifact", "node", "machine"], "default": "artifact"},
    image={"type": "dict", "options": IMAGE_OPTIONS},
    keyring={"type": "path"},
    signers={"type": "list", "elements": "str"},
    ca_path={"type": "path"},
    deep={"type": "bool", "default": True},
    gpg={"type": "path", "default": "gpg"},
    timeout={"type": "int", "default": 60},
    manifest_path={"type": "path", "default": "/etc/gpufleet/manifest.json"},
    driver_version_path={"type": "path", "default": "/proc/driver/nvidia/version"},
    nvidia_smi={"type": "path", "default": "nvidia-smi"},
    fabric_manager={"type": "path", "default": "nv-fabricmanager"},
    boot_id_path={"type": "path", "default": "/proc/sys/kernel/random/boot_id"},
    uptime_path={"type": "path", "default": "/proc/uptime"},
    dmi_path={"type": "path", "default": "/sys/class/dmi/id"},
    cmdline_path={"type": "path", "default": "/proc/cmdline"},
    config_drive_path={"type": "path", "default": "/dev/disk/by-label/config-2"},
    mountinfo_path={"type": "path", "default": "/proc/self/mountinfo"},
    sysfs_path={"type": "path", "default": "/sys"},
    user_data_path={"type": "path", "default": "/var/lib/cloud/instance/user-data.txt"},
    deploy_id={"type": "str"},
    booted_after={"type": "str"},
    not_boot_id={"type": "str"},
    bmc_identity={"type": "dict"},
    max_clock_skew={"type": "float", "default": 2.0},
    expect={"type": "dict"},
)

POLICY_OPTIONS: dict[str, dict[str, Any]] = {
    "required_gates": {
        "type": "list",
        "elements": "str",
        "default": ["image_verify", *GATES],
    },
    "max_gate_age": {"type": "int", "default": 86400},
    "max_lifetime": {"type": "int", "default": 7776000},
    "require_gpus": {"type": "bool", "default": True},
    "profile_digest": {"type": "str"},
    "profiles": {"type": "dict"},
    "gates": {"type": "dict"},
}

NODE_PASSPORT = spec(
    FLEET,
    state={"type": "str", "choices": ["issued", "verified", "exported"], "default": "verified"},
    key_path={"type": "path"},
    key_passphrase={"type": "str", "no_log": True},
    public_keys={"type": "list", "elements": "str"},
    identity={"type": "dict"},
    bmc_identity={"type": "dict"},
    image={"type": "dict", "options": IMAGE_OPTIONS},
    policy={"type": "dict", "options": POLICY_OPTIONS, "apply_defaults": True},
    policy_file={"type": "path"},
    sku={"type": "str"},
    profile_path={"type": "list", "elements": "path"},
    lifetime={"type": "int", "default": 2592000},
    valid_for={"type": "int", "default": 0},
    firmware={"type": "list", "elements": "dict"},
    attestation={"type": "dict"},
    path={"type": "path"},
    fail={"type": "bool", "default": True},
    max_clock_skew={"type": "float", "default": 2.0},
    nvidia_smi={"type": "str", "default": "nvidia-smi"},
    dmi_path={"type": "str", "default": "/sys/class/dmi/id"},
    boot_id_path={"type": "str", "default": "/proc/sys/kernel/random/boot_id"},
    same_boot={"type": "bool", "default": False},
    evidence={"type": "dict"},
)
PASSPORT_RULES = {"mutually_exclusive": [("policy", "policy_file")]}
