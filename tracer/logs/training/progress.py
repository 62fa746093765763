# SPDX-License-Identifier: Apache-2.0
"""How far the training is: epochs, steps and bars in the forms that are common. Only what was recognised is kept."""

import re

from tracer.logs.training.shape import Found, found, numbers

NEEDLES = ("epoch", "step", "iter", "it/s", "s/it", "%|", "batch")
_LONG = r"\d{1,12}"
_EPOCH = re.compile(
    r"\b(?P<name>[Ee]poch|EPOCH)['\"]?[ \t:=#'\"\[(]{1,8}(?P<at>\d{1,7}(?:\.\d{1,12})?)"
    r"(?: {0,2}(?:/|\bof\b) {0,2}(?P<of>\d{1,7})\b)?"
)
_STEP = re.compile(
    r"\b(?P<name>(?:[Gg]lobal[_ ])?[Ss]tep|[Ii]teration|[Ii]ter|[Bb]atch|STEP|ITER)"
    rf"['\"]?[ \t:=#'\"\[(]{{1,16}}(?P<at>{_LONG})"
    rf"(?: {{0,4}}(?:/|\bof\b) {{0,12}}(?P<of>{_LONG}))?(?![\w.])"
)
_BAR = re.compile(rf"(?P<percent>\d{{1,3}})%\|[^|\n]{{0,300}}\| {{0,4}}(?P<at>{_LONG})/(?P<of>{_LONG})\b")
_PAIR = re.compile(rf"\[ {{0,8}}(?P<at>{_LONG})/(?P<of>{_LONG})(?: \(\d{{1,3}}%\))?\]")
"""Behind an epoch: `Epoch: [3][ 10/100]`, `Train Epoch: 1 [640/60000 (1%)]`."""


def progress(text: str) -> Found | None:
    """The epoch and the step that a line tells; `None`: neither."""
    epoch = _EPOCH.search(text)
    bar = _BAR.search(text)
    step = bar or _STEP.search(text) or (_PAIR.search(text, epoch.end("at")) if epoch is not None else None)
    if epoch is None and step is None:
        return None
    figures: dict[str, float | None] = {}
    parts = []
    if epoch is not None:
        at = epoch["at"]
        figures["epoch"] = float(at) if "." in at else int(at)
        figures["epochs"] = int(epoch["of"]) if epoch["of"] else None
        parts.append(f"epoch {at}{'/' + epoch['of'] if epoch['of'] else ''}")
    if step is not None:
        figures["step"] = int(step["at"])
        figures["steps"] = int(step["of"]) if step["of"] else None
        name = step.groupdict().get("name") or "step"
        parts.append(f"{name.lower()} {step['at']}{'/' + step['of'] if step['of'] else ''}")
    return found("progress", " ".join(parts), numbers=numbers(**figures))
