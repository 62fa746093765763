# SPDX-License-Identifier: Apache-2.0
"""The ladder of hooks: which function of which fragment goes where, and what is tried instead.

Raw tracepoints carry all that the proof needs and exist everywhere; function hooks add to it where a
kernel allows them. Runs in the loader child: Python 3.8, standard library only.
"""

from __future__ import annotations

from typing import NamedTuple

FRAGMENTS = ("prelude.c", "memcg.c", "signal.c", "printk.c", "oom.c", "process.c")
"""In this order; a later one may use what an earlier one defines."""

SCALAR_FRAGMENTS = ("prelude.c", "scalar.c")
"""What is tried where the kernel lets nobody read its memory, or does not say where what lies in it."""

CUDA_FRAGMENTS = ("prelude.c", "cuda_state.c", "cuda.c")
"""Loaded by themselves, and only where there is a libcuda: they take as long to compile as half of the others."""


class Rung(NamedTuple):
    """One way to attach one function."""

    kind: str
    """`raw_tracepoint`, `fentry` or `kprobe`."""
    target: str
    """The tracepoint's or the kernel function's name."""
    function: str
    """Of the fragments; for fentry what KFUNC_PROBE makes of the name, see `loader`."""

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.target}"


class Probe(NamedTuple):
    """One hook: the first rung that holds is it."""

    required: bool
    rungs: tuple[Rung, ...]


def _raw(tracepoint: str, function: str) -> Probe:
    return Probe(True, (Rung("raw_tracepoint", tracepoint, function),))


PROBES = (
    _raw("mark_victim", "on_mark_victim"),
    _raw("signal_generate", "on_signal_generate"),
    _raw("sched_process_fork", "on_process_fork"),
    _raw("sched_process_exec", "on_process_exec"),
    _raw("sched_process_exit", "on_process_exit"),
    _raw("mm_vmscan_memcg_reclaim_begin", "on_memcg_reclaim_begin"),
    _raw("mm_vmscan_memcg_reclaim_end", "on_memcg_reclaim_end"),
    _raw("mm_vmscan_direct_reclaim_begin", "on_direct_reclaim_begin"),
    _raw("mm_vmscan_direct_reclaim_end", "on_direct_reclaim_end"),
    Probe(
        False,
        (
            Rung("fentry", "oom_kill_process", "kfunc__oom_kill_process"),
            Rung("kprobe", "oom_kill_process", "on_oom_kill_process"),
        ),
    ),
)


CONSOLE = Probe(False, (Rung("raw_tracepoint", "console", "on_console"),))
"""In place of a kernel log that cannot be read."""

SCALAR_PROBES = (
    _raw("mark_victim", "on_mark_scalar"),
    _raw("signal_generate", "on_signal_scalar"),
    _raw("sched_process_fork", "on_fork_scalar"),
    _raw("sched_process_exit", "on_exit_scalar"),
)

CUDA_PROBES = (
    _raw("sched_process_exec", "on_cuda_exec"),
    _raw("sched_process_exit", "on_cuda_exit"),
)
"""Beside these, uprobes: `cudacalls.FUNCTIONS`."""
CUDA_SUFFIX = "/cuda"
"""Of the names of these hooks."""

SCALAR_SUFFIX = "/scalars"
"""Of the names of these hooks: whoever asks for `mark_victim` must not take them for it."""


class Wanted(NamedTuple):
    """Which programs are to be loaded."""

    scalars: bool = False
    """Those that read none of the kernel's memory, and not the others."""
    console: bool = False
    """Also what the kernel prints of its decision."""
    cuda: bool = False
    """Calls of CUDA, and nothing else: beside the other programs, whose maps these use."""
    one_by_one: bool = False
    """With a program and a probe for each function, as on kernels before 6.6; for tests."""

    @property
    def fragments(self) -> tuple[str, ...]:
        if self.cuda:
            return CUDA_FRAGMENTS
        return SCALAR_FRAGMENTS if self.scalars else FRAGMENTS

    @property
    def probes(self) -> tuple[Probe, ...]:
        if self.cuda:
            return CUDA_PROBES
        if self.scalars:
            return SCALAR_PROBES
        return (*PROBES, CONSOLE) if self.console else PROBES


class Hook(NamedTuple):
    """What became of one hook."""

    name: str
    """`raw_tracepoint:mark_victim`: the rung that holds, else the last one that was tried."""
    attached: bool
    why_not: str | None
    required: bool
