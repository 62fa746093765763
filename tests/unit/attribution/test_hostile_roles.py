# SPDX-License-Identifier: Apache-2.0
"""Whatever names, arguments and variables processes give themselves: roles are told without a fault, and agree."""

from typing import Any

from hypothesis import given, settings, strategies as st

from tests.strategies import hostile_comms, raw_text
from tests.unit.attribution.jobs import FORKSERVER, PYTHON, ROOT, SPAWN, TRACKER, Job
from tracer.attribution.roles import describe, short
from tracer.attribution.roles.variables import MAX_DIGITS, RANK_IDENTITY
from tracer.sources.environ_names import ALLOWED_NAMES

values = st.one_of(st.sampled_from(["0", "1", "2", "", "-1", "٣", "1e3", "9" * 10, "9" * 400, "0x1", " 1"]), raw_text)
environs = st.none() | st.dictionaries(
    st.one_of(st.sampled_from(RANK_IDENTITY), st.sampled_from(sorted(ALLOWED_NAMES)), raw_text), values, max_size=6
)
cmdlines = st.one_of(
    st.sampled_from([SPAWN, FORKSERVER, TRACKER, (PYTHON, "-m"), (PYTHON, "-c"), ("torchrun",), ("bash", "x"), ("",)]),
    st.lists(raw_text, min_size=1, max_size=4).map(tuple),
)
names = st.one_of(hostile_comms, st.sampled_from(["pt_elastic", "bash", "raylet", "tensorboard", "pt_main_thread"]))
steps = st.lists(
    st.tuples(
        st.sampled_from(["start", "fork", "look", "exit"]),
        st.integers(0, 9),
        cmdlines,
        environs,
        names,
        st.none() | st.integers(0, (1 << 64) - 1),
    ),
    max_size=14,
)


def play(job: Job, acts: list[Any]) -> None:
    for place, (what, whom, cmdline, environ, comm, caught) in enumerate(acts):
        pids = list(job.given)
        pid = pids[whom % len(pids)]
        if what == "start":
            job.start(100 + place, pid, cmdline, environ, comm)
        elif what == "fork":
            job.fork(100 + place, pid, comm)
        elif what == "look":
            job.look(pid, environ=environ, caught=caught, comm=comm, devices=("nvidia0",), threads=(comm,))
        else:
            job.scene.exit(pid, 9)


@settings(max_examples=200, deadline=None)
@given(cmdlines, environs, steps)
def test_no_name_and_no_variable_breaks_the_fold(
    cmdline: tuple[str, ...], environ: dict[str, str] | None, acts: list[Any]
) -> None:
    job = Job(*cmdline, environ=environ)
    play(job, acts)

    found = job.roles
    assert set(job.given) == set(found)
    for role in found.values():
        assert role.known_by is not None or role.name == "job"
        assert role.rank is None or 0 <= role.rank < 10 ** (MAX_DIGITS - 1)
        assert role.worker is None or role.name == "dataloader_worker"
        assert role.name != "launcher" or role.rank is None
        assert describe(role, "x")
        assert short(role, "x")


@settings(max_examples=100, deadline=None)
@given(steps)
def test_without_a_variable_a_handler_or_a_gpu_nobody_is_a_rank(acts: list[Any]) -> None:
    job = Job(PYTHON, "train.py")
    play(
        job,
        [(what, whom, cmdline, {}, comm, caught) for what, whom, cmdline, _, comm, caught in acts if what != "look"],
    )

    assert all(role.rank is None and role.name != "rank" for role in job.roles.values())
    assert ROOT in job.given
