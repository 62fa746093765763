# SPDX-License-Identifier: Apache-2.0
"""What rules say with the facts that came later (tests/data/sampling): files in /dev/shm, faults, locked pages."""

import functools
from pathlib import Path

import msgspec
import pytest

from tests.recorded_mechanisms import unpacked
from tests.unit.verdict.mechanisms.jobs import bare, evidence, of, without
from tests.unit.verdict.scenes import primary
from tracer.events import ProcessSample, ShmFilesSample
from tracer.units import MIB
from tracer.verdict.judge import judge
from tracer.verdict.mechanisms.choose import choose
from tracer.verdict.mechanisms.faults import Faults
from tracer.verdict.mechanisms.picture import draw
from tracer.verdict.mechanisms.rules import cow_refcount, pinned_memory, prefetch_queue, shm_held, tmpfs_data
from tracer.verdict.mechanisms.vitals import Vitals
from tracer.verdict.shm_owners import Owners

DATA = Path(__file__).parents[3] / "data" / "sampling"
NAMES = sorted(path.name.removesuffix("-killed.oomtrace.xz") for path in DATA.glob("*.oomtrace.xz"))
replace = msgspec.structs.replace


@functools.cache
def events(name):
    return unpacked(DATA / f"{name}-killed.oomtrace.xz")


@functools.cache
def sampled(name):
    return evidence(events(name))


def owners(**mib):
    """Of files at a look at the kill itself."""
    sizes = {f"{name}_bytes": size * MIB for name, size in mib.items()}
    files = {f"{name}_files": 1 for name in mib if name != "others"}
    return Owners(ago_ns=0, complete=True, taken_by="rank 0", makers=2, **sizes, **files)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_named_without_doubt_and_nothing_else_is_in_question_that_was_seen(name):
    named = choose(sampled(name))

    assert (named.name, named.strength) == (name, "likely")
    assert named.also == (("main_process_growth",) if name == "pinned_memory" else ())


@pytest.mark.parametrize("name", NAMES)
def test_the_same_without_these_facts_is_in_its_class(name):
    bare = [
        replace(event, minflt=None, locked_bytes=None, pinned_bytes=None, page_table_bytes=None, threads=None)
        if isinstance(event, ProcessSample)
        else event
        for event in without(events(name), ShmFilesSample)
    ]
    named = choose(evidence(bare))

    assert name in {named.name, *named.also, *(("pinned_memory",) if named.name == "main_process_growth" else ())}


def test_a_queue_is_told_by_batches_that_only_their_workers_have_open():
    text = " ".join(choose(sampled("prefetch_queue")).because)

    assert "open in the worker that made them alone" in text
    assert "made by 4 DataLoader workers" in text


def test_batches_that_are_kept_are_told_with_who_has_them_and_who_made_them():
    text = " ".join(choose(sampled("shm_held")).because)

    assert "files of /dev/shm open" in text
    assert "made by 2 DataLoader workers" in text


def test_data_in_a_tmpfs_is_told_by_files_with_names():
    assert "files with a name lay in /dev/shm" in choose(sampled("tmpfs_data")).because[0]


def test_the_picture_says_whose_the_shared_memory_was():
    assert "DataLoader workers" in draw(sampled("prefetch_queue")).statement
    assert "was open in" in draw(sampled("shm_held")).statement
    assert "was files with names in /dev/shm" in draw(sampled("tmpfs_data")).statement
    assert "/dev/shm" not in draw(sampled("cow_refcount")).statement


def test_the_page_says_who_has_shared_memory_that_grew():
    incident = primary(judge(events("shm_held")))

    assert incident.mechanism.name == "shm_held"
    assert "who wrote it was not seen" not in str(incident)


def test_files_with_names_of_their_own_are_no_queue():
    found = replace(of("prefetch_queue"), owners=owners(named=2000))

    assert prefetch_queue.judge(found) is None
    assert tmpfs_data.judge(found).also == ()


def test_what_a_killed_worker_left_behind_is_said_to_be_left():
    named = tmpfs_data.judge(replace(of("prefetch_queue"), owners=owners(left=2000)))

    assert "open in nobody" in named.because[0]
    assert named.also == ("shm_held",)


def test_few_files_beside_much_shared_memory_say_nothing_of_it():
    found = replace(of("prefetch_queue"), owners=owners(named=1))
    named = prefetch_queue.judge(found)

    assert (named.strength, named.also) == ("likely", ("tmpfs_data",))
    assert "another tmpfs" in named.against[0]


def test_half_mapped_is_a_queue_where_most_waits_in_workers_and_in_doubt_where_not():
    found = of("prefetch_queue")
    people = tuple(
        replace(one, shmem_bytes=found.now.shmem_bytes // 2) if one.role == "job" else one for one in found.people
    )
    waits, taken = (
        prefetch_queue.judge(replace(found, people=people, owners=owners(**{kind: 2000})))
        for kind in ("waiting", "taken")
    )

    assert (waits.strength, waits.also) == ("likely", ())
    assert (taken.strength, taken.also) == ("possible", ("shm_held",))


def test_a_list_that_is_not_complete_says_so():
    some = replace(owners(waiting=1), complete=False)

    assert "not all files" in shm_held.judge(replace(of("shm_held"), owners=some)).against[0]


def test_the_side_that_wrote_is_named_in_a_real_run():
    named = choose(sampled("cow_refcount"))

    assert "as they wrote to them" in named.statement
    assert "it is the former that wrote" in named.because[-1]
    assert named.decide == ()


@pytest.mark.parametrize(
    ("heirs", "least", "most", "statement", "because"),
    [
        (0, 900, 1000, "as the process that forked them wrote to them", "it is the latter that wrote"),
        (900, 500, 800, "as they wrote to them", "more likely the former"),
        (900, 1000, 2000, "one by one", None),
        (0, 0, 0, "one by one", None),
    ],
)
def test_the_side_is_named_by_faults_and_left_open_where_they_do_not_tell(heirs, least, most, statement, because):
    counts = Faults(heirs_bytes=heirs * MIB, main_least_bytes=least * MIB, main_most_bytes=most * MIB)
    named = cow_refcount.judge(replace(of("cow_refcount"), faults=counts))

    assert statement in named.statement
    assert ("wrote to them" in named.statement) == (because is not None)
    assert any((because or "page faults") in text for text in named.because) == (because is not None)
    assert bool(named.decide) == (because is None)


def test_locked_pages_are_told_by_the_process_itself():
    named = choose(sampled("pinned_memory"))

    assert "VmLck" in named.because[0]
    assert "locked" in draw(sampled("pinned_memory")).parts[0].what


@pytest.mark.parametrize(("share", "named"), [(1.0, True), (0.8, True), (0.7, False), (0.0, False)])
def test_growth_of_which_little_is_locked_is_not_pinned_memory(share, named):
    found = of("main_process_growth")
    locked = tuple(
        replace(one, vitals=Vitals(locked_bytes=one.anon_bytes, locked_grown_bytes=int(share * one.grown_bytes)))
        for one in found.people
    )

    assert (pinned_memory.judge(replace(found, people=locked)) is not None) == named


def test_what_was_locked_before_it_grew_is_not_what_grew():
    found = of("main_process_growth")
    always = tuple(replace(one, vitals=Vitals(locked_bytes=one.anon_bytes)) for one in found.people)

    assert pinned_memory.judge(replace(found, people=always)) is None


def test_without_these_facts_the_picture_is_as_it_was():
    assert "locked" not in str(draw(bare(of("pinned_memory"))))
    assert "/dev/shm" not in str(draw(bare(of("prefetch_queue"))))
