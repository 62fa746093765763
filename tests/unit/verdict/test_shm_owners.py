# SPDX-License-Identifier: Apache-2.0
"""Whose the files in /dev/shm were: of the job alone, each byte once, and only by a look from before the kill."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import RANK, WORKERS, Scene
from tracer.events import ShmFiles, ShmFilesSample
from tracer.units import MIB, NS_PER_S
from tracer.verdict.growth import together
from tracer.verdict.shm_owners import BEGIN_NS, OLDEST_NS, Owners, grown_words, owners
from tracer.verdict.story import Story

ONE, TWO = WORKERS[:2]
OTHER_JOBS = 3086


def torch(creator: int, *holders: int, mib: int = 24, **more: Any) -> ShmFiles:
    return ShmFiles(
        kind="torch", creator=creator, holders=tuple(sorted(holders)), files=1, size_bytes=mib * MIB, **more
    )


def named(mib: int, *holders: int, kind: Any = "other", **more: Any) -> ShmFiles:
    return ShmFiles(kind=kind, holders=holders, named=True, files=1, size_bytes=mib * MIB, **more)


class Look:
    """A job whose /dev/shm was looked at."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.scene.job()

    def see(self, *groups: ShmFiles, after_ns: int = NS_PER_S, **more: Any) -> "Look":
        self.scene.pass_time(after_ns)
        self.scene.add(ShmFilesSample(ts_ns=self.scene.now_ns, source="proc", tgid=RANK, groups=groups, **more))
        return self

    def found(self, after_ns: int = 0) -> Owners | None:
        return owners(Story(self.scene.events), self.scene.now_ns + after_ns)


def seen(*groups: ShmFiles, **more: Any) -> Owners:
    found = Look().see(*groups, after_ns=BEGIN_NS + NS_PER_S, **more).found()
    assert found is not None
    return found


def mib(found: Owners) -> tuple[int, ...]:
    parts = (found.waiting_bytes, found.taken_bytes, found.named_bytes, found.left_bytes, found.others_bytes)
    return tuple(size // MIB for size in parts)


@pytest.mark.parametrize(
    ("group", "parts"),
    [
        (torch(ONE, ONE), (24, 0, 0, 0, 0)),  # waits for whoever takes it
        (torch(ONE, ONE, named=True), (24, 0, 0, 0, 0)),  # is being made
        (torch(ONE, RANK), (0, 24, 0, 0, 0)),
        (torch(ONE, ONE, RANK), (0, 24, 0, 0, 0)),
        (torch(RANK, RANK), (0, 24, 0, 0, 0)),  # share_memory_()
        (torch(ONE, TWO), (0, 0, 0, 0, 24)),
        (torch(ONE, ONE, TWO), (0, 0, 0, 0, 24)),
        (torch(ONE, ONE, more_holders=1), (0, 0, 0, 0, 24)),
        (torch(OTHER_JOBS, ONE), (0, 0, 0, 0, 24)),
        (torch(ONE, named=True), (0, 0, 0, 24, 0)),  # left behind
        (torch(OTHER_JOBS, named=True), (0, 0, 0, 0, 0)),  # another job's
        (named(24), (0, 0, 24, 0, 0)),
        (named(24, RANK), (0, 0, 24, 0, 0)),
        (named(24, kind="python"), (0, 0, 24, 0, 0)),
    ],
)
def test_what_a_file_is_by_who_made_it_and_who_has_it_open(group: ShmFiles, parts: tuple[int, ...]) -> None:
    found = seen(group)

    assert parts == mib(found)
    assert sum(parts) == found.total_bytes // MIB


def test_who_made_and_who_has_most_is_named() -> None:
    found = seen(torch(ONE, RANK), torch(TWO, RANK, mib=100), torch(TWO, TWO))

    assert (found.taken_by, found.makers, found.worker_made) == ("rank 0", 2, True)
    assert (found.taken_files, found.waiting_files) == (2, 1)
    assert found.words == "124 MiB of 148 MiB was open in rank 0"


def test_what_the_trainer_made_itself_is_not_the_workers() -> None:
    assert not seen(torch(RANK, RANK, mib=100), torch(ONE, RANK)).worker_made


def test_nobody_has_most_where_two_have_alike() -> None:
    assert seen(torch(ONE, RANK), torch(TWO, TWO), named(20)).words is None


def test_what_lay_there_before_the_job_is_none_of_it() -> None:
    look = Look().see(named(500), torch(ONE, named=True, mib=8))
    look.see(named(600), torch(ONE, named=True, mib=8), torch(ONE, ONE))
    found = look.found()

    assert found is not None
    assert mib(found) == (24, 0, 100, 0, 0)
    assert found.named_files == 0


def test_what_was_open_in_the_job_from_the_beginning_is_its_own() -> None:
    found = Look().see(torch(RANK, RANK)).found()

    assert found is not None
    assert mib(found) == (0, 24, 0, 0, 0)


def test_a_look_from_after_the_kill_or_from_long_before_says_nothing() -> None:
    look = Look().see(torch(ONE, ONE))

    assert look.found(-1) is None
    assert look.found(OLDEST_NS) is not None
    assert look.found(OLDEST_NS + 1) is None
    assert Look().found() is None


def test_what_is_beyond_the_list_is_counted_among_the_rest() -> None:
    found = seen(torch(ONE, ONE), others=3, others_bytes=50 * MIB, complete=False)

    assert (mib(found)[-1], found.words, found.complete) == (50, None, False)


def test_a_pid_that_the_job_gave_to_another_later_is_that_of_who_had_it_last() -> None:
    look = Look()
    look.scene.exit(ONE, 0)
    look.see(torch(ONE, named=True), after_ns=BEGIN_NS + NS_PER_S)
    found = look.found()

    assert found is not None
    assert mib(found) == (0, 0, 0, 24, 0)


def test_the_sentence_about_shared_memory_that_grew_names_who_has_it() -> None:
    look = Look().see(torch(ONE, ONE), torch(TWO, TWO))
    story, at_ns = Story(look.scene.events), look.scene.now_ns + NS_PER_S

    assert grown_words(story, at_ns) == "1.0 s before the kill, 48 MiB of 48 MiB waited in 2 DataLoader workers"
    text = together(story, [], 48 * MIB, grown_words(story, at_ns))
    assert text is not None
    assert text.endswith("waited in 2 DataLoader workers")
    assert (together(story, [], 48 * MIB) or "").endswith("who wrote it was not seen")
