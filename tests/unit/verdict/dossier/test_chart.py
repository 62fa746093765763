# SPDX-License-Identifier: Apache-2.0
"""Memory over time as layers: they add up, nothing is counted twice, and no peak is lost."""

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.captured import captures, recording_of
from tests.unit.verdict.scenes import RANK, WORKERS, Scene
from tracer.events import CgroupSample, PressureSample, ReclaimSample, TrainingLine
from tracer.units import GIB, MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.dossier import chart, layers
from tracer.verdict.dossier.compile import compile_dossier
from tracer.verdict.dossier.model import Dossier
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge_case
from tracer.verdict.story import Story

PATH = "/run-7f3"
CHARTED = [one for one in captures() if one.name in {"worker-cache", "copy-on-write", "global-swap", "group-kill"}]


def dossier_of(events) -> Dossier:
    case = Case(Story(events))
    return compile_dossier(case, judge_case(case))


def look(scene: Scene, usage_mib: int, **more) -> None:
    values = {"usage_bytes": usage_mib * MIB, "limit_bytes": 512 * MIB, **more}
    scene.add(CgroupSample(ts_ns=scene.now_ns, source="cgroup", path=PATH, cgroup_id=77, **values))


def filled(*, seconds: int = 6) -> Scene:
    """A worker grows to 400 MiB in a cgroup that is looked at as well."""
    scene = Scene()
    scene.job()
    for step in range(seconds):
        scene.pass_time(NS_PER_S)
        for pid in WORKERS:
            scene.sample(pid, 50 + 350 * step // seconds if pid == WORKERS[2] else 50)
        scene.sample(RANK, 50)
        look(scene, 120 + 350 * step // seconds)
    return scene


def layer_of(one, pid: int):
    return next(layer for layer in one.layers if layer.pids == (pid,))


@pytest.mark.parametrize("capture", CHARTED, ids=str)
def test_layers_of_real_kills_add_up_and_none_is_below_zero(capture):
    for one in dossier_of(recording_of(capture)).charts:
        sums = [sum(step) for step in zip(*(layer.values_bytes for layer in one.layers), strict=True)]

        assert sums == list(one.totals_bytes)
        assert min(min(layer.values_bytes) for layer in one.layers) >= 0
        assert list(one.moments_ns) == sorted(set(one.moments_ns))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900), st.integers(0, 900), st.integers(1, 3000)), max_size=30)
)
def test_whatever_was_sampled_layers_add_up(samples):
    scene = Scene()
    scene.job()
    for place, own, usage, wait_ms in samples:
        scene.pass_time(wait_ms * NS_PER_MS)
        scene.sample((RANK, *WORKERS)[place % 5], own)
        look(scene, usage, shmem_bytes=own * MIB // 3, anon_bytes=usage * MIB // 2)
    scene.kill()
    for one in dossier_of(scene.finish(1 << 8)).charts:
        for place, total in enumerate(one.totals_bytes):
            values = [layer.values_bytes[place] for layer in one.layers]
            assert min(values) >= 0
            assert sum(values) == total


def test_where_the_whole_was_read_that_is_the_total():
    scene = filled()
    scene.kill()

    one = dossier_of(scene.finish(1 << 8)).charts[0]

    assert one.limit_bytes == 512 * MIB
    assert one.what == f"cgroup {PATH}"
    assert max(one.totals_bytes) == 512 * MIB


def test_who_grew_stands_on_the_ground():
    scene = filled()
    scene.kill()

    one = dossier_of(scene.finish(1 << 8)).charts[0]

    assert one.layers[0].pids == (WORKERS[2],)
    assert {"victim", "culprit"} <= set(one.layers[0].parts)


def test_what_a_fork_shares_is_counted_once():
    scene = Scene()
    scene.job()  # each worker began with 50 MiB of its rank
    for _ in range(3):
        scene.pass_time(NS_PER_S)
        for pid in (RANK, *WORKERS):
            scene.sample(pid, 50)

    one = dossier_of(scene.finish(0)).charts[0]

    assert max(one.totals_bytes) == 50 * MIB


def test_a_process_has_nothing_before_its_fork_and_after_its_end():
    scene = filled()
    killed_ns = scene.now_ns
    scene.kill()
    scene.pass_time(NS_PER_S)
    look(scene, 100)

    one = dossier_of(scene.finish(1 << 8)).charts[0]
    values = dict(zip(one.moments_ns, layer_of(one, WORKERS[2]).values_bytes, strict=True))

    assert all(value == 0 for ns, value in values.items() if ns > killed_ns + 5 * NS_PER_MS)
    assert values[killed_ns] > 300 * MIB


def test_what_the_kernel_counted_at_the_kill_is_what_the_victim_had():
    scene = filled()
    killed_ns = scene.now_ns
    scene.kill(anon_rss_bytes=420 * MIB)

    one = dossier_of(scene.finish(1 << 8)).charts[0]
    at = one.moments_ns.index(killed_ns)

    assert abs(layer_of(one, WORKERS[2]).values_bytes[at] - 370 * MIB) < 1 * MIB  # 50 MiB are its rank's


def test_of_very_many_looks_the_highest_is_drawn():
    scene = Scene()
    scene.job()
    for step in range(3000):
        scene.pass_time(10 * NS_PER_MS)
        look(scene, 400 if step == 1234 else 100)

    one = dossier_of(scene.finish(0)).charts[0]

    assert max(one.totals_bytes) == 400 * MIB
    assert len(one.moments_ns) <= chart.STEPS + 4


def test_a_long_recording_has_a_chart_of_its_end_with_the_same_layers():
    scene = Scene()
    scene.job()
    for _ in range(90):
        scene.pass_time(NS_PER_S)
        scene.sample(RANK, 50)
        look(scene, 100)
    for step in range(6):
        scene.pass_time(500 * NS_PER_MS)
        scene.sample(WORKERS[2], 60 + 60 * step)
        look(scene, 150 + 60 * step)
    scene.kill()

    whole, end = dossier_of(scene.finish(1 << 8)).charts

    assert (whole.extent, end.extent) == ("whole", "end")
    assert whole.from_ns < end.from_ns < end.to_ns <= whole.to_ns
    named = [layer.pids for layer in whole.layers if layer.kind == "process"]
    assert [layer.pids for layer in end.layers if layer.kind == "process"] == named


def test_of_very_many_processes_the_others_stand_together():
    scene = Scene()
    scene.job()
    for pid in range(50_000, 50_400):
        scene.fork(pid, RANK)
        scene.seen(pid, RANK, "pt_data_worker", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})
        scene.sample(pid, 60)
    scene.pass_time(NS_PER_S)
    for pid in range(50_000, 50_400):
        scene.sample(pid, 61)

    one = dossier_of(scene.finish(0)).charts[0]

    assert len(one.layers) <= layers.MOST_LAYERS + layers.MOST_GROUPS + 4
    assert any(layer.kind == "group" and len(layer.pids) >= 390 for layer in one.layers)


