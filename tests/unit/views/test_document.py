# SPDX-License-Identifier: Apache-2.0
"""The verdict as JSON: what is written can be read back, by anything, and can be looked at safely."""

import json
import pathlib

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tests.strategies_model import plain_text, structs
from tests.unit.views.building import report
from tests.unit.views.kills import WORKER_KILLED
from tests.unit.views.samples import SAMPLES
from tracer.verdict.model import Incident, Mechanism, Report, Verdict
from tracer.views import document

DATA = pathlib.Path(__file__).parents[2] / "data" / "views"
large_to_draw = settings(
    max_examples=60, suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.data_too_large]
)


def test_the_whole_document_is_as_it_should_be():
    expected = (DATA / "exited_1.json").read_text(encoding="ascii")

    assert expected == document.render(SAMPLES["exited_1"])


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_reads_back_as_the_same_verdict(name):
    assert SAMPLES[name].verdict == msgspec.json.decode(document.render(SAMPLES[name]), type=Verdict)


@large_to_draw
@given(structs(Report, plain_text))
def test_any_verdict_reads_back_as_the_same(any_report):
    assert any_report.verdict == msgspec.json.decode(document.render(any_report), type=Verdict)


@large_to_draw
@given(structs(Report))
def test_even_hostile_text_gives_readable_json_in_printable_ascii(any_report):
    text = document.render(any_report)

    msgspec.json.decode(text, type=Verdict)
    assert {c for c in text if not (" " <= c <= "~" or c == "\n")} == set()


def test_what_json_itself_lets_through_is_escaped_too():
    text = document.render(report(Incident(cause="crash", strength="likely", headline="\x7f\x9b\u202e")))

    assert r'"headline": "\u007f\u009b\u202e"' in text


def test_fields_stand_in_the_order_in_which_they_are_declared():
    written = json.loads(document.render(WORKER_KILLED))

    expected = ["schema", "primary", "incidents", "job", "caveats", "watched_by", "pids_of", "reconciliation",
                "confirm", "projection"]  # fmt: skip
    assert list(written) == expected
    assert list(written["incidents"][0]) == [field.encode_name for field in msgspec.structs.fields(Incident)]


def test_unknown_is_null_and_alternatives_are_called_or():
    mechanism = Mechanism(name="unknown", or_=("neighbour",), strength="possible", statement="")
    written = json.loads(document.render(report(Incident(cause="crash", strength="likely", mechanism=mechanism))))

    assert written["incidents"][0]["victim"] is None
    assert written["incidents"][0]["mechanism"]["or"] == ["neighbour"]


def test_a_lone_surrogate_is_written_out():
    written = json.loads(document.render(report(Incident(cause="crash", strength="likely", headline="\udc80"))))

    assert written["incidents"][0]["headline"] == r"\udc80"
