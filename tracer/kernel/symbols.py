# SPDX-License-Identifier: Apache-2.0
"""Kernel addresses to names: one pass over /proc/kallsyms for the addresses that are wanted.

The file has more than a hundred thousand lines (0.2 s), so nothing of it is kept: this is for the few
stacks of a kill, in a helper thread.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

KALLSYMS = "/proc/kallsyms"

_MAX_FUNCTION_BYTES = 1 << 20
"""An address further than this behind the nearest symbol is in none: kallsyms knows no sizes."""

_LEADING = ("bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_")
"""How a raw tracepoint gets to our program; the first may bear any name when the JIT hides its symbols."""


def resolve(addresses: Iterable[int], path: str = KALLSYMS) -> dict[int, str | None]:
    """Names of kernel return addresses: `name`, or `name [module]`; `None` where the kernel does not say.

    With kernel.kptr_restrict the kernel hides all of them: then every name is `None`.
    """
    wanted = sorted(set(addresses))
    # For each wanted address the nearest symbol at or below it, among those that are nearest to it.
    nearest: list[tuple[int, str]] = [(0, "")] * len(wanted)
    if wanted:
        try:
            with open(path, encoding="utf-8", errors="backslashreplace") as lines:
                for line in lines:
                    _consider(line, wanted, nearest)
        except OSError:
            return dict.fromkeys(wanted)
    names: dict[int, str | None] = {}
    best = (0, "")
    for address, found in zip(wanted, nearest, strict=True):
        best = max(best, found)
        start, name = best
        names[address] = name if start > 0 and address - start < _MAX_FUNCTION_BYTES else None
    return names


def _consider(line: str, wanted: Sequence[int], nearest: list[tuple[int, str]]) -> None:
    address_text, kind, name = line.split(None, 2)
    address = int(address_text, 16)
    # A return address lies behind its call, which may be a function's last instruction: so the symbol
    # must start below it. That also holds for the innermost frame, which is an instruction pointer.
    index = bisect_left(wanted, address + 1)
    if index < len(wanted) and address > nearest[index][0] and kind in "tTwW":
        nearest[index] = (address, " ".join(name.split()))


def without_tracing(frames: Sequence[str | None]) -> tuple[str | None, ...]:
    """The stack without the frames at its inner end that are there only because it was traced."""
    for index in reversed(range(min(len(frames), 6))):
        if (frames[index] or "").startswith(_LEADING):
            return tuple(frames[index + 1 :])
    return tuple(frames)
