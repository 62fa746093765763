# SPDX-License-Identifier: Apache-2.0
"""What fuzzing begins with: the logs, recordings and paths that are there for other tests."""

from collections.abc import Iterator
from pathlib import Path

from tests import captured, explained, kernel_logs
from tests.unit.attribution.cgroup_shapes import SHAPES

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
"""`TARGET/NAME`: inputs that have broken something once, as small as they could be made."""
MOST_BYTES = 12_288
_RECORDINGS = 12


def seeds_of(target: str) -> Iterator[bytes]:
    """All of a target, the corpus first."""
    yield from corpus_of(target).values()
    if target == "kernel":
        yield from (case.raw[:MOST_BYTES] for case in kernel_logs.cases())
    elif target == "training":
        yield from (raw[:MOST_BYTES] for case in explained.cases() for _, kind, raw in case.texts() if kind != "kernel")
    elif target == "explain":
        yield from (given(case) for case in explained.cases())
        yield from (b"%% kernel\n" + case.raw[:MOST_BYTES] for case in kernel_logs.cases()[::4])
    elif target == "recording":
        yield from map(recording, captured.captures()[:: max(1, len(captured.captures()) // _RECORDINGS)])
    elif target == "cgroup":
        yield from (path.encode() for path in SHAPES)


def given(case: explained.Case) -> bytes:
    """The texts of a case in one, as `tests.fuzz.given` takes them apart."""
    return b"".join(b"%% " + kind.encode() + b"\n" + raw.rstrip(b"\n") + b"\n" for _, kind, raw in case.texts())


def recording(capture: captured.Capture) -> bytes:
    """The first lines of one, and the last ones."""
    lines = captured.unpacked(capture.folder / "recording.oomtrace.xz").splitlines(keepends=True)
    return b"".join([*lines[:20], *lines[20:][-20:]])


def corpus_of(target: str) -> dict[str, bytes]:
    """Committed inputs of a target, by name."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / target).glob("*")) if path.is_file()}
