# SPDX-License-Identifier: Apache-2.0
"""How far a job is to go, as people write it."""

import pytest

from tracer.cli.until import parse_duration, parse_until
from tracer.errors import UsageError
from tracer.pipeline.until import Until
from tracer.units import NS_PER_S


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("10min", 600), ("2h", 7200), ("1.5h", 5400), ("30", 30)]
)
def test_times(text, seconds):
    assert parse_duration(text) == seconds * NS_PER_S


@pytest.mark.parametrize("text", ["", "0", "0s", "-1s", "ten", "1e9", "1000d", "10 parsecs", "٣m"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UsageError):
        parse_duration(text)


def test_goals():
    assert parse_until(None, None) is None
    assert parse_until("epochs=2", None) == Until(epochs=2)
    assert parse_until("epoch=1", "10m") == Until(epochs=1, for_ns=600 * NS_PER_S)
    assert parse_until("steps=500", None) == Until(steps=500)


@pytest.mark.parametrize(
    "text", ["", "epochs", "epochs=", "epochs=0", "epochs=-1", "steps=1.5", "losses=1", "epochs=x"]
)
def test_what_is_no_goal_is_refused(text):
    with pytest.raises(UsageError):
        parse_until(text, None)
