# SPDX-License-Identifier: Apache-2.0
"""What is to be run: scenarios grouped into boots of machines that have what they need, and how long that takes."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scripts.guest.errors import VmError

RECORD = "{record}"
"""In a command: where the guest puts the recording."""
PATIENCE = {"kvm": 2.0, "tcg": 6.0}
"""Times what a scenario may take by its declaration; beyond its own end of itself."""
BOOT_S = {"kvm": 6.0, "tcg": 45.0}
SCENARIO_S = {"kvm": 5.0, "tcg": 30.0}
"""What both take, before anything was measured here."""
PER_BOOT = 25
"""So that a guest that dies takes little with it, and a leak in one does not reach all."""
NOT_IN_GUESTS = "torch"
"""What is needed and no guest has: such scenarios are left out."""
QUICK_KERNELS = ("5.10", "6.12")
"""The oldest, with the old form of the events, and one that people train on."""
QUICK_SCENARIOS = (
    "selftest", "memcg-leaf", "memcg-grandparent", "group-kill", "page-cache", "shm-full", "leader-gone", "kill-9",
    "exit-137", "storm-50", "global",
)  # fmt: skip
"""One of each kind: whose limit, who was killed, who killed, what must not be said, how many, the whole machine."""


@dataclass(frozen=True)
class Scenario:
    """One thing to run in the guest."""

    name: str
    command: tuple[str, ...]
    """After the interpreter."""
    what: str = ""
    needs: frozenset[str] = frozenset()
    seconds: int = 60
    """By its declaration, on a machine that nothing emulates."""
    aside: bool = False
    """Run only when it is named."""


_A_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""Becomes the name of a folder, and a word of a command line."""

CHECKS = (
    Scenario("selftest", ("-m", "tracer", "selftest", "--json", "--record", RECORD), "one kill, one control"),
    Scenario("doctor", ("-m", "tracer", "doctor", "--json"), "whether a kill could be proved"),
)
"""Of the command itself, before any scenario: if these fail on a kernel, nothing else there means anything."""

PEERS = "/oomtrace/inside/peers.py"
PEERS_S = 120
"""What the other tools take to start, on a machine that nothing emulates."""
STORM = ("{python}", "-m", "tracer.repro.workloads.storm", "--kills", "500", "--at-once", "4")
ASIDE = (
    Scenario(
        "bench",
        (PEERS, "--starts", "3", "--recording", RECORD, "--", "-m", "tracer", "run", "--memory-max", "96M",
         "--ready-file", "{ready}", "--record", RECORD, "--report", "/dev/null", "--", *STORM),
        "500 kills beside other tools: start to ready, memory, kills seen",
        seconds=300 + PEERS_S,
        aside=True,
    ),
)  # fmt: skip


def beside_peers(scenario: Scenario) -> Scenario:
    """The same, with the other tools that tell of OOM kills running beside it."""
    if scenario.command[0] == PEERS:
        return scenario
    return replace(scenario, command=(PEERS, "--", *scenario.command), seconds=scenario.seconds + PEERS_S)


MORE = ("swap", "numa", "systemd", "lockdown")
"""What a machine may have beside its hierarchy of cgroups."""


@dataclass(frozen=True)
class Profile:
    """What the machine of one boot has."""

    cgroup: str = "v2"
    swap: bool = False
    numa: bool = False
    systemd: bool = False
    lockdown: bool = False

    @property
    def name(self) -> str:
        return "+".join([self.cgroup, *(each for each in MORE if getattr(self, each))])


@dataclass(frozen=True)
class Batch:
    """One boot."""

    kernel: str
    profile: Profile
    scenarios: tuple[Scenario, ...]


def parse_list(text: str) -> list[Scenario]:
    """What `oomtrace repro --list --json` printed.

    Raises:
        VmError: it is not that.
    """
    try:
        document = json.loads(text)
        entries = document["scenarios"] if isinstance(document, dict) else document
        return [
            Scenario(
                entry["name"],
                ("-m", "tracer", "repro", entry["name"], "--json", "--record", RECORD),
                entry["what"],
                frozenset(entry.get("needs", ())),
                int(entry.get("seconds", 60)),
            )
            for entry in entries
            if _A_NAME.fullmatch(entry["name"]) or _refuse(entry["name"])
            if NOT_IN_GUESTS not in entry.get("needs", ())
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise VmError(f"oomtrace repro --list --json printed no list of scenarios ({error})") from error


def _refuse(name: str) -> bool:
    raise ValueError(f"a scenario is called {name!r}")


def timeout_s(scenario: Scenario, accel: str) -> int:
    """After so long the guest ends a scenario: it is then stuck."""
    return round(max(scenario.seconds, 60) * PATIENCE[accel])


def choose(scenarios: Sequence[Scenario], names: Sequence[str]) -> list[Scenario]:
    """Those named, in the order of the catalogue; if none is, all that are not run for themselves alone.

    Raises:
        VmError: a name is nobody's.
    """
    unknown = sorted(set(names) - {each.name for each in scenarios})
    if unknown:
        raise VmError(f"no scenario is called {', '.join(unknown)}: scripts/vm --list names them")
    return [each for each in scenarios if (each.name in names if names else not each.aside)]


def profile_of(scenario: Scenario, cgroup: str | None) -> Profile:
    """The machine that a scenario needs; the hierarchy as asked, else as it needs, else v2."""
    needs = scenario.needs
    wanted = "v1" if needs & {"cgroup_v1", "freezer_v1"} else "v2"
    systemd = bool(needs & {"systemd", "systemd_oomd"})
    return Profile(cgroup or wanted, "swap" in needs, "numa" in needs, systemd, "lockdown" in needs)


def batches(kernels: Iterable[str], scenarios: Sequence[Scenario], cgroup: str | None, per_boot: int) -> list[Batch]:
    """One boot for each kernel and machine, more where a boot would become too long."""
    planned = []
    for kernel in kernels:
        groups: dict[Profile, list[Scenario]] = {}
        for scenario in scenarios:
            groups.setdefault(profile_of(scenario, cgroup), []).append(scenario)
        for profile, group in groups.items():
            starts = range(0, len(group), per_boot)
            planned += [Batch(kernel, profile, tuple(group[start : start + per_boot])) for start in starts]
    return planned


def estimate_s(planned: Iterable[Batch], accel: str, measured: Mapping[str, float]) -> float:
    """How long some boots take, by what earlier ones took: `measured` by "KERNEL/ACCEL/boot" or "/SCENARIO"."""
    total = 0.0
    for batch in planned:
        key = f"{batch.kernel}/{accel}"
        total += measured.get(f"{key}/boot", BOOT_S[accel])
        total += sum(measured.get(f"{key}/{each.name}", SCENARIO_S[accel]) for each in batch.scenarios)
    return total


def in_words(seconds: float) -> str:
    """A duration as a person would say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
