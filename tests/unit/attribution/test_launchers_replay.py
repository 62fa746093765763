# SPDX-License-Identifier: Apache-2.0
"""What real launchers did, judged by today's rules: who was who, by what that is known, what came first, what followed.

Made by `python -m tests.launched` of runs under Open MPI, Slurm and others (tests/README.md); needs none of them.
"""

import lzma
import re

import msgspec
import pytest

from tests.launched import DATA, names, recording_of, said_of, verdict_of
from tracer.events import AnyEvent, ProcessSeen, SignalSent

ALL = names()
OUT_OF_MEMORY = [name for name in ALL if verdict_of(name)["cause"] == "host_oom_cgroup"]
MOST_BYTES = 1 << 20
OF_ONE_MACHINE = re.compile(
    rb"(?<!/var)/tm" + rb"p/(?!ray\b)|/ro" + rb"ot\b|/wo" + rb"rk/|process_" + rb"api|[A-Z_]*(?:SECRET|TOKEN)[A-Z_]*="
)

each_capture = pytest.mark.parametrize("name", ALL)
each_oom = pytest.mark.parametrize("name", OUT_OF_MEMORY)


@each_capture
def test_what_is_said_of_a_real_launchers_job_stays_as_it_is(name: str) -> None:
    expected = verdict_of(name)
    del expected["launcher"]

    assert said_of(recording_of(name)) == expected


@each_capture
def test_every_rank_has_its_number_and_tells_by_what_it_is_known(name: str) -> None:
    ranks = [role for role in verdict_of(name)["roles"].values() if role["name"] == "rank"]

    assert ranks
    for role in ranks:
        assert role["known_by"]
        assert role.get("rank", role.get("local_rank")) is not None


@each_oom
def test_the_kill_came_first_and_nothing_else_is_an_incident_of_its_own(name: str) -> None:
    found = said_of(recording_of(name))

    assert found["incidents"] == [["host_oom_cgroup", "proved"]]
    assert found["victim"]["role"] in {"dataloader_worker", "rank"}


@each_oom
def test_a_survivor_that_a_signal_ended_has_its_sender_named(name: str) -> None:
    signalled = [how for how in said_of(recording_of(name))["collateral"] if "signal " in how]

    assert all(" from " in how for how in signalled)


@each_oom
def test_without_the_marks_nothing_is_proved(name: str) -> None:
    events = [event for event in recording_of(name) if type(event).__name__ not in {"OomMark", "LoggedKill"}]

    assert "proved" not in [
        strength for cause, strength in said_of(events)["incidents"] if cause.startswith("host_oom")
    ]


@each_capture
def test_without_the_variables_no_rank_gets_a_number(name: str) -> None:
    events: list[AnyEvent] = [
        msgspec.structs.replace(event, environ=None)
        if "environ" in event.__struct_fields__ and getattr(event, "environ", None) is not None
        else event
        for event in recording_of(name)
    ]

    assert not [role for role in said_of(events)["roles"].values() if role.get("rank") is not None]


@each_capture
def test_whom_a_launcher_ended_is_never_told_as_a_kill_by_the_kernel(name: str) -> None:
    by_hand = {(s.tgid, s.signal) for s in recording_of(name) if isinstance(s, SignalSent) and s.code == 0}
    found = said_of(recording_of(name))
    victim = found["victim"]["pid"]

    assert found["cause"] != "host_oom_cgroup" or (victim, 9) not in by_hand


@each_capture
def test_a_capture_is_whole_and_of_no_machine(name: str) -> None:
    raw = lzma.decompress((DATA / name / "recording.oomtrace.xz").read_bytes())

    assert not OF_ONE_MACHINE.findall(raw)
    assert any(isinstance(event, ProcessSeen) for event in recording_of(name))


def test_captures_are_of_many_launchers_and_small() -> None:
    launchers = {verdict_of(name)["launcher"].split()[0] for name in ALL}

    assert launchers >= {"Open", "MPICH", "Slurm", "accelerate", "DeepSpeed", "Lightning", "Ray", "Horovod"}
    assert sum(path.stat().st_size for path in DATA.glob("*/*")) < MOST_BYTES
