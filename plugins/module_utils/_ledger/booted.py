# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine was booted with, without what may be a secret in it. PRIVATE to the collection.

Anybody may name a parameter for an installer or an agent as he likes, and hand over a password in it. So what stays is
known: of parameters whose values tell of the machine and hold no secret; of all others the name stays, and the mask for
the value. The kernel repeats its command line in its log, what it does not know of it once more, and what it hands to
the first process a line each.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import re

#: Linux v6.12 Documentation/admin-guide/kernel-parameters.txt, dracut.cmdline(7), systemd(1). "-" stands for "_" as
#: well.
_NAMES = """
acpi acpi_enforce_resources amd_iommu amd_pstate apparmor audit audit_backlog_limit biosdevname boot_image
bootif cgroup_disable cgroup_enable cgroup_memory clocksource console cpufreq.default_governor crashkernel
default_hugepagesz earlycon earlyprintk edac_report efi elevator enforcing fbcon fips fsck.mode fsck.repair
gather_data_sampling hpet hugepages hugepagesz idle ima_policy init init_on_alloc init_on_free initcall_debug
initrd intel_iommu intel_pstate iommu ip irqaffinity isolcpus keep_bootcon kthread_cpus l1tf lang lockdown
log_buf_len loglevel lsm maxcpus mce mds mem memhp_default_state memmap mitigations mmio_stale_data
modprobe.blacklist module.sig_enforce module_blacklist movablecore net.ifnames nmi_watchdog nohz nohz_full
noresume nosmt nr_cpus nr_hugepages numa numa_balancing oops page_poison panic panic_on_warn pci pcie_aspm
pcie_bus_perf pcie_port_pm pcie_ports preempt psi rcu_nocb_poll rcu_nocbs rd.driver.blacklist rd.driver.post
rd.driver.pre rd.luks.uuid rd.lvm.lv rd.lvm.vg rd.md.uuid rd.neednet reboot reg_file_data_sampling resume
retbleed root rootdelay rootfstype rootwait security selinux skew_tick slab_nomerge softlockup_panic
spec_store_bypass_disable spectre_bhi spectre_v2 srbds swapaccount swiotlb sysrq_always_enabled
systemd.log_level systemd.show_status systemd.unified_cgroup_hierarchy systemd.unit transparent_hugepage tsc tsx
tsx_async_abort vconsole.keymap vga video watchdog_thresh x2apic_phys
"""
#: Modules none of whose parameters is a secret.
_MODULES = """
acpi amdgpu arm_smmu arm_smmu_v3 cgroup cpuidle edac_core ghes ib_core intel_idle iommu kvm kvm_amd kvm_intel
libata mlx5_core mlx5_ib nouveau nvidia nvidia_drm nvidia_modeset nvidia_peermem nvidia_uvm nvme nvme_core
pcie_aspm pciehp printk processor rcupdate rcutree scsi_mod thermal usbcore vfio_iommu_type1 vfio_pci workqueue
zswap
"""
_HARMLESS, _WHOLE_MODULES = frozenset(_NAMES.split()), frozenset(_MODULES.split())
#: The kernel takes what stands between two quotation marks as it is; an open one reaches to the end.
_TOKEN = re.compile(r"(?:\"[^\"]*\"?|[^\s\"])+")
#: A word without a value is a switch, or what nobody knows.
_SWITCH = re.compile(r"[\w.,:/@+-]{0,32}\Z")
#: Where a log has the command line: Linux v6.12 init/main.c, arch/x86/kernel/setup.c; dracut, dracut-cmdline.
_LINE = re.compile(
    r"(?P<head>\b(?i:kernel command line(?: parameters)?)(?::[ \t]*| \")|(?:^|[\]:;][ \t]?)Command line:[ \t]*)"
    r"(?P<line>[^\r\n]+?)(?=\", will be passed|\r?$)",
    re.M,
)
#: The environment of the first process, as the kernel lists it (init/main.c run_init_process), in a log of any carrier.
_HANDED = re.compile(r"(?P<head>(?:\d\]|\bkernel:) {5}|,-; {4})(?P<name>[A-Za-z_][\w.-]*)=(?P<value>[^\r\n]+)")
#: Without one of these words neither is there.
_SIGNS = ("ommand line", "]     ", "kernel:     ", ",-;    ")


def command_line(line: str, mask: str) -> str:
    """The kernel's command line with the mask in place of each value that is not known to be harmless."""
    return _TOKEN.sub(lambda match: _token(match.group(), mask), line)


def without_boot_lines(text: str, mask: str) -> str:
    """The same for each line of a log that repeats it, or a part of it."""
    if any(sign in text for sign in _SIGNS):
        text = _LINE.sub(lambda match: match["head"] + command_line(match["line"], mask), text)
        text = _HANDED.sub(lambda match: match["head"] + _token(f"{match['name']}={match['value']}", mask), text)
    return text


def without_strings(text: str, mask: str) -> str:
    """What dmidecode says, without the strings that a hypervisor or an operator hands to the system (type 11)."""
    lines, ours = [], False
    for line in text.splitlines(keepends=True):
        ours = line.startswith("OEM Strings") or (ours and line[:1] in ("\t", " "))
        name, mark, _value = line.partition(": ")
        lines.append(f"{name}{mark}{mask}\n" if ours and mark else line)
    return "".join(lines)


def _token(token: str, mask: str) -> str:
    name, sign, value = token.partition("=")
    if not sign:
        return token if _SWITCH.match(token) else mask
    known = name.lstrip('"').replace("-", "_").lower()
    harmless = known in _HARMLESS or known.partition(".")[0] in _WHOLE_MODULES or not value
    # Of what holds several words the kernel and whoever quotes it may think otherwise.
    return token if harmless and not re.search(r"\s", token) else f"{name}={mask}"
