# SPDX-License-Identifier: Apache-2.0
"""From a recording to a report on the page: the one way that `run` and `report` share, so that both say the same.

Imported when it is needed and not before: rules and `rich` have no place in memory while a job runs.
"""

from functools import cached_property

import msgspec

from tracer.cli.console import Look
from tracer.recording import RecordingReader
from tracer.verdict.judge import judge
from tracer.verdict.model import Report
from tracer.views import document, terminal


def report_on(recording: RecordingReader) -> Report:
    """Judge a recording; what is damaged in it stands among the caveats."""
    report = judge(list(recording), recording=recording.path)
    damage = recording.damage.statements()
    if not damage:
        return report
    verdict = msgspec.structs.replace(report.verdict, caveats=(*report.verdict.caveats, *damage))
    return msgspec.structs.replace(report, verdict=verdict)


class Judged:
    """A recording with what was concluded from it: all that an export is made of."""

    def __init__(self, recording: RecordingReader) -> None:
        self.recording = recording

    @cached_property
    def report(self) -> Report:
        """What `report` shows."""
        return report_on(self.recording)


def as_text(report: Report, look: Look) -> str:
    """For a person."""
    return terminal.render(report, width=look.width, color=look.color, ascii_only=look.ascii_only)


def as_json(report: Report) -> str:
    """For a program."""
    return document.render(report)
