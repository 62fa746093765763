# SPDX-License-Identifier: Apache-2.0
"""The recording: an append-only file of facts, one JSON object a line, and how it is read back.

The first line is a `Header`. Each line carries its `seq`, so that a hole is visible, and ends with the
CRC-32 of all that stands before `,"crc"`, so that a flipped bit is: plain JSON notices only half of
those, and a wrong pid or size in a proof is worse than a missing line. Nothing is ever rewritten.
"""

from tracer.recording.damage import MOST_PLACES, Damage, Place
from tracer.recording.line import MAX_LINE_BYTES, LineEncoder
from tracer.recording.reader import Inspection, RecordingReader, inspect_recording, read_recording
from tracer.recording.writer import RecordingWriter, Trouble

__all__ = [
    "MAX_LINE_BYTES", "MOST_PLACES", "Damage", "Inspection", "LineEncoder", "Place", "RecordingReader",
    "RecordingWriter", "Trouble", "inspect_recording", "read_recording",
]  # fmt: skip
