# SPDX-License-Identifier: Apache-2.0
"""A recording laid along time for other tools: who lived when, what happened to whom, every number that was sampled."""

from tracer.verdict.tracks.lay import lay
from tracer.verdict.tracks.model import Actor, Flow, Moment, Reading, Span, Tracks
from tracer.verdict.tracks.samples import MEASURES, Row, Samples, Subject

__all__ = [
    "MEASURES", "Actor", "Flow", "Moment", "Reading", "Row", "Samples", "Span", "Subject", "Tracks",
    "lay",
]  # fmt: skip
