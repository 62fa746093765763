# SPDX-License-Identifier: Apache-2.0
"""From a recording to a report on the page: the one way that `run` and `report` share, so that both say the same.

Imported when it is needed and not before: rules and `rich` have no place in memory while a job runs.
"""

from collections.abc import Iterator
from functools import cached_property

import msgspec

from tracer.cli.console import Look
from tracer.recording import RecordingReader
from tracer.verdict.comparison import project
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge_case
from tracer.verdict.model import Report
from tracer.verdict.story import Story
from tracer.verdict.thinning import Thinning, few_enough
from tracer.verdict.tracks import Row, Samples, Tracks, lay
from tracer.views import document, terminal


class Judged:
    """A recording with what was concluded from it: all that an export is made of.

    In bounded memory: of more samples than `thinning.MOST_SAMPLES` some are left out, which is said.
    """

    def __init__(self, recording: RecordingReader) -> None:
        self.recording = recording
        self._said: tuple[str, ...] = ()
        self._thinning: Thinning | None = None

    @cached_property
    def case(self) -> Case:
        """The facts, joined."""
        events = few_enough(self.recording)
        if events is not None:
            return Case(Story(events))
        thinning = self._thinning = Thinning(self.recording)
        kept = list(thinning.kept(self.recording))
        self._said = (thinning.statement(),)
        return Case(Story(kept, left_out=thinning.left_out))

    @cached_property
    def report(self) -> Report:
        """The verdict; what is damaged in the recording stands among the caveats."""
        report = judge_case(self.case, recording=self.recording.path)
        if self._thinning is not None:
            report = msgspec.structs.replace(report, verdict=self._thinning.tempered(report.verdict))
        projection = project(self.case, report.verdict)
        if projection is not None:
            verdict = msgspec.structs.replace(report.verdict, projection=projection)
            report = msgspec.structs.replace(report, verdict=verdict)
        if not self.said:
            return report
        verdict = msgspec.structs.replace(report.verdict, caveats=(*report.verdict.caveats, *self.said))
        return msgspec.structs.replace(report, verdict=verdict)

    @cached_property
    def tracks(self) -> Tracks:
        """The same along time."""
        return lay(self.case, self.report)

    def rows(self, *, all_of_them: bool) -> Iterator[Row]:
        """Samples as rows: all that the recording has, read anew, or those that were judged."""
        samples = Samples(self.case.story)
        for event in self.recording if all_of_them else self.case.story.events:
            yield from samples.rows(event)

    @property
    def said(self) -> tuple[str, ...]:
        """What is damaged in the recording, or was left out of it."""
        assert self.case is not None
        return (*self.recording.damage.statements(), *self._said)


def report_on(recording: RecordingReader) -> Report:
    """The verdict over a recording."""
    return Judged(recording).report


def as_text(report: Report, look: Look, *, confirm: bool = False) -> str:
    """For a person; `confirm`: with the checklist."""
    return terminal.render(report, width=look.width, color=look.color, ascii_only=look.ascii_only, confirm=confirm)


def as_json(report: Report) -> str:
    """For a program."""
    return document.render(report)
