# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a machine was booted with: no log, excerpt or archive shows what may be a secret in it."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baremetal.plugins.module_utils._excerpt import whole
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.booted import command_line, without_strings
from ansible_collections.gpufleet.baremetal.plugins.module_utils._ledger.redact import MASK

S = "S3cr3tVal99"
HARMLESS = (
    "BOOT_IMAGE=/vmlinuz-6.8 root=UUID=1b2c ro quiet console=ttyS0,115200n8 iommu=pt nvme_core.io_timeout=255 "
    "rd.driver.blacklist=nouveau nvidia-drm.modeset=1 systemd.unified_cgroup_hierarchy=1 crashkernel=1G-64G:256M --"
)
SECRET = (
    f"rootpw={S}", f"inst.rootpw={S}", f"pw={S}", f"netroot=iscsi:admin:{S}@10.0.0.1::3260::iqn.2020",
    f"assetkey={S}", f"wwinit.uri=http://h/provision/aa?assetkey={S}&uuid=1", f"xcat_key={S}", f"rd.luks.key={S}",
    f"systemd.set_credential=passwd.hashed-password.root:$6$abc${S}", f"systemd.set_credential_binary=a.key:{S}QUJD",
    f"auth_key={S}", f"snmp_community={S}", f"x.key={S}", f'sshkey="ssh-ed25519 AAAA root={S}"', f'"a b={S} root=/x"',
    f"an_agent_of_somebody={S}", f"{S}aVeryLongWordThatIsNoSwitchOfAnyKind", f'open="root=/dev/x {S}',
    f'"root=/dev/x what={S}"', f"root=live:http://u:{S}@h/x", f"root=iscsi:u:{S}@h:::1:iqn.x",
)  # fmt: skip
LOGS = (
    "[    0.000000] Kernel command line: {}",
    "[    0.000000] Command line: {}",
    "2026-01-02T03:04:05.000000+00:00 n1 kernel: Command line: {}",
    "6,0,0,-;Command line: {}",
    'Jan  2 03:04:05 n1 kernel: Unknown kernel command line parameters "splash {}", will be passed to user space.',
    "[    2.1] dracut-cmdline[300]: Using kernel command line parameters: {}",
)
#: Of the first process's environment a line holds one.
HANDED = ("[    0.912345]     {}", "2026-01-02T03:04:05.0+00:00 n1 kernel:     {}", "7,901,912345,-;    {}")


def test_what_tells_of_the_machine_stays() -> None:
    assert command_line(HARMLESS, MASK) == HARMLESS
    for form in LOGS:
        assert whole(f"quiet\n{form.replace('{}', HARMLESS)}\nquiet") == f"quiet\n{form.replace('{}', HARMLESS)}\nquiet"


@pytest.mark.parametrize("word", SECRET)
def test_what_may_be_a_secret_goes_and_its_name_stays(word: str) -> None:
    shown = whole(command_line(f"BOOT_IMAGE=/v {word} ro", MASK))
    assert S not in shown and shown.startswith("BOOT_IMAGE=/v ") and MASK in shown
    assert word.startswith(('"', S)) or word.partition("=")[0] in shown


@pytest.mark.parametrize("form", LOGS)
def test_nor_does_a_log_repeat_it(form: str) -> None:
    for word in SECRET:
        shown = whole(f"one\n{form.replace('{}', f'BOOT_IMAGE=/v {word} ro')}\n[    1.0] two")
        assert S not in shown and shown.startswith("one\n") and shown.endswith("\n[    1.0] two"), word


@pytest.mark.parametrize("form", HANDED)
def test_nor_what_the_first_process_is_handed(form: str) -> None:
    for word in (f"rootpw={S}", f"an_agent_of_somebody={S} and more {S}"):
        assert S not in whole(form.replace("{}", word))
    assert whole(form.replace("{}", "BOOT_IMAGE=/boot/v")) == form.replace("{}", "BOOT_IMAGE=/boot/v")


@pytest.mark.parametrize(
    "text",
    [
        f"nvme nvme0: dhchap key DHHC-1:00:{S}+/x=:",
        f"NVMeTLSkey-1:01:{S}:",
        f"netroot=iscsi:admin:{S}@10.0.0.1::3260::iqn.2020",
        f"netroot=iscsi:user:{S}/x:ruser:{S}@10.0.0.1::3260::iqn",
        f"systemd.set_credential=passwd.hashed-password.root:$6$abc${S}",
        f"systemd.set_credential_binary=wg.key:{S}QUJD=",
        f"String 2: io.systemd.credential.binary:tls.key={S}QUJD=",
        f"String 1: io.systemd.credential:passwd.plaintext-password.root={S}",
        f"http://10.0.0.1:9873/provision/aa?assetkey={S}&uuid=1",
        f"assetkey={S}", f"rootpw={S}", f"inst.rootpw={S}", f"auth_key={S}", f"my.authkey={S}", f"snmp_community={S}",
        f"pw={S}",
    ],
)  # fmt: skip
def test_what_shows_itself_as_a_login_is_masked_wherever_it_stands(text: str) -> None:
    assert S not in whole(f"before {text} behind") and whole(f"before {text} behind").endswith(" behind")


def test_the_strings_that_a_machine_was_handed_are_no_serials() -> None:
    told = f"""Handle 0x0001, DMI type 1, 27 bytes
System Information
\tSerial Number: 4711

Handle 0x000B, DMI type 11, 5 bytes
OEM Strings
\tString 1: io.systemd.credential.binary:tls.key={S}
\tString 2: what:{S}

Handle 0x000C, DMI type 17, 40 bytes
Memory Device
\tSerial Number: 0815
"""
    shown = without_strings(told, MASK)
    assert S not in shown and "\tString 2: " + MASK in shown
    assert shown.replace(MASK, "") == told.replace(f"what:{S}", "").replace(
        f"io.systemd.credential.binary:tls.key={S}", ""
    )
