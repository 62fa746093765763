# SPDX-License-Identifier: Apache-2.0
"""`--until epochs=1`, `--until steps=500`, `--for 10m`: how far a job is to go, as people write it."""

import argparse
import re
from fractions import Fraction

from tracer.errors import UsageError
from tracer.pipeline.until import Until
from tracer.units import NS_PER_S

_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,6})?)\s*(?P<unit>s|m|min|h|d|)", re.IGNORECASE | re.ASCII)
_GOAL = re.compile(r"(?P<what>epochs?|steps?)=(?P<number>\d{1,12})", re.ASCII)
MOST_SECONDS = 400 * 86400


def add_until_options(parser: argparse._ActionsContainer) -> None:
    """When the job is ended without waiting for its own end."""
    parser.add_argument(
        "--until",
        metavar="GOAL",
        help="end the job after epochs=N or steps=N, by its own output or by starts of DataLoader workers; "
        "the exit status is 0 then",
    )
    parser.add_argument(
        "--for", dest="lasting", metavar="TIME", help="end the job after this time (90s, 10m, 2h); the exit status is 0"
    )


def parse_until(goal: str | None, lasting: str | None) -> Until | None:
    """What both ask for; `None`: neither was given.

    Raises:
        UsageError: it is neither a goal nor a time.
    """
    if goal is None and lasting is None:
        return None
    epochs = steps = None
    if goal is not None:
        found = _GOAL.fullmatch(goal.strip())
        if found is None or int(found["number"]) < 1:
            raise UsageError(f"{goal!r} is no goal; write it as epochs=1 or steps=500")
        number = int(found["number"])
        epochs, steps = (number, None) if found["what"].startswith("epoch") else (None, number)
    return Until(epochs=epochs, steps=steps, for_ns=None if lasting is None else parse_duration(lasting))


def parse_duration(text: str) -> int:
    """`90s`, `10m`, `2h`, `1.5h`, `30` (seconds): nanoseconds.

    Raises:
        UsageError: it is none, is 0, or is longer than a year.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is no time; write it as 90s, 10m or 2h")
    seconds = Fraction(found["number"]) * _SECONDS[found["unit"].lower()]
    if not 0 < seconds <= MOST_SECONDS:
        raise UsageError(f"{text!r} is no time that a job could be given")
    return int(seconds * NS_PER_S)
