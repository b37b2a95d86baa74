#!/usr/bin/python
# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: provisioner_node
short_description: Lead one node towards a state of its provisioner
version_added: "0.1.0"
description:
  - Enrols a node, sends it towards ready or deployed, releases it, or takes it into maintenance, at Ironic, MAAS,
    Warewulf, xCAT or NVIDIA Base Command Manager (BCM), or on our own boot server where a site has none of them.
  - Begins the next transition and returns. Whole batches are then watched by M(gpufleet.baremetal.provisioner_wait),
    which also sends a node on that rests on its way.
  - A provisioner that does not answer is asked again for 30 seconds, which all hosts of a run wait together, until the
    first write. Whether a write was taken whose answer is lost, the next run finds out.
  - A node that somebody else holds (a maintenance, a lock, an owner, an instance, a protection that is not ours) is
    left alone, and the task fails with error kind V(not_ours).
  - A node that cannot be deployed as it is declared (its O(image) lies nowhere at the provisioner, or is another file
    there, or lacks what a deployment needs) is told before anything is written. O(state=ready) and O(state=deployed)
    refuse it. With O(state=enrolled) it is a warning, and stands in RV(undeployable).
  - What a provisioner calls deployed proves nothing about what runs on the node. Ironic says C(active) of a ramdisk
    deployment as soon as it has switched the power on, with or without a machine behind the BMC. Verify the node
    with M(gpufleet.baremetal.image_verify) afterwards.
author: gpufleet.baremetal contributors (@gpufleet)
requirements:
  - openstacksdk >= 4.0 (Ironic)
  - requests >= 2.31 (MAAS and Warewulf)
  - netaddr >= 1.0 (Ironic, MAAS and Warewulf)
