# SPDX-License-Identifier: Apache-2.0
"""What exports cost is measured for every form, in a child of its own each."""

import re

from scripts.benches import exporting
from tracer.cli.export import FORMATS


def test_each_form_has_a_line_with_time_and_peak(tmp_path, capfd):
    rows = []
    exporting.measure(tmp_path, 300, lambda *row: rows.append(row))

    assert [name for name, *_ in rows] == ["report", *(f"export --to {form}" for form in FORMATS)]
    assert all(re.fullmatch(r"\d+\.\d s", spent) and re.match(r"peak \d+ MiB", note) for _, spent, note in rows)
    assert "a recording with 300 samples" in capfd.readouterr().out
