# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gates that there are, and each way in which a node or a tool has fooled one somewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.collective.gate import collective_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.dcgm.gate import dcgm_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_bandwidth.gate import gpu_bandwidth_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.gpu_state.gate import gpu_state_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.kernel_log.gate import kernel_log_gate
from ansible_collections.gpufleet.baremetal.plugins.module_utils._gate.storage.gate import storage_gate
from ansible_collections.gpufleet.baremetal.tests.unit.gate import documents as made
from ansible_collections.gpufleet.baremetal.tests.unit.gate import nccl, nvbw, nvme, smi
from contract import newcomers
from contract.gate.case import Case, Params
from contract.gate.of_the_machine import OF_THE_MACHINE

XID79 = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


# -- DCGM ------------------------------------------------------------------------------------------------------------

HEALTHY = made.dcgm4()


def dcgm(output: str, level: int = 2, **how: Any) -> Callable[[Path], Params]:
    return lambda folder: {
        "dcgmi": made.dcgmi(folder, output, **how),
        "level": level,
        "timeout": 20,
        "busy_timeout": 0,
        "profile": made.profile(),
        "pci_path": made.pci(folder),
    }


def changed(make: Callable[[Path], Params], **options: Any) -> Callable[[Path], Params]:
    return lambda folder: {**make(folder), **options}


def all_skipped() -> str:
    document = made.dcgm4()
    for name in made.LEVELS[2]:
        for gpu in range(8):
            made.result_of(document, name, gpu)["status"] = "Skip"
    return made.text(document)


