# SPDX-License-Identifier: Apache-2.0
"""A tree that runs already is found whole, whatever it does between any two looks at it."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from tests.unit.pipeline.bench import Book, Inspector
from tests.unit.pipeline.stand_ins import Processes, sources
from tracer.attribution.tree import Tree
from tracer.events import (
    Attached,
    JobStarted,
    Losses,
    ProcessExited,
    ProcessForked,
    ProcessOrphaned,
    process_id,
)
from tracer.kernel.probes import Hook
from tracer.pipeline.finding import Finder
from tracer.pipeline.watch import Watch
from tracer.sources.procfs import Row
from tracer.units import TICK_NS

INIT, ROOT, TRACER = 1, 100, 50
PIDS = range(200, 260)
"""Few, so that they are used again."""


@dataclass
class Life:
    pid: int
    start_ns: int
    parent: "Life | None"
    alive: bool = True

    @property
    def id(self):
        return process_id(self.pid, self.start_ns)


class World:
    """A machine whose processes fork and end whenever somebody looks; and its kernel, with the tracer's hooks."""

    hooks = (Hook("raw_tracepoint:mark_victim", True, None, True),)
    start_to_armed_ns, transport = 7, "ring_buffer"
    pending = naming = False

    def __init__(self, seed, steps=300):
        self.chance, self.steps = random.Random(seed), steps
        self.now_ns = 1000 * TICK_NS
        self.init = Life(INIT, 0, None)
        self.root = Life(ROOT, 10 * TICK_NS, self.init)
        self.lives = {INIT: self.init, ROOT: self.root, TRACER: Life(TRACER, 11 * TICK_NS, self.root)}
        self.filter, self.ring, self.follows, self.lost = {}, [], False, 0
        self.ours, self.born = None, set()
        for _ in range(60):
            self.live()

    # What happens by itself.

    def live(self):
        self.now_ns += 3 * TICK_NS
        someone = self.chance.choice([life for life in self.lives.values() if life.pid != TRACER])
        if self.chance.random() < 0.5 and someone.pid not in (INIT, ROOT):
            self.end(someone)
        else:
            self.fork(someone)

    def happen(self):
        for _ in range(self.chance.randrange(4)):
            if self.steps:
                self.steps -= 1
                self.live()

    def fork(self, parent):
        free = [pid for pid in PIDS if pid not in self.lives]
        if not free:
            return
        child = Life(self.chance.choice(free), self.now_ns + 12_345, parent)
        self.lives[child.pid] = child
        tracked = self.tracked(parent)
        if self.ours is not None and parent.id in self.ours:
            self.ours[child.id] = parent.id
            self.born.add(child.id)
        if tracked:
            self.filter[child.pid] = child.start_ns
        if tracked or self.follows:
            self.ring.append(
                ProcessForked(
                    ts_ns=self.now_ns, cpu=0, start_ns=child.start_ns, parent_start_ns=parent.start_ns,
                    anon_rss_bytes=0, tgid=child.pid, parent_tgid=parent.pid, ns_tgid=child.pid, ns_level=0,
                    in_tree=int(tracked), comm="x",
                )
            )  # fmt: skip

    def end(self, life):
        tracked = self.tracked(life)
        if tracked:
            del self.filter[life.pid]
        children = [child for child in self.lives.values() if child.parent is life]
        if self.follows:
            self.ring += [
                ProcessOrphaned(
                    ts_ns=self.now_ns, cpu=0, start_ns=child.start_ns, parent_start_ns=life.start_ns, tgid=child.pid,
                    parent_tgid=life.pid, own_tgid=child.pid, own_parent_tgid=life.pid, comm="x",
                )
                for child in children
            ]  # fmt: skip
        if tracked or self.follows:
            self.ring.append(
                ProcessExited(
                    ts_ns=self.now_ns, cpu=0, start_ns=life.start_ns, tgid=life.pid, tid=life.pid, status=0,
                    oom_marked=0, parent_tgid=life.parent.pid, in_tree=int(tracked), comm="x",
                )
            )  # fmt: skip
        life.alive = False
        del self.lives[life.pid]
        for child in children:
            child.parent = self.init

    def tracked(self, life):
        return self.filter.get(life.pid, -1) // TICK_NS == life.start_ns // TICK_NS

    def is_below_the_root(self, life):
        while life is not None and life is not self.root:
            life = life.parent
        return life is self.root

    # What the tracer is shown, and does. Any of these takes time.

    def table(self):
        for pid in sorted({*self.lives, *PIDS}):
            self.happen()
            life = self.lives.get(pid)
            if life is not None:
                parent = life.parent.pid if life.parent else 0
                yield Row(pid, parent, life.start_ns // TICK_NS * TICK_NS, "x")

    def read(self):
        self.happen()
        taken, self.ring = self.ring[:7], self.ring[7:]
        return taken

    def track_running(self, tgid, start_ns):
        self.happen()
        self.filter.setdefault(tgid, start_ns)
        self.happen()

    def untrack(self, tgid, start_ns):
        if self.filter.get(tgid, -1) // TICK_NS == start_ns // TICK_NS:
            del self.filter[tgid]

    def follow_all(self, *, on):
        self.happen()
        self.follows = on
        if on and self.ours is None:
            below = [life for life in self.lives.values() if self.is_below_the_root(life) and life.pid != TRACER]
            self.ours = {life.id: life.parent.id for life in below}
        self.happen()

    def losses(self, now_ns):
        return Losses(ts_ns=now_ns, dropped={"process_forked": self.lost} if self.lost else {})

    def fileno(self):
        return 0


class InThisWorld(Processes):
    def __init__(self, world):
        super().__init__()
        self.table = world.table

    def seen(self, tgid):
        return None


class Bench:
    def __init__(self, world):
        self.world, self.book = world, Book()
        self.sources = sources(kernel=world, processes=InThisWorld(world))
        self.watch = Watch(self.sources, self.book, Inspector())
        self.finder = Finder(self.sources, self.book, self.watch, {TRACER})

    def find(self):
        root = self.world.root
        started = JobStarted(
            ts_ns=1, source="proc", tgid=root.pid, start_ns=root.start_ns // TICK_NS * TICK_NS, attached=True
        )
        self.finder.find([started])
        self.world.steps = 0
        self.watch.read_kernel()
        return [event for event in self.book.events if isinstance(event, Attached)][-1]


@given(st.integers(0, 1 << 32))
def test_whatever_the_tree_does_meanwhile_all_that_live_are_found_with_their_parents_and_put_into_the_filter(seed):
    world = World(seed)
    bench = Bench(world)
    attached = bench.find()

    alive = {life.id: world.ours[life.id] for life in world.lives.values() if life.id in world.ours}
    tree = Tree.of([event for event in bench.book.events if not isinstance(event, str)])
    assert attached.complete
    assert {member.id for member in bench.watch.members} == alive.keys()
    assert {process_id(*entry) for entry in world.filter.items()} == alive.keys()
    assert {identity: tree.members[identity].parent for identity in alive} == alive
    assert tree.members.keys() <= world.ours.keys()
    assert {identity for identity in alive if tree.members[identity].fork} == alive.keys() & world.born
    assert not world.follows


@given(st.integers(0, 1 << 32))
def test_afterwards_only_the_tree_is_recorded_and_every_fork_of_it(seed):
    world = World(seed)
    bench = Bench(world)
    bench.find()
    bench.book.events.clear()
    before = set(world.ours)
    for _ in range(100):
        world.live()
    bench.watch.read_kernel()

    forked = {process_id(e.tgid, e.start_ns) for e in bench.book.events if isinstance(e, ProcessForked)}
    assert forked == world.ours.keys() - before


@pytest.mark.parametrize("fault", ["lost", "full", "endless"])
def test_a_tree_that_may_not_be_whole_is_not_called_complete(fault, monkeypatch):
    world = World(1)
    bench = Bench(world)
    if fault == "lost":
        told = iter([0, 3])
        monkeypatch.setattr(
            world, "losses", lambda now_ns: Losses(ts_ns=now_ns, dropped={"process_forked": next(told, 3)})
        )
    elif fault == "full":
        monkeypatch.setattr(world, "track_running", lambda *_: (_ for _ in ()).throw(OSError(7, "too big")))
    else:
        monkeypatch.setattr("tracer.pipeline.finding.MAX_PASSES", 1)

    assert not bench.find().complete
    assert not world.follows


def test_without_bpf_the_tree_is_found_as_it_stands_and_not_called_complete():
    world = World(2, steps=0)
    bench = Bench(world)
    bench.finder._sources = sources(processes=InThisWorld(world))
    below = {life.id for life in world.lives.values() if world.is_below_the_root(life) and life.pid != TRACER}

    assert not bench.find().complete
    assert {member.id for member in bench.watch.members} == below


def test_a_root_that_is_gone_is_said_to_be_gone():
    world = World(3, steps=0)
    del world.lives[ROOT]
    bench = Bench(world)
    bench.find()

    assert len(bench.watch.members) == 0
    assert [type(event).__name__ for event in bench.book.events] == ["JobStarted", "ProcessGone", "Attached"]
