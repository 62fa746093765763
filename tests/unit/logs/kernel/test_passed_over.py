# SPDX-License-Identifier: Apache-2.0
"""What is not even tried, since a word is missing, would have given nothing: of all logs here the same comes out."""

import pytest

from tests.explained import cases
from tests.kernel_logs import cases as kernel_logs
from tracer.logs import prefixes
from tracer.logs.kernel import joining, loose
from tracer.logs.kernel.reader import KernelLogReader
from tracer.logs.kernel.shape import Stamp
from tracer.logs.prefixes import split

SOME = [raw for case in cases() for _, _, raw in case.texts()] + [log.raw for log in kernel_logs()]
LINES = sorted({line for raw in SOME for line in raw.decode("utf-8", "replace").split("\n") if len(line) < 400})


def events_of(raw):
    reader = KernelLogReader()
    return reader.feed(raw) + reader.end()


def test_no_record_is_passed_over_for_how_it_begins(monkeypatch):
    """Cut in two at each of some places, as well: what is put together begins as it would have been."""
    some = [raw for raw in SOME if len(raw) < 20_000]
    cut = [raw.replace(b" total-vm", b"\n total-vm").replace(b"invoked oom", b"invo\nked oom") for raw in some]
    found = [events_of(raw) for raw in some + cut]
    for module, name in ((joining, "_STARTS"), (joining, "_SQUEEZED_STARTS"), (loose, "_STARTS")):
        monkeypatch.setattr(module, name, ("",))

    assert [events_of(raw) for raw in some + cut] == found
    assert sum(map(len, found)) > 1000


@pytest.mark.parametrize("parse", [joining.strict, loose.parse])
def test_no_line_and_no_end_of_one_is_passed_over(monkeypatch, parse):
    texts = [split(line).text for line in LINES]
    texts += [text[at:] for text in texts[::7] for at in (1, 10, 40)]
    found = [parse(text, Stamp(0)) for text in texts]
    monkeypatch.setattr(joining, "_STARTS", ("",))
    monkeypatch.setattr(loose, "_STARTS", ("",))

    assert [parse(text, Stamp(0)) for text in texts] == found
    assert any(found)


def test_no_prefix_is_passed_over(monkeypatch):
    shown = [line[at:] for line in LINES for at in (0, 3)]
    found = [split(line) for line in shown]
    monkeypatch.setattr(prefixes, "may_begin", lambda _text, _at: True)

    assert [split(line) for line in shown] == found