DCGM = Case(
    "dcgm_gate",
    dcgm_gate,
    dcgm(made.text(HEALTHY)),
    {
        "tool missing": (changed(dcgm(""), dcgmi="/nonexistent/dcgmi"), "inconclusive", "not installed"),
        "tool hangs": (changed(dcgm("", body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool hangs after a perfect document": (
            changed(dcgm("", body=f"cat <<'X'\n{made.text(HEALTHY)}\nX\nsleep 60"), timeout=2),
            "inconclusive",
            "still running after",
        ),
        "tool killed": (dcgm(made.text(HEALTHY), body="kill -9 $$"), "inconclusive", "signal 9"),
        "killed while printing": (dcgm(made.text(HEALTHY)[:900], rc=203), "inconclusive", "killed"),
        "noise": (dcgm("lorem ipsum { dolor\n"), "inconclusive", "no diagnosis"),
        "nothing": (dcgm(""), "inconclusive", "no diagnosis"),
        "a flood": (dcgm("", body="exec yes '{'"), "inconclusive", "dcgmi"),
        "seven of eight": (dcgm(made.text(made.dcgm4(gpus=7))), "fail", "GPU 7 is missing"),
        "all skipped": (dcgm(all_skipped()), "inconclusive", "says skip"),
        "exit 0 with a failing entity": (dcgm(made.text(made.failing(HEALTHY, "memory", 2))), "fail", "GPU 2"),
        "a failing entity": (
            dcgm(made.text(made.failing(HEALTHY, "memory", 6, made.fault("faulty", 52))), rc=205),
            "fail",
            "GPU 6: faulty memory (DCGM 52)",
        ),
        "bad exit, good document": (dcgm(made.text(HEALTHY), rc=205), "fail", "although every test passed"),
        "exit 0, only level 1 was run": (dcgm(made.text(made.dcgm4(["software"]))), "inconclusive", "memory"),
        "root required": (dcgm("Error: root\n", rc=227), "inconclusive", "root is required"),
        "busy": (dcgm("", rc=217), "inconclusive", "another diagnostic is running"),
        "an unknown exit status": (dcgm("", rc=42), "inconclusive", "exit status 42"),
        "unknown SKU": (changed(dcgm(made.text(HEALTHY)), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(dcgm(made.text(HEALTHY)), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="dcgmi",
    counted=lambda folder, gpus: dcgm(made.text(made.dcgm4(gpus=gpus)))(folder),
)

# -- kernel log ------------------------------------------------------------------------------------------------------


def klog(log: str, **options: Any) -> Callable[[Path], Params]:
    return lambda folder: {**made.machine(folder, log), **options}


def journal(folder: Path) -> Params:
    """The same quiet log, as the journal tells it."""
    params = klog(QUIET, source="journal")(folder)
    boot = Path(params["boot_id_path"]).read_text(encoding="ascii").strip().replace("-", "")
    said = (("Linux version 6.8", 0.0), ("nvidia loaded", 9.0), ("quiet", 600.0))
    lines = [
        json.dumps({"MESSAGE": text, "_SOURCE_MONOTONIC_TIMESTAMP": str(int(at * 1e6)), "_BOOT_ID": boot})
        for text, at in said
    ]
    (folder / "journal").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {**params, "journalctl": made.program(folder / "journalctl", f"cat {folder / 'journal'}")}


QUIET = made.kmsg("NVRM: loading NVIDIA UNIX driver", "nvidia-nvswitch0: open")

KERNEL_LOG = Case(
    "kernel_log_gate",
    kernel_log_gate,
    klog(QUIET),
    {
        "tool missing": (klog(QUIET, source="journal", journalctl="/nonexistent"), "inconclusive", "missing"),
        "tool hangs": (
            lambda folder: {
                **klog(QUIET, source="journal", timeout=1)(folder),
                "journalctl": made.program(folder / "journalctl", "sleep 60"),
            },
            "inconclusive",
            "timeout",
        ),
        "tool killed": (
            lambda folder: {
                **klog(QUIET, source="journal")(folder),
                "journalctl": made.program(folder / "journalctl", "kill -9 $$"),
            },
            "inconclusive",
            "-9",
        ),
        "noise": (klog("lorem ipsum\n"), "inconclusive", "no time"),
        "nothing": (klog(""), "inconclusive", "empty"),
        "unreadable": (klog(QUIET, path="/nonexistent/kmsg"), "inconclusive", "cannot be read"),
        "rotated past the start": (klog(made.kmsg("late", start=500, seq=9)), "inconclusive", "begins 500 s"),
        "records lost": (klog(made.kmsg("a") + made.kmsg("b", start=9, seq=9)), "inconclusive", "lost records"),
        "another boot": (klog(made.kmsg("a", step=9000)), "inconclusive", "another boot"),
        "a GPU off the bus": (klog(made.kmsg(XID79)), "fail", "GPU 0000:9b:00: fallen off the bus (Xid 79)"),
        "an Xid nobody knows": (klog(made.kmsg(XID79.replace("79", "4711"))), "fail", "Xid 4711"),
        "a fatal SXid": (
            klog(made.kmsg("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up")),
            "fail",
            "SXid 20034",
        ),
        "unknown SKU": (klog(QUIET, profile=None), "inconclusive", "profile"),
        "half a profile": (klog(QUIET, profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="journalctl",
    counted=None,
    asked=journal,
)


# -- the GPUs' state ---------------------------------------------------------------------------------------------------


def state(document: str = smi.xml(), **how: Any) -> Callable[[Path], Params]:
    return lambda folder: smi.params(folder, document, **how)


GPU_STATE = Case(
    "gpu_state_gate",
    gpu_state_gate,
    state(),
    {
        "tool missing": (changed(state(), nvidia_smi="/nonexistent/nvidia-smi"), "inconclusive", "not installed"),
        "tool hangs": (changed(state(body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool hangs after a perfect document": (
            changed(state(body='[ "$1" = nvlink ] && sleep 60'), timeout=1),
            "inconclusive",
            "still running after",
        ),
        "tool killed": (state(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (state("lorem ipsum dolor\n"), "inconclusive", "says nothing of any GPU"),
        "nothing": (state(" "), "inconclusive", "printed nothing"),
        "a flood": (state(body="exec yes '<gpu>'"), "inconclusive", "nvidia-smi"),
        "cut": (state(smi.xml()[:5000]), "inconclusive", "was cut"),
        "no driver": (state("NVIDIA-SMI has failed\n", rc=9), "inconclusive", "the driver is not loaded"),
        "a lost GPU hides all": (
            state("Unable to determine the device handle for GPU0000:43:00.0: Unknown Error\n", rc=255),
            "fail",
            "Unable to determine the device handle",
        ),
        "a corrupted InfoROM": (
            state(smi.xml() + "WARNING: infoROM is corrupted at gpu 0000:43:00.0\n", rc=14),
            "fail",
            "infoROM is corrupted",
        ),
        "seven of eight": (state(smi.xml(gpus=7)), "fail", "7 of 8 GPUs"),
        "a failed row remap": (
            state(smi.xml({"remapped_rows__remapped_row_failure": "Yes"})),
            "fail",
            "GPU 3 (0000:13:00): a row remap failed",
        ),
        "a link that is down": (state(links=smi.state(down=2)), "fail", "17 of 18 NVLinks are up: link 5 is down"),
        "ECC that nobody tells": (
            state(smi.xml({"ecc_errors__volatile__dram_uncorrectable": "[N/A]"})),
            "inconclusive",
            "does not tell the number of uncorrected errors in DRAM",
        ),
        "unknown SKU": (changed(state(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(state(), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="nvidia_smi",
    counted=lambda folder, gpus: smi.params(folder, smi.xml(gpus=gpus)),
)


# -- bandwidths --------------------------------------------------------------------------------------------------------


def bandwidth(output: str = nvbw.document(), **how: Any) -> Callable[[Path], Params]:
    return lambda folder: nvbw.params(folder, output, **how)


SLOW = nvbw.document(nvbw.case(nvbw.HOST, nvbw.host(slow=5)), nvbw.case(nvbw.PEERS, nvbw.peers()))
GPU_BANDWIDTH = Case(
    "gpu_bandwidth_gate",
    gpu_bandwidth_gate,
    bandwidth(),
    {
        "tool missing": (changed(bandwidth(), nvbandwidth="/nonexistent/nvbandwidth"), "inconclusive", "not installed"),
        "tool hangs": (changed(bandwidth(body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool killed": (bandwidth(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (bandwidth("lorem ipsum\n"), "inconclusive", "says nothing of any bandwidth"),
        "nothing": (bandwidth(" "), "inconclusive", "printed nothing"),
        "a flood": (bandwidth(body="exec yes '{'"), "inconclusive", "nvbandwidth"),
        "exit 0 with a case that broke": (
            bandwidth(nvbw.document(nvbw.case(nvbw.HOST, nvbw.host()), nvbw.case(nvbw.PEERS, None, "Error"))),
            "fail",
            "ended with an error",
        ),
        "seven of eight": (bandwidth(nvbw.document(gpus=7)), "fail", "7 of 8 GPUs"),
        "passed, and slow": (bandwidth(SLOW), "fail", "GPU 5: 20.5 GB/s in host_to_device_memcpy_ce, wanted 48"),
        "waived": (
            bandwidth(nvbw.document(nvbw.case(nvbw.HOST, nvbw.host()), nvbw.case(nvbw.PEERS, None, "Waived"))),
            "inconclusive",
            "was waived",
        ),
        "cut": (bandwidth(nvbw.document()[:900]), "inconclusive", "cannot be read"),
        "unknown SKU": (changed(bandwidth(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(bandwidth(), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="nvbandwidth",
    counted=lambda folder, gpus: nvbw.params(folder, nvbw.document(gpus=gpus)),
)


# -- collectives -------------------------------------------------------------------------------------------------------


def collective(output: str = nccl.table(), **how: Any) -> Callable[[Path], Params]:
    return lambda folder: nccl.params(folder, output, **how)


COLLECTIVE = Case(
    "collective_gate",
    collective_gate,
    collective(),
    {
        "tool missing": (changed(collective(), nccl_tests="/nonexistent"), "inconclusive", "not installed"),
        "tool hangs": (changed(collective(body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool killed": (collective(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (collective("lorem ipsum\n"), "inconclusive", "printed no table"),
        "nothing": (collective(" "), "inconclusive", "printed no table"),
        "a flood": (collective(body="exec yes '# size'"), "inconclusive", "all_reduce_perf"),
        "cut": (collective(nccl.table().partition("# Out")[0]), "inconclusive", "its last lines are not there"),
        "seven of eight": (collective(nccl.table(gpus=7)), "fail", "ran on 7 of 8 GPUs"),
        "slow": (
            collective(nccl.table(busbw=(402.0, 410.0))),
            "fail",
            "all_reduce: 402 GB/s busbw, 8 to 16 GiB, default, wanted 460",
        ),
        "wrong values": (collective(nccl.table(wrong="1")), "fail", "values arrived wrong"),
        "values that nobody checked": (collective(nccl.table(wrong="N/A")), "inconclusive", "did not look whether"),
        "unknown SKU": (changed(collective(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(collective(), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="nccl_tests",
    counted=lambda folder, gpus: nccl.params(folder, nccl.table(gpus=gpus)),
)


# -- drives ------------------------------------------------------------------------------------------------------------


def storage(output: Optional[str] = None, **how: Any) -> Callable[[Path], Params]:
    return lambda folder: nvme.params(folder, output, **how)


def fio(**how: Any) -> str:
    return json.dumps(nvme.document(**how), indent=1)


STORAGE = Case(
    "storage_gate",
    storage_gate,
    storage(),
    {
        "tool missing": (changed(storage(), fio="/nonexistent/fio"), "inconclusive", "not installed"),
        "nvme missing": (changed(storage(), nvme="/nonexistent/nvme"), "inconclusive", "not installed"),
        "tool hangs": (changed(storage(body="sleep 60"), timeout=1), "inconclusive", "still running after"),
        "tool killed": (storage(body="kill -9 $$"), "inconclusive", "signal 9"),
        "noise": (storage("lorem ipsum\n"), "inconclusive", "it printed no JSON"),
        "nothing": (storage(" "), "inconclusive", "it printed nothing"),
        "a flood": (storage(body="exec yes '{'"), "inconclusive", "fio"),
        "cut": (storage(fio()[:700]), "inconclusive", "fio: "),
        "a drive too few": (storage(drives={"nvme0": 960}, on=""), "fail", "0 of 1 drives data"),
        "a drive that warns": (
            storage(told={nvme.DATA: nvme.smart(critical_warning=4)}),
            "fail",
            "nvme1 (serial S4X1): it is no longer reliable",
        ),
        "a drive that tells nothing": (storage(told={nvme.DATA: ""}), "inconclusive", "it printed nothing"),
        "slow": (storage(fio(rate=2e9)), "fail", "2.003 GB/s, read 1024 KiB, depth 8, wanted 2.5"),
        "a job that is missing": (storage(fio(jobs=0)), "inconclusive", "0 jobs, and 1 were asked for"),
        "nothing is mounted": (storage(on="nvme0"), "inconclusive", "scratch is on nvme0"),
        "no drive below it": (storage(on=""), "inconclusive", "is no block device of this machine"),
        "nothing went over the drive": (storage(seen=0), "inconclusive", "the kernel saw 0 go over the drive"),
        "unknown SKU": (changed(storage(), profile=None), "inconclusive", "profile"),
        "half a profile": (changed(storage(), profile={"schema": 1}), "inconclusive", "profile"),
    },
    program="fio",
    counted=None,
)

GATES = [DCGM, KERNEL_LOG, GPU_STATE, GPU_BANDWIDTH, COLLECTIVE, STORAGE, *OF_THE_MACHINE, *newcomers.adapters("gate")]
