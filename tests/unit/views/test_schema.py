# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema that is shipped says what the document is: what is printed fits, and what is wrong does not."""

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tests.recorded_mechanisms import recorded
from tests.strategies_model import plain_text, structs
from tests.unit.views.samples import SAMPLES
from tracer.verdict.judge import judge
from tracer.verdict.model import VERDICT_SCHEMA, Report
from tracer.views import document

SHIPPED = Path(document.__file__).with_name("verdict.schema.json")
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SHIPPED.read_text()))


def test_it_is_in_step_with_the_code():
    """To write it anew: python -c 'from tracer.views import document as d; print(d.schema(), end="")' > FILE."""
    assert document.schema() == SHIPPED.read_text()


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(json.loads(SHIPPED.read_text()))


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_fits(name):
    VALIDATOR.validate(json.loads(document.render(SAMPLES[name])))


@pytest.mark.parametrize("run", list(recorded())[:6], ids=str)
def test_what_real_jobs_gave_fits(run):
    VALIDATOR.validate(json.loads(document.render(judge(run.events()))))


@settings(max_examples=25, suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.data_too_large])
@given(structs(Report, plain_text))
def test_any_verdict_fits(report):
    ours = msgspec.structs.replace(report.verdict, schema=VERDICT_SCHEMA)

    VALIDATOR.validate(json.loads(document.render_document(ours)))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "oomtrace.verdict/2"},
        {"primary": "0"},
        {"incidents": None},
        {"incidents": [{"cause": "bad luck", "strength": "proved"}]},
        {"incidents": [{"cause": "crash"}]},
        {"caveats": [1]},
    ],
    ids=["another schema", "text", "nothing", "an unknown cause", "no strength", "a number"],
)
def test_what_is_wrong_does_not(change):
    verdict = json.loads(document.render(SAMPLES["worker_killed"]))

    assert not VALIDATOR.is_valid({**verdict, **change})


def test_a_later_version_may_have_more():
    verdict = json.loads(document.render(SAMPLES["worker_killed"]))

    assert VALIDATOR.is_valid({**verdict, "later": 1})
