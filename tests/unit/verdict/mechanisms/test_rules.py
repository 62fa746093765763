# SPDX-License-Identifier: Apache-2.0
"""What single rules say and must not say, where recordings have no example."""

import msgspec
import pytest

from tests.unit.verdict.mechanisms.jobs import bare, of
from tracer.units import GIB, MIB
from tracer.verdict.mechanisms.choose import choose
from tracer.verdict.mechanisms.faults import Faults
from tracer.verdict.mechanisms.remedies import ADVICE, remedies
from tracer.verdict.mechanisms.rules import (
    kernel_memory,
    limit_too_tight,
    main_process_growth,
    model_duplication,
    one_off,
    pinned_memory,
    prefetch_queue,
    rank_asymmetry,
    shm_held,
    tmpfs_data,
    worker_cache,
)

replace = msgspec.structs.replace


def people(found, **changes):
    """The same evidence with other processes: a function of each by its role."""
    return replace(found, people=tuple(changes.get(one.role, lambda same: same)(one) for one in found.people))


def test_locked_pages_need_calls_that_were_watched():
    found = bare(of("pinned_memory"))
    locked = replace(found, pinned_bytes=300 * MIB, pinned_grown_bytes=200 * MIB)

    assert pinned_memory.judge(found) is None
    assert pinned_memory.judge(locked).strength == "possible"  # what the driver allocates is not charged here


def test_on_a_whole_machine_locked_pages_are_likely():
    found = bare(of("pinned_memory"))
    machine = replace(
        found, limited=replace(found.limited, machine=True), pinned_bytes=GIB, pinned_grown_bytes=200 * MIB
    )

    assert pinned_memory.judge(machine).strength == "likely"


def test_shared_memory_without_a_worker_is_no_queue():
    found = replace(of("prefetch_queue"), people=of("prefetch_queue").of_role("job"))

    assert prefetch_queue.judge(found) is None
    assert tmpfs_data.judge(found).name == "tmpfs_data"


def test_shared_memory_that_is_half_mapped_is_in_doubt():
    found = bare(of("prefetch_queue"))
    half = people(found, job=lambda one: replace(one, shmem_bytes=found.now.shmem_bytes // 2))

    assert prefetch_queue.judge(half).strength == "possible"
    assert shm_held.judge(half) is None
    assert "shm_held" in prefetch_queue.judge(half).also


def test_data_from_before_the_workers_is_no_queue():
    found = of("prefetch_queue")
    late = people(found, dataloader_worker=lambda one: replace(one, forked_ns=found.at_ns))

    assert prefetch_queue.judge(late) is None


def test_one_worker_of_two_is_named_and_all_are_counted():
    assert worker_cache.judge(of("worker_cache_one")).statement.startswith("worker 0 alone")
    assert worker_cache.judge(of("worker_cache")).statement.startswith("2 DataLoader workers")


def test_workers_that_grow_less_than_the_trainer_are_not_blamed():
    found = of("worker_cache")
    main = people(found, job=lambda one: replace(one, before_bytes=one.anon_bytes - 400 * MIB))

    assert worker_cache.judge(main) is None


def test_ranks_that_grow_alike_are_no_asymmetry_and_others_no_copies():
    assert rank_asymmetry.judge(of("dataset_in_ram")) is None
    assert model_duplication.judge(of("rank_asymmetry_itself")) is None


def test_ranks_that_grow_alike_in_training_are_in_doubt():
    found = of("dataset_in_ram")
    worker = replace(found.people[-1], role="dataloader_worker", before_bytes=found.people[-1].anon_bytes)
    training = replace(found, people=(*found.people, worker))

    assert model_duplication.judge(found).strength == "likely"
    assert model_duplication.judge(training).strength == "possible"


def test_a_single_rank_has_nothing_to_be_compared_with():
    found = of("rank_asymmetry_itself")
    alone = replace(found, people=tuple(one for one in found.people if one.rank != 1))

    assert rank_asymmetry.judge(alone) is None
    assert main_process_growth.judge(alone) is not None


def test_a_level_well_below_the_limit_is_no_limit_that_is_too_tight():
    assert limit_too_tight.judge(of("optimizer_state")) is None
    assert limit_too_tight.judge(of("checkpoint_spike")) is None
    assert one_off.judge(of("limit_too_tight")) is None


def test_a_neighbour_that_takes_the_rest_is_named_and_not_the_limit():
    found = of("limit_too_tight")
    beside = replace(found, alone=False, outside_bytes=found.grown_bytes, outside_grown_bytes=found.grown_bytes)

    assert limit_too_tight.judge(found).strength == "likely"
    assert limit_too_tight.judge(beside) is None


def test_what_grows_steadily_is_no_jump():
    assert one_off.judge(of("main_process_growth")) is None
    assert limit_too_tight.judge(of("main_process_growth")) is None


def test_kernel_memory_that_hardly_grew_is_not_named():
    assert kernel_memory.judge(of("worker_cache")) is None


def test_nothing_is_named_where_nothing_grew():
    found = of("main_process_growth")

    assert choose(replace(found, before=found.now)) is None


@pytest.mark.parametrize("name", ["worker_cache", "cow_refcount", "prefetch_queue", "shm_held", "model_duplication"])
def test_a_remedy_has_numbers_of_the_run(name):
    found = of(name)
    said = " ".join(f"{remedy.do} {remedy.why}" for remedy in remedies(choose(found), found))

    assert "MiB" in said
    assert "compare" not in said


def wrote(*, heirs, main):
    """The recording with so many faults on either side, in MiB."""
    found = Faults(heirs_bytes=heirs * MIB, main_least_bytes=main * MIB, main_most_bytes=main * MIB)
    return replace(of("cow_refcount"), faults=found)


def test_where_the_main_process_wrote_its_dataset_is_not_to_blame():
    found = wrote(heirs=20, main=500)
    said = " ".join(remedy.do for remedy in remedies(choose(found), found))

    assert "before the model" in said
    assert "numpy" not in said
    assert "num_workers" not in said


@pytest.mark.parametrize("found", [wrote(heirs=500, main=20), wrote(heirs=500, main=600), of("cow_refcount")])
def test_where_workers_wrote_or_nobody_is_known_to_have_it_is_what_they_read(found):
    said = " ".join(remedy.do for remedy in remedies(choose(found), found))

    assert "numpy array" in said
    assert "before the model" not in said


def test_the_queue_is_workers_times_prefetch_times_a_batch():
    found = of("prefetch_queue")

    assert "4 x 2 x 34." in remedies(choose(found), found)[0].why


def test_every_mechanism_that_a_rule_names_has_advice():
    names = {choose(of(name)).name for name in ("kernel_memory", "neighbour", "limit_too_tight", "tmpfs_data")}

    assert names <= set(ADVICE)
    assert all(callable(advice) for advice in ADVICE.values())
