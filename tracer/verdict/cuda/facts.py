# SPDX-License-Identifier: Apache-2.0
"""All that is known of CUDA in one recording, put together once: coverage, calls, losses, who counts at a moment."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from tracer.events import CudaMemory, GpuSample, Losses, ProcessId
from tracer.events.signals import CRASH_SIGNALS
from tracer.units import NS_PER_MS, format_duration
from tracer.verdict.cuda.calls import Calls, Failure, Held, memory_of
from tracer.verdict.cuda.coverage import Coverage, Watch
from tracer.verdict.deaths import Death
from tracer.verdict.story import Story

CUDA_HOOK = "uprobe:libcuda"
"""As `Link.via` has it."""
TOO_SHORT_NS = 200 * NS_PER_MS
"""To make a context on a GPU takes longer than such a life."""
TRAINING = frozenset({"launcher", "rank", "dataloader_worker"})
RELEVANT = ("process_forked", "process_execed", "process_exited", "cuda_call", "cuda_totals")
"""Records whose loss hides a process or a call."""


class Cuda:
    """Of one recording."""

    def __init__(self, story: Story, deaths: Sequence[Death]) -> None:
        self.story = story
        self.coverage = Coverage(story)
        self.calls = Calls(story)
        self._deaths = {death.id: death for death in deaths}
        self._watches: tuple[int, Sequence[Watch]] | None = None

    @property
    def watched_at_all(self) -> bool:
        """Whether anything of CUDA was looked for."""
        return self.coverage.looked or bool(self.calls.callers)

    @cached_property
    def processes(self) -> Sequence[ProcessId]:
        """All of the job: by forks, by the tree filter, by their calls."""
        tree = self.story.tree
        claimed = [member.id for member in tree.processes.values() if member.claimed]
        return tuple(dict.fromkeys([*tree.members, *claimed, *sorted(self.calls.callers)]))

    def gone(self, identity: ProcessId, at_ns: int) -> bool:
        """Whether it had ended by then."""
        death = self._deaths.get(identity)
        return death is not None and death.at_ns < at_ns

    def ended_well(self, identity: ProcessId, at_ns: int) -> bool:
        """Gone by then, and not of a failure of its own: whatever it held was given back."""
        death = self._deaths.get(identity)
        if death is None or death.at_ns >= at_ns:
            return False
        return not death.failed or bool(death.signal and death.signal not in CRASH_SIGNALS)

    def too_short(self, identity: ProcessId, at_ns: int) -> bool:
        """Gone by then, of a failure, after so short a life that it cannot have used a GPU; and no part of training."""
        death, member = self._deaths.get(identity), self.story.tree.processes.get(identity)
        role = self.story.roles.get(identity)
        if death is None or death.at_ns >= at_ns or member is None or member.fork is None:
            return False
        return death.at_ns - member.fork.ts_ns < TOO_SHORT_NS and (role is None or role.name not in TRAINING)

    def there(self, at_ns: int) -> Sequence[ProcessId]:
        """The processes of the job that had begun by then."""
        found = []
        for identity in self.processes:
            member = self.story.tree.processes.get(identity)
            began_ns = member.began_ns if member is not None else None
            if began_ns is None or began_ns <= at_ns:
                found.append(identity)
        return found

    def watches(self, at_ns: int) -> Sequence[Watch]:
        """Of all that were there, ended well or not."""
        if self._watches is None or self._watches[0] != at_ns:  # link 5 and the document ask for the same
            found = [self._checked(self.coverage.of(identity, at_ns), at_ns) for identity in self.there(at_ns)]
            self._watches = (at_ns, found)
        return self._watches[1]

    def _checked(self, watch: Watch, at_ns: int) -> Watch:
        """What was seen of its mappings, held against its calls and against NVML."""
        calls = watch.id in self.calls.callers
        unmapped, uncalled = watch.state == "unmapped", watch.state == "watched" and not calls
        if unmapped and calls:
            return Watch(id=watch.id, state="unknown", why="called libcuda, and was not seen to have it mapped")
        unseen_ns = self._unseen_before_its_failure(watch, at_ns) if unmapped else 0
        if unseen_ns > TOO_SHORT_NS:
            why = f"ended of a failure, {format_duration(unseen_ns)} after it was last known not to have libcuda mapped"
            return Watch(id=watch.id, state="unknown", why=why)
        gpu = self._on_gpu(watch.id, at_ns) if unmapped or uncalled else None
        if gpu is None:
            return watch
        missed = "was not seen to have libcuda mapped" if unmapped else "no call of it was seen"
        why = f"was on GPU {gpu.index} as NVML has it, and {missed}"
        return Watch(id=watch.id, state="unknown", why=why, libraries=watch.libraries, evidence=(gpu.seq,))

    def _unseen_before_its_failure(self, watch: Watch, at_ns: int) -> int:
        """How long one that failed may have had a library mapped that nobody saw; 0: it did not fail by then."""
        death = self._deaths.get(watch.id)
        if death is None or death.at_ns >= at_ns or self.ended_well(watch.id, at_ns) or watch.until_ns is None:
            return 0
        return death.at_ns - watch.until_ns

    def _on_gpu(self, identity: ProcessId, at_ns: int) -> GpuSample | None:
        """The first sample of a device that names it, of its present program."""
        member = self.story.tree.processes.get(identity)
        execs = [] if member is None else [one.ts_ns for one in member.execs if one.ts_ns <= at_ns]
        began_ns = max([*execs, (member.began_ns if member is not None else None) or 0])
        samples = self._samples_by_pid.get(identity.tgid, ())
        return next((s for s in samples if began_ns <= s.ts_ns <= at_ns and not self.gone(identity, s.ts_ns)), None)

    @cached_property
    def _samples_by_pid(self) -> Mapping[int, Sequence[GpuSample]]:
        found: dict[int, list[GpuSample]] = {}
        for sample in self.story.of(GpuSample):
            for process in sample.processes or ():
                found.setdefault(process.pid, []).append(sample)
        return found

    def failures(self, *kinds: CudaMemory) -> Sequence[Failure]:
        """All calls that failed, of these kinds of memory, in time order."""
        found = [f for each in self.calls.failures.values() for f in each if memory_of(f.call) in kinds]
        return sorted(found, key=lambda f: (f.call.ts_ns, f.call.seq))

    def held(self, at_ns: int, *, at_most: bool = False) -> Held:
        """By all that were still there."""
        read = self.calls.most_held if at_most else self.calls.held
        total = Held()
        for identity in self.calls.callers:
            if not self.gone(identity, at_ns):
                total = total.plus(read(identity, at_ns))
        return total

    def lost(self) -> str | None:
        """Why records may be missing that would change what is said; `None`: none is known to be."""
        story = self.story
        last = next(reversed(story.of(Losses)), None)
        if story.missing_events:
            return f"{story.missing_events} events are missing from the recording"
        if last is None:
            return "the recording ends before it could say whether records were lost"
        lost = sum(last.dropped.get(kind, 0) for kind in RELEVANT)
        lost += last.unknown + last.short + last.untracked + last.cuda
        return f"{lost} records that matter were lost" if lost else None
