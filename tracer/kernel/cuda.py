# SPDX-License-Identifier: Apache-2.0
"""Programs that see calls of CUDA, beside a session: loaded once there is a libcuda, and put on each that is found."""

import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import NamedTuple

from tracer.elf import exported_functions
from tracer.errors import LoaderFailed
from tracer.kernel import cudacalls
from tracer.kernel.bpfcalls import open_uprobes
from tracer.kernel.handover import CUDA_KEY, CUDA_MAPS, CUDA_OWNER_AT, CUDA_RUNNING_BYTES, Limits, Report
from tracer.kernel.leaving import leave
from tracer.kernel.maps import HashMap
from tracer.kernel.probes import Hook, Wanted
from tracer.kernel.rewritten import Rewritten
from tracer.kernel.session import Session, load
from tracer.kernel.uprobes import NoUprobes, Uprobes

MAX_LIBRARIES = 6
"""Different files: before 6.6 each takes two descriptors a function, and a process may have 1024 open by default."""

_LIMITS = Limits()
_CUDA = Wanted(cuda=True)
_LIKE_ALLOCATION = re.compile(r"cu(?:Mem|Array|Mipmapped|Host)\w*(?:Alloc(?!ation)|Create|Register)\w*")


class Probed(NamedTuple):
    """What came of probing one library."""

    symbols: tuple[str, ...] = ()
    """That are watched, as they are entered and as they return."""
    missing: tuple[str, ...] = ()
    """That it does not export."""
    refused: Mapping[str, str] = MappingProxyType({})
    """Symbol to why there is no probe on it."""
    unknown: tuple[str, ...] = ()
    """That look like allocation, and nobody here knows them."""
    why_not: str | None = None
    """There is no probe at all."""


