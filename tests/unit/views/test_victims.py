# SPDX-License-Identifier: Apache-2.0
"""Who is called a victim: in all views the same, and nobody to whom nothing was done."""

import msgspec
import pytest

from tests.unit.verdict.refusing import training
from tests.unit.verdict.scenes import worker_killed
from tracer.events import AnyEvent
from tracer.verdict import words
from tracer.verdict.dossier.compile import compile_dossier
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge, judge_case
from tracer.verdict.story import Story
from tracer.verdict.tracks.actors import parts_in
from tracer.views import markdown, terminal, webpage


def refused() -> list[AnyEvent]:
    """/dev/shm was full, and the rank ended with an exception."""
    scene = training()
    scene.shm(2)
    scene.no_space()
    scene.fails()
    return scene.events


def labels(events: list[AnyEvent]) -> set[str]:
    """By terminal, page, text, trace and family."""
    report = judge(events)
    case = Case(Story(events))
    dossier = compile_dossier(case, judge_case(case))
    incident = report.verdict.incidents[report.verdict.primary]
    shown = terminal.render(report, width=120)
    found = {next(word for word in ("victim", "process") if f"\n  {word} " in shown)}
    found.add(next(word for word in ("victim", "process") if f">{word}<" in webpage.render(dossier)))
    found.add(next(word for word in ("victim", "process") if f"- **{word}**" in markdown.render(report)))
    found.add("victim" if any("victim" in parts for parts in parts_in(incident).values()) else "process")
    people = [part for one in dossier.family.people for part in one.parts]
    found.add("victim" if "victim" in people else "process")
    return found


def test_who_was_refused_memory_is_a_process_in_each_view() -> None:
    assert labels(refused()) == {"process"}


def test_who_was_killed_is_a_victim_in_each_view() -> None:
    assert labels(worker_killed()) == {"victim"}


@pytest.mark.parametrize(("signal", "is_one"), [(None, False), ("SIGBUS", True)])
def test_with_a_full_tmpfs_the_signal_makes_a_victim(signal: str | None, is_one: bool) -> None:
    report = judge(refused())
    incident = msgspec.structs.replace(report.verdict.incidents[report.verdict.primary], signal=signal)

    assert words.has_victim(incident) == is_one
