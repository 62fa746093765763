# SPDX-License-Identifier: Apache-2.0
"""What ran out: whose limit it was, from counters, stack and log, and when that stays open."""

import msgspec
import pytest

from tests.unit.verdict.scenes import LAUNCHER, WORKERS, Scene, changed, primary, without, worker_killed
from tracer.events import Header, JobStarted, LoggedUsage, OomLevel
from tracer.units import MIB, NO_LIMIT_BYTES, NS_PER_S
from tracer.verdict.judge import judge


@pytest.mark.parametrize(
    ("frames", "cause"),
    [
        (
            ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory", "moom_callback"),
            "operator_oom",
        ),
        (
            ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory", "__alloc_pages_slowpath"),
            "host_oom_unknown_scope",
        ),
        (
            ("mark_oom_victim", "__oom_kill_process.cold", "out_of_memory", "mem_cgroup_out_of_memory"),
            "host_oom_cgroup",
        ),
    ],
)
def test_the_stack_tells_whose_limit_ran_out(frames: tuple[str, ...], cause: str) -> None:
    scene = Scene()
    scene.job()
    scene.kill(frames=frames)

    assert primary(judge(scene.finish())).cause == cause


def test_an_operators_kill_was_on_nobodys_allocation() -> None:
    frames = ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory", "moom_callback")
    scene = Scene()
    scene.job()
    scene.kill(trigger=WORKERS[0], frames=frames)

    incident = primary(judge(scene.finish()))
    assert incident.trigger is None
    assert "an operator's request" in incident.proof[0].statement
    assert "allocating" not in incident.proof[0].statement


def test_a_machine_wide_kill_is_proved_only_where_the_constraint_was_seen() -> None:
    frames = ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory", "__alloc_pages_slowpath")
    scene = Scene()
    scene.job()
    scene.kill(frames=frames)
    scene.log_decision(WORKERS[2], oom_memcg=None)
    events = scene.finish()

    incident = primary(judge(events))
    assert ("host_oom_global", "proved") == (incident.cause, incident.strength)
    untrusted = [msgspec.structs.replace(e, trusted=False) if hasattr(e, "trusted") else e for e in events]
    incident = primary(judge(untrusted))
    assert ("host_oom_unknown_scope", "likely") == (incident.cause, incident.strength)


def test_the_machines_memory_is_that_of_before_the_kill() -> None:
    frames = ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory", "__alloc_pages_slowpath")
    scene = Scene()
    scene.job()
    scene.pressure(9 * MIB)
    scene.pass_time(2 * NS_PER_S)
    scene.kill(frames=frames)
    scene.log_decision(WORKERS[2], oom_memcg=None)
    scene.pressure(900 * MIB)

    incident = primary(judge(scene.finish()))
    assert incident.limit is not None
    assert (incident.limit.mem_available_bytes, incident.limit.swap_free_bytes) == (9 * MIB, 0)
    assert incident.proof[1].statement == (
        "the whole machine was out of memory; 2.0 s before, 9 MiB of 1 GiB were available, swap 0 B free of 64 MiB"
    )


def test_nested_limits_are_told_apart_by_their_own_counts() -> None:
    scene = Scene()
    scene.job()
    scene.oom_signal(WORKERS[0], WORKERS[0])
    mark = scene.mark(WORKERS[0], WORKERS[0])
    scene.levels(mark, owners=(0, 1), oom=(0, 1, 0))
    scene.stack(mark)
    scene.exit(WORKERS[0], 9, oom_marked=1)

    limit = primary(judge(scene.finish())).limit
    assert limit is not None
    assert limit.cgroups == ("/run-7f3",)


def test_nested_equal_limits_that_cannot_be_told_apart_are_both_named() -> None:
    scene = Scene()
    scene.begin(own_cgroup=False)
    scene.oom_signal(LAUNCHER, LAUNCHER)
    mark = scene.mark(LAUNCHER, LAUNCHER)
    scene.levels(mark, owners=(0, 1), oom=(4, 9, 0))
    scene.stack(mark)
    scene.exit(LAUNCHER, 9, oom_marked=1)
    events = scene.finish(status=9)

    limit = primary(judge(events)).limit
    assert limit is not None
    assert limit.cgroups == ("/run-7f3/worker", "/run-7f3")


