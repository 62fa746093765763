# SPDX-License-Identifier: Apache-2.0
"""Programs that send signals by their trade: OOM daemons, container runtimes, batch systems, service managers.

Known by the file that runs or by the unit that it runs in; by its name alone anybody may be called so, and then
that is said.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tracer.events import SeenProgram
from tracer.verdict.model import Trade

WORDS: Mapping[Trade, str] = {
    "oom_daemon": "an OOM daemon",
    "container_runtime": "the container runtime",
    "batch_system": "the batch system",
    "cluster_scheduler": "the cluster scheduler",
    "service_manager": "the service manager",
}

COMM_BYTES = 15
"""TASK_COMM_LEN less its NUL: longer names are cut there."""

TRADES: Mapping[str, Trade] = {
    # Each kills for want of memory and for nothing else.
    "systemd-oomd": "oom_daemon",
    "earlyoom": "oom_daemon",
    "oomd": "oom_daemon",  # facebookincubator/oomd
    "nohang": "oom_daemon",
    # Each ends what it runs for many reasons, of which memory is one.
    "containerd-shim": "container_runtime",
    "containerd-shim-runc-v1": "container_runtime",
    "containerd-shim-runc-v2": "container_runtime",
    "containerd": "container_runtime",
    "runc": "container_runtime",
    "crun": "container_runtime",
    "conmon": "container_runtime",
    "crio": "container_runtime",
    "dockerd": "container_runtime",
    "podman": "container_runtime",
    "kubelet": "container_runtime",
    "slurmstepd": "batch_system",
    "slurmd": "batch_system",
    "pbs_mom": "batch_system",
    "sge_shepherd": "batch_system",
    "condor_starter": "batch_system",
    "flux-shell": "batch_system",
    "raylet": "cluster_scheduler",
    "systemd": "service_manager",
}


INSTALLED = ("/usr/", "/bin/", "/sbin/", "/lib/", "/opt/", "/nix/store/", "/gnu/store/", "/snap/")


class Program(NamedTuple):
    """What a sender is by trade."""

    name: str
    trade: Trade
    known_by: str
    """In words: `its program /usr/bin/earlyoom`."""
    certain: bool
    """Not by its name alone, nor by that of a file that anybody may have called so."""


def recognise(comm: str, seen: SeenProgram | None) -> Program | None:
    """What it is by trade; `None`: nothing that is known here.

    Args:
        comm: of the sender, by the record of the signal.
        seen: the same process in /proc; `None`: it was gone, or not looked at.
    """
    by_file = _by_file(comm, seen)
    if by_file is not None and by_file.certain:
        return by_file
    unit = _unit(seen)
    # A script, such as nohang: the file that runs is Python's. Of those who run what others ask for, jobs and shells
    # may be in the unit as well.
    if unit is not None and unit in TRADES and (TRADES[unit] == "oom_daemon" or comm in {unit, unit[:COMM_BYTES]}):
        return Program(unit, TRADES[unit], f"its unit {unit}.service", certain=True)
    if by_file is not None:
        return by_file
    whole = next((name for name in TRADES if comm in {name, name[:COMM_BYTES]}), None)
    if whole is None or (seen is not None and seen.exe is not None):
        return None  # called so, and another program
    return Program(whole, TRADES[whole], "its name alone", certain=False)


def _by_file(comm: str, seen: SeenProgram | None) -> Program | None:
    if seen is None or seen.exe is None:
        return None
    name = seen.exe.removesuffix(" (deleted)").rpartition("/")[2]
    if name not in TRADES or comm not in {name, name[:COMM_BYTES]}:
        return None
    return Program(name, TRADES[name], f"its program {seen.exe}", certain=_is_installed(seen, seen.exe))


def _is_installed(seen: SeenProgram, exe: str) -> bool:
    """Whether the file's name means something: root runs it, or it lies where root alone puts files.

    In a user namespace of their own anybody mounts their files there.
    """
    return seen.uid == 0 or (exe.startswith(INSTALLED) and seen.foreign_user_ns is False)


def _unit(seen: SeenProgram | None) -> str | None:
    """`earlyoom` of `/system.slice/earlyoom.service`: a unit of the system's, which root alone makes."""
    if seen is None or seen.cgroup is None:
        return None
    parts = seen.cgroup.strip("/").split("/")
    system = parts[:1] == ["system.slice"] and len(parts) >= 2
    return parts[1].removesuffix(".service") if system and parts[1].endswith(".service") else None
