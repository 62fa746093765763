# SPDX-License-Identifier: Apache-2.0
"""Cgroups by what they are: a container by its id, a Slurm job or step by its number, a systemd unit by its name.

Nobody is asked but the hierarchy of the memory controller: what its paths do not say (a container's name, a pod's) is
the runtime's to know.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tracer.attribution.cgroup_paths import place_of
from tracer.attribution.places import SHORT_ID, Place, describe_itself
from tracer.cli.console import shown
from tracer.errors import InputError, UsageError
from tracer.sources.cgroups import CgroupSource
from tracer.sources.procfs import read_status

MOST_SHOWN = 6
_SCHEME = re.compile(r"\A[a-z0-9.-]+://")
_HEX = re.compile(r"[0-9a-f]+(?:-[0-9]*)?")
_FULL_ID = re.compile(r"[0-9a-f]{64}")
_STEP = re.compile(r"(?P<job>[0-9]{1,10})(?:\.(?P<step>[0-9]{1,10}|batch|extern|interactive))?")
_A_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_ASKED = {
    "docker": "docker inspect --format '{{{{.Id}}}}' {}",
    "podman": "podman inspect --format '{{{{.Id}}}}' {}",
    "containerd": "crictl ps --quiet --name {}",
    "cri-o": "crictl ps --quiet --name {}",
}
"""By runtime: what prints the id of a container by its name."""
_MOST_ASKED = 64
_UNIT_KINDS = (".service", ".scope", ".slice", ".socket", ".mount", ".swap")
_WITHOUT_PROCESSES = (".target", ".timer", ".path", ".device", ".automount")


class Found(NamedTuple):
    """A cgroup, and what it is."""

    path: str
    place: Place


def find_container(text: str, cgroups: CgroupSource, *, proc_root: str = "/proc") -> str:
    """The cgroup of a container, by its id or the beginning of that; LXC and nspawn know theirs by name.

    runc, crun and ctr take any name as an id, and call the cgroup so: that is looked for last, and taken where its
    processes have a pid namespace of their own.

    Args:
        text: also as kubectl shows it, `containerd://3f2a...`.

    Raises:
        UsageError: it says nothing.
        InputError: there is no such container, or there are several.
    """
    name = wanted = _SCHEME.sub("", text, count=1)
    if not wanted:
        raise UsageError("--container needs an id, or its first digits")
    here = [one for one in _everywhere(cgroups) if one.place.itself == "container"]
    found = [one for one in here if one.place.container == wanted]
    wanted = wanted.lower()
    if not found and _HEX.fullmatch(wanted):
        found = [one for one in here if _HEX.fullmatch(_id(one)) and _id(one).startswith(wanted)]
    if found:
        return _only(found, f"container {shown(text)}", cgroups, name=_id_and_runtime)
    found = _of_any_name(name, cgroups, proc_root)
    if found:
        return _only(found, f"container {shown(text)}", cgroups)
    what, ask = f"no container {shown(text)} runs here", None
    if not _HEX.fullmatch(wanted):
        what = f"no container {shown(text)} (a name is known to its runtime alone, and that is not asked: give the id)"
        ask = _how_to_ask(name, [one.place.runtime for one in here])
    raise InputError(f"{what}: {_instead(here, 'container', _id_and_runtime)}", next_command=ask)


def find_slurm_job(text: str, cgroups: CgroupSource) -> str:
    """The cgroup of a Slurm job, or of one of its steps: `88`, `88.0`, `88.batch`.

    Raises:
        UsageError: it is neither.
        InputError: no such job or step runs here.
    """
    asked = _STEP.fullmatch(text)
    if asked is None:
        raise UsageError(f"{shown(text)} is no Slurm job: give its number (SLURM_JOB_ID), or ID.STEP")
    job, step = asked["job"].lstrip("0") or "0", asked["step"]
    if step is not None and step.isdecimal():
        step = step.lstrip("0") or "0"
    here = list(_everywhere(cgroups))
    jobs = [one for one in here if one.place.itself == "slurm_job"]
    mine = [one for one in jobs if one.place.slurm_job == job]
    if not mine:
        why = _instead(jobs, "Slurm job", lambda one: f"job {one.place.slurm_job}")
        # Slurm makes memory cgroups where it limits memory alone (ConstrainRAMSpace in cgroup.conf).
        why += "" if jobs else f"; if Slurm limits no memory: attach --pid PID (PID from `scontrol listpids {job}`)"
        raise InputError(f"no Slurm job {job} with a memory cgroup here: {why}")
    if step is None:
        return _only(mine, f"Slurm job {job}", cgroups)
    steps = [one for one in here if one.place.itself == "slurm_step" and one.place.slurm_job == job]
    found = [one for one in steps if one.place.slurm_step == step]
    if not found:
        why = _instead(steps, "step", lambda one: f"step {one.place.slurm_step}")
        raise InputError(f"no step {step} of Slurm job {job} here: {why}")
    return _only(found, f"step {step} of Slurm job {job}", cgroups)


def find_unit(text: str, cgroups: CgroupSource) -> str:
    """The cgroup of a systemd unit, a slice among them: of this machine's own systemd, else of a user's or container's.

    Args:
        text: without a suffix a service is meant, as `systemctl` has it.

    Raises:
        UsageError: it is no name.
        InputError: it has no cgroup, or there are several.
    """
    if not text or "/" in text:
        raise UsageError(f"{shown(text)} is no name of a unit" if text else "--unit needs a name")
    if text.endswith(_WITHOUT_PROCESSES):
        raise UsageError(f"{shown(text)} is of a kind that has no processes: give a service, a scope or a slice")
    name = text if text.endswith(_UNIT_KINDS) else f"{text}.service"
    units = [one for one in _everywhere(cgroups) if _unit(one) is not None]
    found = [one for one in units if _unit(one) == name]
    own = [one for one in found if one.place.user_unit is None and _is_outside(one)]
    if found:
        return _only(own or found, f"unit {shown(name)}", cgroups)
    near = _near(name, {_unit(one) or "" for one in units})
    meant = f"; there is {_listed([shown(one) for one in near])}" if near else ""
    raise InputError(
        f"no memory cgroup of unit {shown(name)}: it does not run, or systemd makes none for it "
        f"(MemoryAccounting=no){meant}"
    )


def _near(name: str, units: Iterable[str]) -> list[str]:
    """Units whose names are like this one; that both are services makes them no more so."""
    import difflib

    stems: dict[str, list[str]] = {}
    for unit in sorted(units):
        stems.setdefault(unit.rpartition(".")[0], []).append(unit)
    near = difflib.get_close_matches(name.rpartition(".")[0], stems, n=MOST_SHOWN)
    return [unit for stem in near for unit in stems[stem]]


def _everywhere(cgroups: CgroupSource) -> Iterable[Found]:
    for path in cgroups.everywhere():
        place = place_of(path)
        if place is not None:
            yield Found(path, place)


def _id(one: Found) -> str:
    return one.place.container or ""


def _id_and_runtime(one: Found) -> str:
    container = _id(one)
    short = container[:SHORT_ID] if _FULL_ID.fullmatch(container) else container
    return f"{short} ({one.place.runtime})" if one.place.runtime else short


def _of_any_name(name: str, cgroups: CgroupSource, proc_root: str) -> list[Found]:
    wanted = {name, f"runc-{name}.scope", f"crun-{name}.scope", f"{name}.scope"} if _A_NAME.fullmatch(name) else set()
    named = [path for path in cgroups.everywhere() if path.rpartition("/")[2] in wanted]
    return [Found(path, place_of(path) or Place()) for path in named if _has_own_pids(path, cgroups, proc_root)]


def _has_own_pids(path: str, cgroups: CgroupSource, proc_root: str) -> bool:
    """Whether some process in it numbers its own pids: what a container does, and hardly anything else."""
    statuses = (read_status(proc_root, pid) for pid in (cgroups.processes(path) or ())[:_MOST_ASKED])
    return any(status is not None and len(status.ns_pids or ()) > 1 for status in statuses)


def _how_to_ask(name: str, runtimes: Sequence[str | None]) -> str | None:
    """What prints the id of a container that has a name; only of the one runtime that containers here are of."""
    known = {runtime for runtime in runtimes if runtime in _ASKED}
    if len(known) != 1 or not _A_NAME.fullmatch(name):
        return None
    return _ASKED[known.pop() or ""].format(name)


def _unit(one: Found) -> str | None:
    """The unit that this very cgroup is."""
    name = one.path.rpartition("/")[2].removeprefix("_")
    return name if name in (one.place.unit, one.place.user_unit, one.place.slice) else None


def _is_outside(one: Found) -> bool:
    return one.place.container is None or one.place.container in one.path.rpartition("/")[2]


def _only(
    found: Sequence[Found], what: str, cgroups: CgroupSource, *, name: Callable[[Found], str] | None = None
) -> str:
    """The one that is meant: of several by one name the one that all others are in, or the one with processes."""
    if name is not None and len({_id(one) for one in found}) > 1:
        raise InputError(f"{what} may be any of {_listed([shown(name(one)) for one in found])}: give more of its id")
    paths = [one.path for one in found]
    top = min(paths, key=len)
    if all(path == top or path.startswith(f"{top}/") for path in paths):
        return top
    alive = [path for path in paths if cgroups.processes(path)]
    if len(alive) == 1:
        return alive[0]
    folders = [shown(path) for path in paths]
    raise InputError(f"there are {len(found)} of {what}: give --cgroup with one of {_listed(folders)}")


def _instead(here: Sequence[Found], what: str, name: Callable[[Found], str]) -> str:
    if not here:
        return f"there is no {what} here" + ("" if os.geteuid() == 0 else ", as far as you may see")
    names = [shown(name(one)) for one in here]
    return f"there is {_listed(list(dict.fromkeys(names)))}"


def _listed(names: Sequence[str]) -> str:
    most = names[:MOST_SHOWN]
    return ", ".join(most) + (f" and {len(names) - len(most)} more" if len(names) > len(most) else "")


def describe(path: str) -> str:
    """`container 3f2a91b0c1d2 (docker), cgroup /docker/3f2a...`."""
    place = place_of(path)
    itself = describe_itself(place) if place is not None else None
    return f"cgroup {shown(path)}" if itself is None else f"{itself}, cgroup {shown(path)}"