extends_documentation_fragment:
  - gpufleet.baremetal.attributes
  - gpufleet.baremetal.for_all
  - gpufleet.baremetal.bmc
  - gpufleet.baremetal.ledger
  - gpufleet.baremetal.provisioner
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - V(enrolled) makes the provisioner's record what it should be, and starts nothing.
      - V(ready) does the same, then begins the next step towards a node that can be deployed. On Ironic that is
        manage, inspect, provide; on MAAS commission; Warewulf, xCAT and BCM have no such step.
      - V(deployed) begins the deployment of O(image), by way of a release where the node runs another image and the
        provisioner needs one. A node that is deployed with this image already is left unchanged.
      - V(released) begins the release of a deployed node.
      - V(maintenance) takes the node out of the provisioner's own care under our token, so that its power and boot
        may be driven through its BMC. On MAAS a deployed node is locked, and the token stands in its description;
        on Warewulf the token is a tag of the node; on xCAT and BCM it is a word in a field of the node, which keeps
        our own runs and nobody else. Where a mark of V(quarantined) stands, it is laid over that.
      - V(serviceable) lifts that, if the hold is ours. A mark that it was laid over stands again.
      - V(quarantined) marks a node that a verdict speaks against, by a hold of its own kind, with O(why) and O(author)
        in it; the first one stays. It is what V(maintenance) is there, so that Ironic deploys the node for nobody, nor
        does MAAS where it can lock it. A hold of somebody else's, or of V(maintenance), is left alone, and so is a node
        that the provisioner is at work with, which the mark could freeze there, and the task fails. One that the
        provisioner does not know is left unchanged.
      - V(readmitted) lifts that mark alone, if it is ours, also one that a V(maintenance) was laid over, which stays.
        One task for all hosts asks for none of which the ledger has neither a mark that stands nor that one was to be
        written since the last one was lifted. What leads to a remedy of the provisioner's (V(ready), V(deployed),
        V(released) and its work) lifts it as well, with the leave to begin; where that is then refused, the mark stands
        again. What such a task finds under way, or due to be booted by its BMC, goes on without the mark as well.
        V(serviceable) leaves it.
      - V(annotated) writes O(annotations), wherever the node stands; what cannot be written there now is in
        RV(deferred).
      - V(inspected), V(tested), V(cleaned), V(serviced), V(rescued) and V(unrescued) begin work of the provisioner's
        own with the machine, each time that they are asked for, unless it is under way. The end of it is waited for by
        M(gpufleet.baremetal.provisioner_wait) with C(until=settled). They demand what a deployment demands of a node
        that may be at work, since most of them boot it. Ironic does all but V(tested), MAAS V(inspected), V(tested),
        V(rescued), V(unrescued) and V(aborted); where a provisioner does not, the task fails with error kind
        V(unsupported) before anything is asked.
      - V(inspected) looks at the hardware anew. V(tested) runs the tests of MAAS, on a deployed machine as well, whose
        deployment it keeps. V(cleaned) runs steps of Ironic's own (firmware, BIOS and RAID settings, burn-in) on a node
        that is not deployed, which is V(enrolled) afterwards; V(ready) leads on. V(serviced) runs such steps on a
        deployed node, which stays so. V(rescued) boots a rescue system beside what is deployed, V(unrescued) ends that.
      - V(aborted) ends a deployment of ours that hangs at MAAS, which has the machine allocated to us afterwards;
        V(deployed) deploys it anew, V(released) gives it back. Where nothing is being deployed there, nothing is done.
      - V(powered_on), V(powered_off) and V(restarted) switch the machine's power by way of the provisioner, at once and
        without asking what runs on it to end, and wait until that is told of the BMC. V(restarted) is off, which is
        seen, then on, which is seen. They are for a site that lets nobody else switch power;
        M(gpufleet.baremetal.redfish_power) asks the BMC itself. Ironic, MAAS, xCAT and BCM do it; elsewhere the task
        fails with error kind V(unsupported) before anything is asked. To switch it off demands what a deployment
        demands of a node that may be at work; while the provisioner is at work with the machine it is refused.
      - V(left) and V(moved) are the two ends of a way from one provisioner to another, for the playbook
        C(migrate_provisioner). V(left) is asked of the old one. It is refused where that may still boot the node or
        wipe it; else a hold there, which no run lifts, says where the node went, and is read back. V(moved) is asked of
        the new one, in the same run and on the same controller. It does what V(enrolled) does, and the ledger records
        from where and to where. Where the ledger has no word that the node has left, it is refused with error kind
        V(evidence_missing), unless O(force_reason) is given.
    type: str
    required: true
    choices:
      - enrolled
      - ready
      - deployed
      - released
      - maintenance
      - serviceable
      - quarantined
      - readmitted
      - annotated
      - inspected
      - tested
      - cleaned
      - serviced
      - rescued
      - unrescued
      - aborted
      - powered_on
      - powered_off
      - restarted
      - left
      - moved
  provisioner_id:
    description:
      - The node's name or id at the provisioner. Taken from the host variable C(gpufleet_provisioner_id), else O(name).
    type: str
  name:
    description: The name to enrol the node by. The inventory name of the host, where the action runs it.
    type: str
  boot_mac:
    description: MAC of the network card that boots. Taken from the host variable C(gpufleet_boot_mac).
    type: str
  serial:
    description:
      - Serial number of the chassis. Taken from the host variable C(gpufleet_serial). A provisioner's node that is
        known by another serial is refused.
      - Before a step towards V(ready), V(deployed) or V(released), and before anything is written to a record that is
        deployed, the record must have this serial, O(boot_mac) or the BMC's address. One that was found by its name
        alone may be a neighbour's; O(force_reason) goes past it.
    type: str
  image:
    description:
      - The image to deploy, with the keys C(name), C(version), C(url), C(sha256), C(kernel_url), C(named) which is its
        name at a provisioner that has images of its own, and C(format) which is V(ramdisk) or V(whole-disk). Taken from
        the host variable C(gpufleet_image).
      - What leads a node towards O(state=deployed) is begun only where M(gpufleet.baremetal.image_verify) with mode
        V(artifact) has passed in the same run, for this node, and for these very keys. A O(force_reason) stands in for
        it.
      - On MAAS the image must have been uploaded as the custom image C(NAME-VERSION). What lies there under that name
        is compared by its SHA-256, so that without C(sha256) nothing is begun but with O(force_reason).
      - On Warewulf the image is C(named), and must have been imported and built there. Nothing there tells whether it
        is the one that was verified; M(gpufleet.baremetal.image_verify) with mode V(node) does, by the manifest in it.
        The same holds for BCM, whose software image C(named) is.
    type: dict
  properties:
    description:
      - Facts about the hardware to write into the record, for instance C(cpu_arch). For Ironic these are the node's
        properties; for MAAS C(cpu_arch), C(pool), C(zone) and C(domain), and no others but C(cpus), C(memory_mb) and
        C(local_gb), which it finds out by itself. Warewulf has none.
    type: dict
    default: {}
  driver:
    description:
      - Settings that only one provisioner knows. Either flat, or with the names of provisioners as keys (C(bcm),
        C(ironic), C(maas), C(pxe), C(warewulf), C(xcat)), of which each takes its own, and nothing else beside them.
      - For Ironic every C(*_interface), C(resource_class), C(conductor_group), C(automated_clean), C(driver),
        C(driver_info), C(instance_info), and C(owners), a list of owners and lessees that are ours. Keys of
        C(instance_info) that say which bytes are deployed (C(kernel), C(ramdisk), C(boot_iso), C(stage2),
        C(ks_template), and each C(image_*) but C(image_download_source) and C(image_request_authorization*)) are taken
        only with O(force_reason), since no M(gpufleet.baremetal.image_verify) has seen them.
      - For Ironic also C(traits), which the node gets besides those that it has, and by which it takes runbooks. With
        each deployment they are written into C(instance_info) as well, so that the steps of the deploy templates of
        these names run; a template with steps of the interface C(deploy) is taken only with O(force_reason).
      - For Ironic C(clean_steps) and C(service_steps), lists of mappings with C(interface), C(step) and
        C(args), or C(runbook), the name of one there, for V(cleaned) and V(serviced); C(disable_ramdisk) for
        V(cleaned); and C(deploy_steps), which go with a deployment. Those of the interface C(deploy) are taken only
        with O(force_reason).
      - For MAAS C(distro_series), C(hwe_kernel), C(ephemeral_deploy), C(enable_ssh), C(skip_bmc_config),
        C(skip_networking), C(skip_storage), C(commissioning_scripts), C(testing_scripts), C(secure_erase),
        C(quick_erase), C(power_parameters), C(tags), C(min_hwe_kernel), C(is_dpu), C(dpu_host),
        C(override_failed_testing), and C(owners).
        C(testing_scripts) and C(enable_ssh) hold as well for O(state=tested), and for a machine that failed its tests,
        which is tested anew before it goes on. C(secure_erase) and C(quick_erase) say how a release with O(erase)
        erases, and make none erase.
        C(distro_series), a stock image in place of O(image), is likewise taken only with O(force_reason);
        O(image) needs no C(url) then.
      - For MAAS C(override_failed_testing) lets a machine that failed its tests go on without being tested anew. It is
        taken with O(force_reason) alone.
      - For MAAS C(tags) must be there, and have no definition; others that the machine has stay. C(is_dpu) enters a
        BlueField-3 by its own BMC, with C(cpu_arch) C(arm64); MAAS erases none, so that O(erase) is refused for it. A
        machine that MAAS has as a DPU is led nowhere without it.
      - For MAAS C(min_hwe_kernel) is the oldest kernel that the machine may run, such as C(hwe-22.04), which a DPU gets
        where nothing names one. C(dpu_host) is the machine that a DPU is in, a host of the inventory by the name that
        it has there too; a DPU has its power from that, so while that is not on nothing is begun that boots the DPU. A
        DPU is its network card, so whatever is destructive for the DPU needs the evidence for that machine as well,
        whatever O(force_reason) says.
      - For Warewulf C(profiles), the list of the node's profiles; C(network), the name of the network device to boot
        over, with its C(device), C(ipaddr), C(netmask) and C(gateway); and C(owners), a list of values of the tag
        C(owner) that are ours.
      - For Warewulf also C(system_overlays), C(runtime_overlays) and C(kernel_args), lists of the node's own that stand
        after those of its profiles, with C(kernel_version); C(ipmi), C(disks) and C(filesystems), mappings as
        Warewulf's API spells them. C(login) in C(ipmi), which is true or not, writes O(bmc_username) and
        O(bmc_password) there too, that one as O(update_password) says; it is refused without C(password_in_overlays),
        which is true where each node, and whoever reaches Warewulf's port, may have them, since Warewulf's own overlay
        C(wwinit) hands them out. Fields, disks and filesystems that are not named stay as they are.
      - For Warewulf also what nodes share, C(profile_fields), by a profile's name its fields, and C(overlay_files), by
        an overlay's name the path and the content of its files. A profile or an overlay that somebody else has made, or
        that was changed since it was written from here, is changed only with O(force_reason) and where its name is in
        the list C(take_shared); of such a profile, what is not declared stays. And C(configure), a list of C(dhcp) and
        C(tftp), which C(wwctl configure) is run for on the machine of the task where the file C(dhcp_conf), or the
        folder C(warewulf) in C(tftp_root), lacks what the node needs, or where that command has not ended well yet;
        C(wwctl) is where it lies.
      - For our own boot server C(args), further words of the kernel's command line; C(ip), the address that dnsmasq
        gives the node where it gives out addresses; and C(owners), a list of owners in its records that are ours. Words
        of C(args) that put another system in the image's place are taken only with O(force_reason).
      - For xCAT attributes of the node (C(arch), C(cons), C(installnic), C(ip), C(mgt), C(netboot), C(nfsserver),
        C(primarynic), C(serialflow), C(serialport), C(serialspeed), C(servicenode), C(tftpserver), C(xcatmaster)),
        C(groups) that it is to be in as well, a list or separated by commas, and C(uefi), which is true where nothing
        is said, and with which it boots from the network by UEFI; and C(name_services), a list of C(hosts), C(dns) and
        C(dhcp), which C(makehosts), C(makedns) and C(makedhcp) are run for when a node is entered or moved, or its name
        does not resolve there. Without it none of them is run. By its web service also C(password_in_logs), which is
        true where xCAT does not write O(bmc_password) into its logs, or they may have it, without which it is not sent.
      - For BCM, of a node that it does not know yet, C(category), C(ip) and C(interface) to enter it with. One that it
        knows must be in that C(category).
    type: dict
    default: {}
  annotations:
    description:
      - Marks to write at the provisioner, with O(state=deployed) or O(state=annotated); an empty value removes one.
        Ironic keeps them in C(extra); MAAS as workload annotations, which are there while the node is deployed and not
        locked, and gone when released; Warewulf as tags of the node; xCAT in C(usercomment); BCM in C(userdefined1);
        our own boot server in the node's record.
    type: dict
    default: {}
  why:
    description: The reason that becomes part of the token of O(state=maintenance) and O(state=quarantined).
    type: str
    default: maintenance
  author:
    description:
      - Who says that the node is in quarantine, as it stands in the mark of O(state=quarantined).
      - On the controller by default the user of an automation controller who launched the job, else the user of the
        system and the machine.
    type: str
  known_mark:
    description:
      - The mark of quarantine that stands by the ledger, empty where none does, for which nobody is asked then. On the
        controller a task for all hosts fills it in by itself.
    type: str
  moved_to:
    description:
      - To which provisioner the node goes, with O(state=left), by the keys C(provisioner), C(provisioner_url),
        C(provisioner_cloud), C(provisioner_login_host) and C(provisioner_id). No login is needed here.
    type: dict
  carry:
    description:
      - What the old provisioner told of the node, as RV(tells), with O(state=moved). Of that its annotations are
        written where the new one keeps any, and its card where O(boot_mac) is not set and it told one alone.
    type: dict
    default: {}
  known_move:
    description:
      - The newest word of the ledger on the node's way from one provisioner to another. Filled in by the action on the
        controller. Every state but V(left) and V(moved) is refused at a provisioner that the node has left.
    type: dict
  known_place:
    description:
      - The provisioner that the inventory names, with O(state=moved). Filled in by the action on the controller.
    type: dict
  known_at:
    description:
      - The provisioner at which the ledger has the node deployed or adopted. Filled in by the action on the controller.
      - At another one, whose record does not tell our newest deployment, the task fails with error kind
        V(wrong_machine) before its first write. A O(force_reason) says that it is the same one under another name,
        which is recorded.
    type: dict
  run_id:
    description: The run that the token names. Filled in by the action on the controller.
    type: str
  known_runs:
    description:
      - All runs of ours that ever wrote to this node, from the ledger. Filled in by the action on the controller.
      - A hold with the token of any other run is another controller's, and is left alone.
    type: list
    elements: str
  known_deployed:
    description:
      - Whether the ledger knows of a deployment of ours on this node, or has adopted it. Filled in by the action on the
        controller.
      - A node that is deployed without is somebody else's, and the task fails with error kind V(not_adopted).
    type: bool
  known_deploy_ids:
    description:
      - The deployments of this node that the ledger has begun. Filled in by the action on the controller.
      - A node whose provisioner tells one of them is ours, whatever became of the order.
    type: list
    elements: str
  known_stamps:
    description:
      - The RV(stamp) of each time that the ledger has adopted this node. Filled in by the action on the controller.
      - A deployed node that still has one of them is ours, also where an order of ours to release it did not reach it.
    type: list
    elements: str
  known_works:
    description:
      - What the ledger has had this provisioner do with this node, of V(serviced), V(rescued) and V(unrescued), since
        it was deployed or adopted. Filled in by the action on the controller.
      - Of an adopted node that is at such work at Ironic, which dates it as it does a deployment, this alone says that
        it is ours. What somebody else rescued or services is left alone.
    type: list
    elements: str
  known_former_serials:
    description:
      - The serials of boards that were swapped out of this machine, as M(gpufleet.baremetal.node_identity) was told,
        and that no other node has. Filled in by the action on the controller.
      - A record at the provisioner that still names one of them is this machine's.
    type: list
    elements: str
  image_verified:
    description: Has this run verified the image? Filled in by the action on the controller.
    type: bool
  erase:
    description:
      - Ask for the disks to be erased when the node is released. Without it nothing is said about erasing, and the
        site's own setting holds.
    type: bool
    default: false
  redeploy:
    description: Deploy even where the node is deployed with this image already.
    type: bool
    default: false
  deploy_id:
    description:
      - With V(deployed), tells one deployment from the next. It is noted at the provisioner with the image.
      - A node that was deployed with this id, or is being deployed with it, is left as it is; with another id, or with
        none noted, it is deployed anew. So a run that goes on where another one was killed never deploys twice.
      - It goes to the node with the deployment, where M(gpufleet.baremetal.image_verify) reads it. Ironic puts it on
        the kernel's command line of a ramdisk (C(gpufleet.deploy=ID)), and into the config drive that comes with a disk
        image; MAAS into the user data of C(cloud-init); Warewulf, xCAT and BCM among the kernel arguments of the node.
      - 1 to 64 letters, digits, dots, underscores and minuses.
    type: str
  update_password:
    description:
      - Provisioners do not show a BMC's password, so that it cannot always be compared. V(on_create) sends it with a
        new record, and with any other change of the login. V(always) sends it each time, and is always changed.
      - A node that is deployed, or just being, keeps with V(on_create) the BMC that its record has, address and login.
        One that the inventory names in its place is told in RV(deferred).
    type: str
    choices: [on_create, always]
    default: on_create
  rescue_password:
    description: The password of the rescue system, with O(state=rescued). Ironic wants one.
    type: str
  leave:
    description: Until when the module on another machine may write, and what an earlier part of this call has ordered.
      Filled in by the action on the controller, for a task that is delegated.
    type: dict
