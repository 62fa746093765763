# SPDX-License-Identifier: Apache-2.0
"""A large job is attributed in a second: 2,000 processes, 100,000 events."""

import time

from tests.unit.attribution.jobs import ROOT, TRAIN, Job, torchrun
from tests.unit.verdict.scenes import start_of
from tests.waiting import SLOWER
from tracer.attribution.roles import assign
from tracer.attribution.tree import Tree
from tracer.events import AnyEvent, ProcessSample
from tracer.units import NS_PER_MS

RANKS, WORKERS, EVENTS = 40, 49, 100_000
MOST_S = 5.0
"""Generous: it takes about a quarter of a second, and a machine that runs tests may be crowded."""


def large_job() -> list[AnyEvent]:
    job = Job("torchrun")
    for rank in range(RANKS):
        job.start(1000 + rank, ROOT, TRAIN, torchrun(rank, RANKS))
        job.look(1000 + rank, environ=torchrun(rank, RANKS), caught=1 << 16)
    pids = [10_000 + 100 * rank + number for rank in range(RANKS) for number in range(WORKERS)]
    for pid in pids:
        job.fork(pid, 1000 + (pid - 10_000) // 100, "pt_data_worker")
    events = job.scene.events
    now_ns = job.scene.now_ns
    while len(events) < EVENTS:
        now_ns += NS_PER_MS
        pid = pids[len(events) % len(pids)]
        events.append(ProcessSample(ts_ns=now_ns, start_ns=start_of(pid), tgid=pid, comm="pt_data_worker"))
    return events


def test_a_tree_of_two_thousand_processes_and_a_hundred_thousand_events_is_attributed_at_once() -> None:
    events = large_job()
    began_s = time.process_time()
    tree = Tree.of(events)
    roles = assign(tree)
    took_s = time.process_time() - began_s

    assert (EVENTS, 1 + RANKS * (1 + WORKERS)) == (len(events), len(roles))
    assert dict.fromkeys(range(RANKS), WORKERS) == {
        rank: sum(1 for role in roles.values() if role.name == "dataloader_worker" and role.rank == rank)
        for rank in range(RANKS)
    }
    assert took_s < MOST_S * SLOWER, f"{took_s:.2f} s"
    print(f"attribution took {took_s:.3f} s")