def test_a_count_that_rose_since_a_sample_names_the_owner() -> None:
    scene = Scene()
    scene.begin(own_cgroup=False)
    scene.cgroup_sample(77, "/run-7f3", oom_local=9)
    scene.cgroup_sample(78, "/run-7f3/worker", oom_local=3)
    scene.pass_time(NS_PER_S)
    scene.oom_signal(LAUNCHER, LAUNCHER)
    mark = scene.mark(LAUNCHER, LAUNCHER)
    scene.levels(mark, owners=(0, 1), oom=(4, 9, 0))
    scene.stack(mark)
    scene.exit(LAUNCHER, 9, oom_marked=1)

    limit = primary(judge(scene.finish(status=9))).limit
    assert limit is not None
    assert limit.cgroups == ("/run-7f3/worker",)


def test_missing_levels_leave_link_two_open() -> None:
    incident = primary(judge(without(worker_killed(), OomLevel)))

    # The log still names the owner; what it was at was not seen.
    assert ("not_observed", "likely") == (incident.proof[1].status, incident.strength)


@pytest.mark.parametrize("version", [1, 2])
def test_memory_and_swap_together_are_a_limit_on_v1_alone(version: int) -> None:
    scene = Scene()
    scene.begin()
    scene.oom_signal(LAUNCHER, LAUNCHER)
    mark = scene.mark(LAUNCHER, LAUNCHER)
    scene.levels(mark, owners=())
    scene.stack(mark)
    scene.exit(LAUNCHER, 9, oom_marked=1)
    events = changed(scene.finish(status=9), Header, cgroup_version=version)
    events = changed(changed(events, JobStarted, own_cgroup=False), OomLevel, events_local_oom=1)
    full = {"swap_usage_bytes": 512 * MIB, "swap_limit_bytes": 512 * MIB}
    own = [e for e in events if isinstance(e, OomLevel) and e.depth == 0]
    events = [msgspec.structs.replace(e, **full) if e in own else e for e in events]

    limit = primary(judge(events)).limit
    assert limit is not None
    assert limit.cgroups == (("/run-7f3/worker",) if version == 1 else ())
    assert limit.chain[0].swap_usage_bytes == (212 * MIB if version == 1 else 512 * MIB)
    assert limit.chain[0].memsw_limit_bytes == (512 * MIB if version == 1 else None)


def test_without_bpf_the_limit_is_the_one_that_the_kernels_log_tells() -> None:
    scene = Scene()
    scene.begin(hooks=())
    usage = {"counter": "memory", "usage_bytes": 512 * MIB, "limit_bytes": 512 * MIB}
    scene.add(LoggedUsage(ts_ns=scene.now_ns, source="kmsg", trusted=True, **usage))  # type: ignore[arg-type]
    scene.log_decision(LAUNCHER)
    scene.log_kill(LAUNCHER)
    incident = primary(judge(scene.finish(status=9)))

    assert incident.limit is not None
    assert ("/run-7f3", 512 * MIB, 512 * MIB) == (
        incident.limit.cgroup,
        incident.limit.usage_bytes,
        incident.limit.limit_bytes,
    )
    assert ("host_oom_cgroup", "likely") == (incident.cause, incident.strength)


@pytest.mark.parametrize(
    ("swap_limit_bytes", "told"), [(32 * MIB, True), (0, False), (NO_LIMIT_BYTES, False), (None, False)]
)
def test_a_limit_on_swap_is_told_beside_that_on_memory(swap_limit_bytes: int | None, told: bool) -> None:
    events = changed(worker_killed(), Header, cgroup_version=2)
    events = changed(events, OomLevel, swap_usage_bytes=31 * MIB, swap_limit_bytes=swap_limit_bytes)

    statement = primary(judge(events)).proof[1].statement
    assert statement.startswith(f"limit of /run-7f3: 512 MiB of 512 MiB{', swap 31 MiB of 32 MiB' * told}; ")