notes:
  - Delegated to another machine, it writes there only within 20 seconds of a look at lease and evidence, up to 45 where
    the way there or the provisioner's answers take long. Past that it comes back for leave and goes on where it was. It
    gives its order once, and RV(before) is what the last part found.
seealso:
  - module: gpufleet.baremetal.provisioner_wait
  - module: gpufleet.baremetal.image_verify
"""

EXAMPLES = r"""
- name: Enrol the node and begin to make it ready
  gpufleet.baremetal.provisioner_node:
    state: ready
    provisioner: ironic
    provisioner_url: https://ironic.example.com:6385
    provisioner_username: fleet
    provisioner_password: "{{ lookup('ansible.builtin.env', 'IRONIC_PASSWORD') }}"
    name: gpu017
    boot_mac: 52:54:00:12:34:56
    bmc_address: https://10.9.0.17
    bmc_username: fleet
    bmc_password: "{{ lookup('ansible.builtin.env', 'BMC_PASSWORD') }}"

- name: Verify the image that the next task deploys
  gpufleet.baremetal.image_verify:
    mode: artifact

- name: Begin the deployment, with everything else from the inventory's host variables
  gpufleet.baremetal.provisioner_node:
    state: deployed

- name: Put the node into xCAT, from its management node
  gpufleet.baremetal.provisioner_node:
    state: ready
    provisioner: xcat
    provisioner_url: /opt/xcat
    name: gpu017
    boot_mac: 52:54:00:12:34:56
    bmc_address: https://10.9.0.17
    bmc_username: fleet
    bmc_password: "{{ lookup('ansible.builtin.env', 'BMC_PASSWORD') }}"
    driver:
      groups: [gpu, rack12]
      arch: x86_64
      netboot: grub2
      ip: 10.1.0.17
  delegate_to: mn.example.com