def test_of_a_limit_that_was_not_looked_at_there_is_no_total():
    scene = filled()
    scene.items = [replace_path(event) if isinstance(event, CgroupSample) else event for event in scene.items]
    scene.kill()

    one = dossier_of(scene.finish(1 << 8)).charts[0]

    assert one.what == "the job's processes"
    assert one.limit_bytes is None
    assert not any(layer.kind == "rest" for layer in one.layers)


def replace_path(event: CgroupSample) -> CgroupSample:
    return msgspec.structs.replace(event, path="/elsewhere", cgroup_id=5)


def test_processes_that_come_to_more_than_the_whole_are_said_to():
    scene = filled()
    for pid in WORKERS:
        scene.sample(pid, 700)
    for step in range(6):
        scene.pass_time(NS_PER_S)
        look(scene, 300 + step)

    one = dossier_of(scene.finish(0)).charts[0]

    assert one.beyond_bytes > 2 * GIB
    assert one.layers[-1].kind == "rest"
    assert min(one.layers[-1].values_bytes) == 0


def test_a_machine_that_ran_out_is_charted_as_a_machine():
    capture = next(one for one in captures() if one.name == "global-swap")

    one = dossier_of(recording_of(capture)).charts[0]

    assert one.what == "the machine"
    assert one.limit_bytes is not None
    assert one.limit_bytes < 2 * GIB


def test_nothing_is_charted_where_nothing_was_sampled():
    scene = Scene()
    scene.begin()

    assert dossier_of(scene.events).charts == ()


def test_epochs_stand_where_they_were_reached_and_of_very_many_every_so_many():
    scene = filled()
    first_ns = scene.now_ns
    for epoch in range(1, 101):
        scene.pass_time(10 * NS_PER_MS)
        line = TrainingLine(
            ts_ns=scene.now_ns,
            source="job",
            about="progress",
            text=f"epoch {epoch}",
            stream="stdout",
            numbers={"epoch": epoch},
        )
        scene.add(line)
    scene.kill()

    epochs = dossier_of(scene.finish(1 << 8)).charts[0].epochs

    assert epochs[0].at_ns == first_ns + 10 * NS_PER_MS
    assert epochs[0].text == "epoch 1"
    assert 20 <= len(epochs) <= chart.MOST_EPOCHS


def test_stalls_and_pressure_are_shares_of_the_time():
    scene = filled()
    for step, stall_ms in enumerate((0, 0, 500, 500)):
        scene.pass_time(NS_PER_S)
        scene.add(
            ReclaimSample(ts_ns=scene.now_ns, cgroup_id=77, memcg_runs=step, memcg_stall_ns=stall_ms * NS_PER_MS,
                          direct_runs=0, direct_stall_ns=0)
        )  # fmt: skip
        scene.add(PressureSample(ts_ns=scene.now_ns, source="pressure", psi_some_total_us=step * 1_500_000))
    scene.kill()

    reclaim, pressure = dossier_of(scene.finish(1 << 8)).charts[0].strips

    assert (reclaim.kind, pressure.kind) == ("reclaim", "pressure")
    assert max(reclaim.values) == pytest.approx(0.5, abs=0.01)
    assert max(pressure.values) <= 1  # what rose by more than the time that passed began earlier


def test_parts_do_not_depend_on_the_order_of_events():
    scene = filled()
    scene.kill()
    events = scene.finish(1 << 8)

    assert dossier_of(events) == dossier_of(list(reversed(events)))
