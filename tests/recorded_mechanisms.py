# SPDX-License-Identifier: Apache-2.0
"""What real PyTorch jobs did, as it lies in tests/data/mechanisms; made by `scripts/mechanisms --keep DIR --capture`.

For rules that name a mechanism: what each recording truly shows, and what cannot be told from that.
"""

import functools
import lzma
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tracer.events import AnyEvent
from tracer.recording import RecordingReader
from tracer.repro import corpus
from tracer.repro.catalogue.mechanisms import SCENARIOS
from tracer.repro.scenario import Scenario, Truth

DATA = Path(__file__).parent / "data" / "mechanisms"


class Recorded(NamedTuple):
    """One run."""

    name: str
    """Of the mechanism, and `killed`, `fixed` or `control`."""
    scenario: Scenario

    @property
    def truth(self) -> Truth:
        return corpus.truth_of(self.scenario)

    def __str__(self) -> str:
        return self.name

    def events(self) -> tuple[AnyEvent, ...]:
        return _events(self.name)

    def report(self) -> str | None:
        """The kernel's own of the kill, with the table of tasks, as /dev/kmsg gave it."""
        path = DATA / f"{self.name}.kmsg.xz"
        return lzma.decompress(path.read_bytes()).decode() if path.exists() else None


def recorded() -> Iterator[Recorded]:
    """All of them."""
    for scenario in SCENARIOS:
        name = corpus.stem(scenario)
        if (DATA / f"{name}.oomtrace.xz").exists():
            yield Recorded(name, scenario)


@functools.lru_cache(maxsize=8)
def _events(name: str) -> tuple[AnyEvent, ...]:
    return unpacked(DATA / f"{name}.oomtrace.xz")


def unpacked(path: Path) -> tuple[AnyEvent, ...]:
    """The events of a recording that is kept packed."""
    data = lzma.decompress(path.read_bytes())
    fd = os.memfd_create(path.name)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    with RecordingReader(fd, path.name) as reader:
        return tuple(reader)
