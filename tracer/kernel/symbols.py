# SPDX-License-Identifier: Apache-2.0
"""Kernel addresses to names: one pass over /proc/kallsyms for the addresses that are wanted.

The file has more than a hundred thousand lines, so nothing of it is kept: this is for the few
stacks of a kill, in a helper thread.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import itemgetter

KALLSYMS = "/proc/kallsyms"

_BLOCK_BYTES = 1 << 17
"""So much of it is looked at in one step."""

_MAX_FUNCTION_BYTES = 1 << 20
"""An address further than this behind the nearest symbol is in none: kallsyms knows no sizes."""

_LEADING = ("bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_")
"""How a raw tracepoint gets to our program; the first may bear any name when the JIT hides its symbols."""


def resolve(addresses: Iterable[int], path: str = KALLSYMS) -> dict[int, str | None]:
    """Names of kernel return addresses: `name`, or `name [module]`; `None` where the kernel does not say.

    With kernel.kptr_restrict the kernel hides all of them: then every name is `None`.
    """
    wanted = sorted(set(addresses))
    nearest: list[tuple[int, str]] = [(0, "")] * len(wanted)
    if wanted:
        try:
            with open(path, "rb") as file:
                while lines := file.readlines(_BLOCK_BYTES):
                    _consider(lines, wanted, nearest)
        except OSError:
            return dict.fromkeys(wanted)
    return {
        address: name if start > 0 and address - start < _MAX_FUNCTION_BYTES else None
        for address, (start, name) in zip(wanted, nearest, strict=True)
    }


def why_hidden(path: str = KALLSYMS) -> str | None:
    """Why `resolve` will find no names; `None`: it will find some."""
    try:
        with open(path, "rb") as file:
            # The first ones may stand at 0 by right: places within each CPU's own data.
            functions = [line for line in file.readlines(_BLOCK_BYTES) if line.split(b" ", 2)[1:2] == [b"T"]]
    except OSError as error:
        return f"{path}: {error.strerror}"
    if any(line.split(b" ", 1)[0].strip(b"0") for line in functions):
        return None
    return "kernel addresses are hidden; needs CAP_SYSLOG, and kernel.kptr_restrict below 2"


def _consider(lines: Sequence[bytes], wanted: Sequence[int], nearest: list[tuple[int, str]]) -> None:
    """Take what is nearer from these lines. On a slow machine a step of Python for each would take seconds."""
    # Addresses have one width and so sort as text, in which order most of the file is already.
    digits = lines[0].index(b" ")
    functions = sorted((line for line in lines if line[digits + 1] in b"tTwW"), key=itemgetter(slice(digits)))
    starts = [line[:digits] for line in functions]
    for index, address in enumerate(wanted):
        # A return address lies behind its call, which may be a function's last instruction: so the symbol
        # must start below it. That also holds for the innermost frame, which is an instruction pointer.
        place = bisect_left(starts, b"%0*x" % (digits, address))
        if place and (start := int(starts[place - 1], 16)) > nearest[index][0]:
            # Of several names for one address the first.
            name = functions[bisect_left(starts, starts[place - 1])].split(None, 2)[2]
            nearest[index] = (start, b" ".join(name.split()).decode("utf-8", "backslashreplace"))


def without_tracing(frames: Sequence[str | None]) -> tuple[str | None, ...]:
    """The stack without the frames at its inner end that are there only because it was traced."""
    for index in reversed(range(min(len(frames), 6))):
        if (frames[index] or "").startswith(_LEADING):
            return tuple(frames[index + 1 :])
    return tuple(frames)
