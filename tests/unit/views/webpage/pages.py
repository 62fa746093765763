# SPDX-License-Identifier: Apache-2.0
"""Pages to test: from scenes by hand and from what real kernels did; and what a page is made of."""

from collections.abc import Iterator
from typing import Any

import html5lib

from tests.captured import captures, recording_of
from tests.recorded_mechanisms import recorded
from tests.unit.verdict.dossier.test_chart import dossier_of
from tests.unit.verdict.scenes import RANK, WORKERS, Scene, start_of
from tracer.events import AnyEvent, CgroupSample
from tracer.units import MIB, NS_PER_S
from tracer.views import webpage


def rendered(events: list[AnyEvent] | tuple[AnyEvent, ...]) -> str:
    return webpage.render(dossier_of(events))


def killed(comm: str = "pt_data_worker", line: str = "Killed process") -> list[AnyEvent]:
    """A worker grows and is killed; its name and a line of the kernel's log are as given."""
    scene = Scene()
    scene.job()
    for step in range(6):
        scene.pass_time(NS_PER_S)
        for pid in (RANK, *WORKERS):
            scene.sample(pid, 50 + 60 * step if pid == WORKERS[2] else 50)
        look = CgroupSample(ts_ns=scene.now_ns, source="cgroup", path="/run-7f3", cgroup_id=77,
                            usage_bytes=(200 + 60 * step) * MIB, limit_bytes=512 * MIB)  # fmt: skip
        scene.add(look)
    scene.kill(comm=comm)
    scene.log_decision(WORKERS[2])
    scene.log_kill(WORKERS[2], text=line)
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8, comm=comm)
    return scene.finish(1 << 8)


def many_processes(count: int) -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    for pid in range(50_000, 50_000 + count):
        scene.fork(pid, RANK)
        scene.seen(pid, RANK, "python3", {}, cmdline=("python3", "x" * 300))
    for step in range(4):
        scene.pass_time(NS_PER_S)
        for pid in range(50_000, 50_000 + count):
            scene.sample(pid, 51 + step)
    for pid in range(50_000, 50_000 + count, 10):
        scene.kill(pid)
        scene.pass_time(3 * NS_PER_S)
    return scene.finish(1 << 8)


def clean() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    scene.grow(to_mib=60)
    return scene.finish(0)


def cut_off() -> list[AnyEvent]:
    """No end, and nothing happened up to there."""
    scene = Scene()
    scene.job()
    return scene.events


def by_hand() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    scene.signal(RANK, 9, sender_tgid=7, sender_tid=7, sender_start_ns=start_of(7), sender_comm="slurmstepd")
    scene.exit(RANK, 9)
    return scene.finish(1 << 8)


def real() -> Iterator[tuple[str, Any]]:
    """One of each kind that was captured."""
    for capture in captures():
        if capture.kernel == "6.12":
            yield str(capture), lambda capture=capture: recording_of(capture)
    for one in recorded():
        yield str(one), one.events


def parsed(page: str):
    """As a browser's parser reads it; a single error of the markup is one of the test."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def text_of(element) -> str:
    return "".join(element.itertext())
