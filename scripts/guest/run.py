# SPDX-License-Identifier: Apache-2.0
"""Runs a plan: boots each batch, follows what the guest writes, boots again for what a guest that died left over."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.guest import boot, layouts, payload
from scripts.guest.boot import Machine
from scripts.guest.errors import VmError
from scripts.guest.kernels import Kernel, series
from scripts.guest.lab import Lab, Times, say
from scripts.guest.plan import Batch, Scenario, estimate_s, in_words, timeout_s
from scripts.guest.results import BROKEN, PASS, Result, Store, counts, last_words, parse
from scripts.guest.table import kills_in_words
from tracer.kernel.btf import BtfError

GRACE_S = 120.0
"""Beyond a scenario's own time, in which the guest itself ends it."""
_FAILED_STARTS = 2


@dataclass(frozen=True)
class Options:
    """How plans are run."""

    accel: str = "auto"
    append: tuple[str, ...] = ()
    timeout_s: int | None = None
    keep: Path | None = None
    """Where everything that a guest left is copied to."""


@dataclass
class Runner:
    """Runs batches one after the other.

    Args:
        lab: the cache.
        work: a folder that goes away.
        options: of this run.
        digest: of the checkout that is tested.
        store: where results are kept, by kernel release and root.
    """

    lab: Lab
    work: Path
    options: Options
    digest: str
    store: Callable[[str], Store]
    accel: str = ""
    results: list[Result] = field(default_factory=list)
    _kernels: dict[str, Kernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._times = Times(self.lab.cache / "times.json")

    def kernel(self, name: str) -> Kernel:
        """Its files, from the cache or fetched."""
        if name not in self._kernels:
            self._kernels[name] = self.lab.kernel(series(name), self.work)
        return self._kernels[name]

    def choose_accel(self, name: str) -> str:
        """Decided once, by trying."""
        if not self.accel:
            asked = self.options.accel
            kvm = asked == "kvm" or (asked == "auto" and boot.kvm_works(self.kernel(name), self.work))
            self.accel = "kvm" if kvm else "tcg"
            if asked == "auto":
                say(
                    "KVM works here"
                    if kvm
                    else "no KVM that works here: qemu emulates, which takes some ten times longer"
                )
        return self.accel

    def estimate(self, planned: list[Batch]) -> float:
        """Seconds."""
        return estimate_s(planned, self.accel, self._times.seconds)

    def run(self, planned: list[Batch]) -> None:
        """All of them."""
        for number, batch in enumerate(planned):
            self._run_batch(batch, planned[number + 1 :])

    def _run_batch(self, batch: Batch, later: list[Batch]) -> None:
        left, failed = batch.scenarios, 0
        while left and failed < _FAILED_STARTS:
            done = self._boot(Batch(batch.kernel, batch.profile, left), later)
            failed = 0 if done else failed + 1
            left = left[done:]
        for scenario in left:
            self.note(batch, scenario, Result(
                scenario.name, batch.kernel, batch.profile.name, BROKEN,
                f"the guest did not start: {last_words(self.work / 'guest' / 'console')}", 0.0, "", None,
            ), later)  # fmt: skip

    def _machine(self, batch: Batch, folder: Path) -> Machine:
        column = series(batch.kernel)
        loader = self.lab.root(column.suite)
        main = self.lab.root(column.beside) if column.beside else loader
        if payload.digest() != self.digest:
            raise VmError("the checkout was changed while it was being run: run the same command again")
        payload.write_image(folder / "payload.ext4", payload.libraries(self.lab.cache, main.python))
        swap = None
        if batch.profile.swap:
            swap = folder / "swap"
            with swap.open("wb") as file:
                file.truncate(boot.SWAP_MIB << 20)
        (folder / "results").mkdir()
        return Machine(
            self.kernel(batch.kernel), self.accel, Path(main.image), folder / "payload.ext4", folder / "results",
            folder / "console", batch.profile, Path(loader.image) if column.beside else None, swap, self.options.append,
        )  # fmt: skip

    def _boot(self, batch: Batch, later: list[Batch]) -> int:
        """One boot; how many of the batch's scenarios, from its first on, need not be run again."""
        folder = self.work / "guest"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        machine = self._machine(batch, folder)
        plan = [
            {"name": each.name, "command": each.command, "timeout_s": self.timeout_s(each)} for each in batch.scenarios
        ]
        wants = not self.store(batch.kernel).layouts(batch.kernel).exists()
        text = json.dumps({"scenarios": plan, "cgroup": batch.profile.cgroup, "layouts": wants})
        (machine.results / "plan.json").write_text(text, encoding="utf-8")
        names = [each.name for each in batch.scenarios]
        say(f"{batch.kernel} ({machine.kernel.release}), {batch.profile.name}: booting for {_listed(names)}")
        progress = _Progress(self, batch, machine.results, later)
        with boot.running(boot.qemu_command(machine), folder) as child:
            alive = boot.watch(child, progress.look)
        log = (folder / "qemu.log").read_text("utf-8", "replace").strip().splitlines()
        if not progress.started and log:
            raise VmError(f"qemu: {log[-1]}")
        done = progress.ended(last_words(machine.console) if alive else "the guest answered no more")
        if wants and progress.started:
            self._keep_layouts(batch.kernel, machine)
        if self.options.keep is not None:
            shutil.copytree(machine.results, self.options.keep / batch.kernel, dirs_exist_ok=True)
            shutil.copy2(machine.console, self.options.keep / batch.kernel / "console")
        return done

    def _keep_layouts(self, kernel: str, machine: Machine) -> None:
        try:
            layouts.keep(machine.results / "layouts", self.store(kernel).layouts(kernel), machine.kernel.release)
        except (BtfError, OSError) as error:
            say(f"{kernel}: its layouts are not kept: {error}")

    def timeout_s(self, scenario: Scenario) -> int:
        """What the guest gives a scenario."""
        return self.options.timeout_s or timeout_s(scenario, self.accel)

    def note_time(self, batch: Batch, what: str, seconds: float) -> None:
        """For later estimates."""
        self._times.keep(f"{batch.kernel}/{self.accel}/{what}", seconds)

    def note(self, batch: Batch, scenario: Scenario, result: Result, later: list[Batch]) -> None:
        """A scenario has ended, or will not be run: kept and told."""
        self.results.append(result)
        if result.release:
            self.store(batch.kernel).keep(result, self.work / "guest" / "results" / scenario.name)
            if result.seconds:
                self.note_time(batch, scenario.name, result.seconds)
        rest = batch.scenarios[batch.scenarios.index(scenario) + 1 :]
        left_s = self.estimate([*([Batch(batch.kernel, batch.profile, rest)] if rest else []), *later])
        about = f"; about {in_words(left_s)} left" if rest or later else ""
        reason = "" if result.outcome == PASS else f": {result.reason}"
        kills = kills_in_words(result)
        say(f"{batch.kernel} {scenario.name}: {result.outcome} ({result.seconds:.0f} s){kills}{reason}{about}")


class _Progress:
    """Follows one guest by the files that it writes."""

    def __init__(self, runner: Runner, batch: Batch, results: Path, later: list[Batch]) -> None:
        self._runner, self._batch, self._results, self._later = runner, batch, results, later
        self._since_s = self._changed_s = time.monotonic()
        self._noted = 0
        self._guest: dict[str, str | None] = {}

    @property
    def started(self) -> bool:
        return bool(self._guest)

    def look(self) -> float | None:
        """Note what is new; seconds until the guest is given up, `None` when it has finished."""
        if not self._guest and (self._results / "guest.json").exists():
            self._guest = json.loads((self._results / "guest.json").read_text(encoding="utf-8"))
            self._changed_s = time.monotonic()
            self._runner.note_time(self._batch, "boot", self._changed_s - self._since_s)
            versions = f"Python {self._guest['python']}, bcc {self._guest['bcc']}"
            beside = f" under Python {self._guest['loader_python']}" if self._guest.get("loader_python") else ""
            say(f"{self._batch.kernel}: up after {self._changed_s - self._since_s:.0f} s; {versions}{beside}")
        scenarios = self._batch.scenarios
        while self._noted < len(scenarios) and (self._results / scenarios[self._noted].name / "ended.json").exists():
            self._note("")
        if (self._results / "finished.json").exists():
            return None
        if self._guest and self._noted < len(scenarios):
            allowed_s = self._runner.timeout_s(scenarios[self._noted]) + GRACE_S
        else:
            allowed_s = GRACE_S if self._guest else boot.START_S[self._runner.accel]
        return self._changed_s + allowed_s - time.monotonic()

    def _note(self, died: str) -> None:
        scenario = self._batch.scenarios[self._noted]
        outcome, reason, seconds = parse(self._results / scenario.name, died=died)
        release, bcc = self._guest.get("release") or "", self._guest.get("bcc")
        found = counts(self._results / scenario.name)
        result = Result(
            scenario.name, self._batch.kernel, self._batch.profile.name, outcome, reason, seconds, release, bcc, found
        )
        self._noted += 1
        self._changed_s = time.monotonic()
        self._runner.note(self._batch, scenario, result, self._later)

    def ended(self, why: str) -> int:
        """The guest is gone: whatever had begun counts, what had not is left; how many count."""
        left = self._batch.scenarios[self._noted :]
        if self._guest and left and (self._results / left[0].name / "started").exists():
            self._note(why)
        return self._noted


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{len(names)} scenarios"