class CudaPrograms:
    """Loaded programs, and the probes that run them. Made by `open_cuda`.

    Args:
        report: the child's.
        descriptors: of `CUDA_MAPS`, then links, then programs; owned from here on.
        uprobes: of this kernel.
    """

    def __init__(self, report: Report, descriptors: list[int], uprobes: Uprobes) -> None:
        self.hooks: tuple[Hook, ...] = report.hooks
        self._descriptors = list(descriptors)
        self._probes: list[int] = []
        """One by one, which takes long to undo."""
        running, held = descriptors[: len(CUDA_MAPS)]
        self._running = HashMap(running, "=Q", f"={CUDA_RUNNING_BYTES // 8}Q")
        self._held = HashMap(held, f"={struct.calcsize(CUDA_KEY)}s", "=QQ")
        self._functions = [function for function in cudacalls.FUNCTIONS if function.name in report.uprobes]
        programs = descriptors[len(CUDA_MAPS) + len(report.hooks) :]
        self.at_once = report.at_once
        """One link holds the probes on all functions of a library."""
        self._entered, self._returned = programs[:-1], programs[-1]
        self._uprobes = uprobes
        self._libraries = 0

    def probe(self, library: int) -> Probed:
        """Put probes on a library. **Slow**: it waits for every CPU, and for the processes that have it mapped.

        Args:
            library: descriptor of the file; stays the caller's.
        """
        if self._libraries >= MAX_LIBRARIES:
            return Probed(why_not=f"{MAX_LIBRARIES} different libraries are probed already")
        exported = exported_functions(library)
        probed = self._probe_all(library, exported)
        self._libraries += bool(probed.symbols)
        return probed

    def totals(self) -> Iterator[bytes]:
        """Of each process that called CUDA and lives, the record of what it did so far; its head is empty."""
        for _, words in self._running.items():  # noqa: PERF102 - a map of the kernel's
            yield b"".join(word.to_bytes(8, "little") for word in words)

    def sweep(self) -> int:
        """Lets go of what is kept of processes that have ended, and of programs that were replaced. Slow."""
        keys = self._held.keys()  # before who lives is asked: what came into it since is of those
        living = {words[CUDA_OWNER_AT] for _, words in self._running.items()}
        return sum(self._held.delete(key) for key in keys if struct.unpack(CUDA_KEY, key)[1] not in living)

    def close(self) -> None:
        """Takes all away; a second call does nothing. Probes that stand one by one may be hit some seconds longer."""
        leave(self._probes)
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors, self._probes = [], []

    def __enter__(self) -> "CudaPrograms":  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _probe_all(self, library: int, exported: dict[str, int]) -> Probed:
        places: dict[int, list[cudacalls.Function]] = {}
        for function in sorted(self._functions, key=lambda each: each.narrow_size or each.narrow_address):
            if function.name in exported:
                places.setdefault(exported[function.name], []).append(function)
        # Several names of one function: one probe, which knows it by the first.
        functions = {offset: alike[0] for offset, alike in places.items()}
        put = self._put_at_once if self.at_once else self._put_each
        failed = put(library, functions, Rewritten(library))
        refused = {each.name: why for offset, why in failed.items() for each in places[offset]}
        symbols = sorted(each.name for alike in places.values() for each in alike if each.name not in refused)
        return Probed(
            symbols=tuple(symbols),
            missing=tuple(sorted(function.name for function in self._functions if function.name not in exported)),
            refused=refused,
            unknown=tuple(sorted(unknown_of(exported))),
            why_not=None if symbols else _why_none(exported, refused),
        )

    def _put_at_once(
        self, library: int, functions: dict[int, cudacalls.Function], rewritten: Rewritten
    ) -> dict[int, str]:
        """Why there is no probe, by place. The return first: an entry alone would never be finished."""
        path = f"/proc/self/fd/{library}".encode()
        refused = {offset: why for offset in functions if (why := rewritten.why(offset)) is not None}
        codes = {offset: function.code for offset, function in functions.items() if offset not in refused}
        links: list[int] = []
        try:
            if codes:
                links.append(open_uprobes(self._returned, path, codes, returns=True))
                links.append(open_uprobes(self._entered[0], path, codes, returns=False))
        except OSError as error:
            for link in links:
                os.close(link)
            return dict.fromkeys(functions, error.strerror or str(error))
        self._descriptors += links
        return refused

    def _put_each(self, library: int, functions: dict[int, cudacalls.Function], rewritten: Rewritten) -> dict[int, str]:
        """The same, one by one."""
        refused: dict[int, str] = {}
        for offset, function in functions.items():
            why = rewritten.why(offset)
            if why is not None:
                refused[offset] = why
                continue
            entered = self._entered[self._functions.index(function)]
            probes: list[int] = []
            try:
                probes.append(self._uprobes.attach(library, offset, self._returned, returns=True))
                probes.append(self._uprobes.attach(library, offset, entered))
            except OSError as error:
                for probe in probes:
                    os.close(probe)
                refused[offset] = error.strerror or str(error)
            else:
                self._probes += probes
        return refused


def open_cuda(
    session: Session, *, events_h_digest: str | None = None, limits: Limits = _LIMITS, wanted: Wanted = _CUDA
) -> CudaPrograms:
    """Compiles and loads, in a child that is gone when this returns; nothing is probed yet.

    Args:
        session: whose tree, settings, counters and records these use; must stay open as long.
        events_h_digest: `handover.digest_of` the header that the caller decodes by.
        limits: sizes of the maps.
        wanted: of CUDA.

    Raises:
        NoUprobes: the kernel has none.
        PermissionDenied: this process may not load BPF programs.
        LoaderFailed: at a named stage, with the reason in one line.
    """
    uprobes = Uprobes()
    report, descriptors = load(limits, wanted, session.transport, session.lent())
    if events_h_digest not in (None, report.digest):
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)
        raise LoaderFailed("handover", "bpf/events.h is not of this version of oomtrace: the installation is mixed")
    return CudaPrograms(report, descriptors, uprobes)


def unknown_of(exported: Iterable[str]) -> list[str]:
    """Names that look like allocation, and nobody here knows them."""
    known = {function.name for function in cudacalls.FUNCTIONS}
    return [name for name in exported if name not in known and _LIKE_ALLOCATION.fullmatch(name)]


def _why_none(exported: Mapping[str, int], refused: Mapping[str, str]) -> str:
    if refused:
        return next(iter(refused.values()))
    return "it exports none of the functions that are watched" if exported else "it is no library that can be read"


__all__ = ["MAX_LIBRARIES", "CudaPrograms", "NoUprobes", "Probed", "open_cuda", "unknown_of"]