- name: Enter a node at BCM, from its head node
  gpufleet.baremetal.provisioner_node:
    state: ready
    provisioner: bcm
    provisioner_url: /cm/local/apps/cmd/bin/cmsh
    name: dgx-17
    boot_mac: 52:54:00:12:34:56
    driver:
      category: dgx-h100
      ip: 10.141.0.17
  delegate_to: head.example.com

- name: Enter it from any controller, over the connection of the head node
  gpufleet.baremetal.provisioner_node:
    state: ready
    provisioner: bcm
    provisioner_login_host: head1
    provisioner_url: /cm/local/apps/cmd/bin/cmsh
    name: dgx-17
    boot_mac: 52:54:00:12:34:56

- name: Write new firmware and burn the CPUs in, before the node is made ready at Ironic
  gpufleet.baremetal.provisioner_node:
    state: cleaned
    driver:
      clean_steps:
        - interface: firmware
          step: update
          args:
            settings:
              - component: bmc
                url: https://images.example.com/bmc-1.20.bin
        - interface: deploy
          step: burnin_cpu

- name: Wait for the end of it
  gpufleet.baremetal.provisioner_wait:
    until: settled

- name: Run two tests of MAAS on the machine
  gpufleet.baremetal.provisioner_node:
    state: tested
    driver:
      testing_scripts: [memtester, smartctl-validate]

