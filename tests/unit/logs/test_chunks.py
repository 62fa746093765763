# SPDX-License-Identifier: Apache-2.0
"""Whole lines come out, however the text was cut, and a line without an end costs no memory."""

from hypothesis import given, strategies as st

from tracer.logs.chunks import WholeLines

LINE_BYTES = 8


@given(st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\r", b"\n")), max_size=8))
def test_short_lines_come_whole_and_in_order_however_they_are_cut(chunks: list[bytes]) -> None:
    text = b"".join(chunks)
    lines = WholeLines(line_bytes=len(text) + 1)
    came = [lines.feed(chunk) for chunk in chunks] + [lines.end()]

    assert all(part.endswith(b"\n") for part in came if part)
    assert b"".join(came) == text + (b"" if not text or text.endswith(b"\n") else b"\n")


def test_of_a_line_that_does_not_end_no_more_is_kept_than_asked_for() -> None:
    lines = WholeLines(LINE_BYTES)
    for _ in range(1000):
        assert lines.feed(b"abc") == b""

    assert lines.feed(b"\nnext\n") == b"abcabcab\nnext\n"
    assert lines.end() == b""
