# SPDX-License-Identifier: Apache-2.0
"""From two recordings to a comparison on the page. Imported when it is needed and not before."""

import msgspec

from tracer.cli.console import Look
from tracer.cli.judging import Judged
from tracer.recording import RecordingReader
from tracer.verdict.comparison import Comparison, Recorded, compare
from tracer.views import document, terminal


def compared(before: RecordingReader, after: RecordingReader) -> Comparison:
    """What became of the growth; what is damaged in the files stands among the caveats."""
    both = [(Judged(reader), name) for reader, name in ((before, "BEFORE"), (after, "AFTER"))]
    one, two = (Recorded(judged.case, judged.report.verdict, judged.recording.path) for judged, _ in both)
    found = compare(one, two)
    damage = [f"{name}: {text}" for judged, name in both for text in judged.said]
    return msgspec.structs.replace(found, caveats=(*damage, *found.caveats)) if damage else found


def as_text(found: Comparison, look: Look) -> str:
    """For a person."""
    return terminal.render_comparison(found, width=look.width, color=look.color, ascii_only=look.ascii_only)


def as_json(found: Comparison) -> str:
    """For a program."""
    return document.render_document(found)