- name: Restart a node that hangs, where nobody but the provisioner may switch its power
  gpufleet.baremetal.provisioner_node:
    state: restarted

- name: Take the node out of the provisioner's care, to power cycle it through its BMC
  gpufleet.baremetal.provisioner_node:
    state: maintenance
    why: power cycle after Xid 79

- name: Have the provisioner say as well that a node is in quarantine
  gpufleet.baremetal.provisioner_node:
    state: quarantined
    why: "Xid 79 on GPU 3; remedy: power_cycle"

- name: Let the old provisioner say that the node went to another one, once it is released there
  gpufleet.baremetal.provisioner_node:
    state: left
    moved_to:
      provisioner: ironic
      provisioner_url: https://ironic.example.com:6385

- name: Give it back
  gpufleet.baremetal.provisioner_node:
    state: serviceable

- name: Enrol a node at Warewulf, with the address that its network device gets
  gpufleet.baremetal.provisioner_node:
    state: ready
    provisioner: warewulf
    provisioner_url: https://warewulf.example.com:9874
    provisioner_ca_path: /etc/gpufleet/warewulf.crt
    provisioner_username: fleet
    provisioner_password: "{{ lookup('ansible.builtin.env', 'WAREWULF_PASSWORD') }}"
    name: gpu018
    boot_mac: 52:54:00:12:34:57
    driver:
      profiles: [default, gpu]
      device: eno1
      ipaddr: 10.8.0.18
      netmask: 255.255.255.0

- name: Enrol all nodes of the batch, each with what its own rows say to the driver
  gpufleet.baremetal.provisioner_node:
    batch: true
    state: ready
    each:
      driver: enroll_driver
  run_once: true
  register: enrolled

- name: Begin the deployment of those that are enrolled
  gpufleet.baremetal.provisioner_node:
    batch: true
    after: [enrolled]
    state: deployed
  run_once: true
  register: deploying
"""

RETURN = r"""
verdicts:
  description:
    - With O(batch=true), and then alone beside C(changed). One verdict a host, by its name in the inventory. C(ok) and
      C(changed) tell how it went, C(result) is what a task of that host's own would return.
    - Of one that is not C(ok), C(reason) says why, C(kind) is that of the error, and C(error) is that itself. Only some
      kinds say something of the node, see P(gpufleet.baremetal.quarantines#test).
  returned: with O(batch=true)
  type: dict
  sample:
    gpu007:
      ok: false
      changed: false
      reason: "gpu007: another run works on this node: run-17"
      kind: lease_held
      result: {}
provisioner_id:
  description: The node's id at the provisioner; empty where check mode predicts a new one.
  returned: success
  type: str
name:
  description: Its name there.
  returned: success
  type: str
provision_state:
  description: The provisioner's own word for the state.
  returned: success
  type: str
  sample: available
state:
  description: The same in the words of this collection.
  returned: success
  type: str
  sample: ready
pending:
  description: Whether the wanted state is still to come.
  returned: success, with another state than V(left) and V(moved)
  type: bool
step:
  description:
    - The transition that was begun; empty where none was. V(boot) where the record is right and the machine must now be
      booted from the network by others, since its provisioner boots nothing.
  returned: success, with another state than V(left) and V(moved)
  type: str
power:
  description: The machine's power afterwards, as the provisioner is told of its BMC.
  returned: success, with O(state=powered_on), O(state=powered_off), O(state=restarted)
  type: str
  sample: "on"
ordered:
  description:
    - What was ordered of the provisioner with that, V(deployed) or V(released); empty where no more than a step on the
      way to it was begun, such as an inspection. Whose the node is rests on orders alone.
  returned: success
  type: str
  sample: deployed
maintenance:
  description: Whether the node is in maintenance, or locked.
  returned: success
  type: bool
hold:
  description: The text of that hold.
  returned: success
  type: str
owner:
  description: The node's owner, lessee or instance at the provisioner.
  returned: success
  type: str
foreign:
  description: Why the node is not ours to touch; in the result's C(error) where the task failed for it.
  returned: success, with another state than V(left) and V(moved)
  type: str
inspection:
  description:
    - V(passed) where the provisioner has inspected the hardware, V(pending), V(failed), or V(unsupported) where it
      has no means to, which is no pass.
  returned: success, with another state than V(left) and V(moved)
  type: str
image:
  description: The image that the provisioner's record says was deployed last.
  returned: success, with another state than V(left) and V(moved)
  type: dict
deploy_id:
  description: The id of the deployment that was asked for.
  returned: success, with another state than V(left) and V(moved)
  type: str
deploy_proof:
  description:
    - By what a deployment of this provisioner's is known on its node. V(nonce), its id goes there with it;
      V(network_boot), the node is stateless and its boot from the network is one; V(none).
  returned: success, with another state than V(left) and V(moved)
  type: str
stamp:
  description:
    - What changes with the node's next deployment where the provisioner tells of that, as it was before the task. Empty
      where it has no record of the node.
  returned: success, with another state than V(left) and V(moved)
  type: str
  sample: "2026-11-20T10:12:58+00:00"
agrees:
  description:
    - In what record and inventory agree, of V(serial) and V(boot_mac), and of V(bmc_address) where neither does. Told
      in check mode with O(state=enrolled), since a record that was made right agrees; and with O(state=left) and
      O(state=moved).
  returned: success in check mode, with O(state=enrolled), of a record that there is; with O(state=left), O(state=moved)
  type: list
  elements: str
  sample: [serial, boot_mac]
bmc_system:
  description:
    - Which system the record has at the BMC of the inventory, where they agree in nothing but that BMC's address, and
      the inventory names another system there, or none. Empty otherwise.
  returned: success in check mode, with O(state=enrolled), of a record that there is
  type: str
  sample: "1"
undeployable:
  description:
    - Why the node cannot be deployed as it is declared, found without a write; empty where nothing stands against it.
      It says nothing of the machine, and quarantines no node.
  returned: success, with O(state=enrolled)
  type: dict
  contains:
    kind:
      description:
        - The kind of error that a deployment would end with, for instance V(config) where the inventory is to be
          corrected, or V(refused) where something is missing at the provisioner.
      type: str
    reason:
      description: What is wrong, and what to do.
      type: str
  sample: {}
tells:
  description: What another provisioner may take over of the node, without secrets.
  returned: success, with O(state=left)
  type: dict
  sample:
    name: gpu017
    macs: ["52:54:00:12:34:56"]
    addresses: [10.1.0.17]
    bmc_address: 10.9.0.17
    annotations: {rack: r12}
    image: gpu-golden-2026.11.1
boots:
  description: What there may still boot the node or wipe it. Empty where nothing.
  returned: success, with O(state=left)
  type: str
release:
  description: Whether it is to be released there first, as check mode tells.
  returned: success, with O(state=left)
  type: bool
here:
  description: Whether the ledger had the node here before this task.
  returned: success, with O(state=moved)
  type: bool
carried:
  description: What the new provisioner has of the node.
  returned: success, with O(state=moved)
  type: dict
not_carried:
  description: What of the old one it has not, each with what to do for whoever needs it.
  returned: success, with O(state=moved)
  type: list
  elements: str
inventory:
  description: Line by line, what the inventory must say of the host from now on. No secret is in it.
  returned: success, with O(state=moved)
  type: list
  elements: str
  sample: ["gpufleet_provisioner: ironic", "gpufleet_provisioner_url: https://ironic.example.com:6385"]
last_error:
  description: The provisioner's last error about the node.
  returned: success, with another state than V(left) and V(moved)
  type: str
deferred:
  description: Fields that are to be changed, and cannot be in the node's present state.
  returned: success
  type: list
  elements: str
before:
  description: The state before, with those fields of the record that changed; secrets are masked.
  returned: success
  type: dict
after:
  description: The state after.
  returned: success
  type: dict
asked:
  description: The writes that were sent.
  returned: success
  type: list
  elements: str
events:
  description: What the ledger gets to know, beside intent and outcome.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baremetal.plugins.module_utils._errors import FleetError
from ansible_collections.gpufleet.baremetal.plugins.module_utils._leave import LeaveOfAll
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.node import node
from ansible_collections.gpufleet.baremetal.plugins.module_utils._provisioner.specs import NODE_SPEC
from ansible_collections.gpufleet.baremetal.plugins.module_utils._verb import Context


def main() -> None:
    module = AnsibleModule(argument_spec=NODE_SPEC, supports_check_mode=True)
    who = module.params["name"] or module.params["provisioner_id"] or ""
    line = LeaveOfAll(module.params["leave"])
    ctx = Context(check_mode=module.check_mode, diff=module._diff, node=who, lifeline=line, begun=line.begun)
    try:
        result = node(module.params, ctx)
    except FleetError as exc:
        module.fail_json(**exc.as_result(), **line.told(ctx.asked, ctx.begun))
    module.exit_json(**result.as_dict(ctx))


if __name__ == "__main__":
    main()
