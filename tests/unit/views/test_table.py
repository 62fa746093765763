# SPDX-License-Identifier: Apache-2.0
"""Samples as CSV: any reader of RFC 4180 gets them back, and no spreadsheet computes anything of them."""

import csv
import io

import pytest
from hypothesis import given

from tests.recordings import everything
from tests.strategies import raw_text
from tests.unit.verdict.scenes import WORKERS
from tracer.units import MIB
from tracer.verdict.story import Story
from tracer.verdict.tracks import MEASURES, Row, Samples, Subject
from tracer.views import table


def written(rows, **more) -> str:
    out = io.BytesIO()
    table.write(rows, out, **{"utc": lambda _: "2026-11-30T14:02:31.118204Z", **more})
    return out.getvalue().decode()


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def named(name: str, comm: str | None = None) -> Row:
    return Row(5, Subject(kind="process", name=name, key="", comm=comm), {"swap_bytes": 1})


def sampled(events) -> list[dict[str, str]]:
    story = Story(events)
    samples = Samples(story)
    return read(written((row for event in events for row in samples.rows(event)), utc=story.utc, incident_ns=0))


def test_every_sample_is_one_row_for_each_subject():
    rows = sampled(everything())

    kinds = [row["subject"] for row in rows]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "process": 30, "cgroup": 6, "machine": 6, "reclaim": 6, "device": 6,
    }  # fmt: skip


def test_a_row_says_whose_it_is_and_when_it_was_read():
    [row] = [r for r in sampled(everything()) if r["pid"] == str(WORKERS[2])][-1:]

    assert (row["name"], row["role"], row["rank"], row["worker"]) == ("rank 0 worker 2", "dataloader_worker", "0", "2")
    assert row["rss_anon_bytes"] == str(350 * MIB)
    assert row["time_utc"].startswith("2026-09-21T14:13:")


def test_what_is_unknown_or_another_subjects_is_empty():
    row = next(r for r in sampled(everything()) if r["subject"] == "machine")

    assert (row["pid"], row["rss_anon_bytes"], row["psi_some_avg10_percent"]) == ("", "", "")


def test_a_cgroup_without_a_limit_has_none():
    events = everything()

    assert {row["limit_bytes"] for row in sampled(events) if row["subject"] == "cgroup"} == {str(512 * MIB)}
    assert {row["limit_bytes"] for row in sampled(events) if row["subject"] != "cgroup"} == {""}


def test_the_offset_is_exact_to_the_nanosecond_on_both_sides():
    [before] = read(written([named("x")], incident_ns=1_500_000_005))
    [after] = read(written([named("x")], incident_ns=-2))

    assert (before["offset_s"], after["offset_s"]) == ("-1.500000000", "0.000000007")


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@x", "\t=1", "\r=1", "  =1", "'=1", "\uff1d1", "\uff20x"])
def test_a_name_is_no_formula(name):
    [row] = read(written([named(name, name)]))

    assert all(row[column].lstrip(" ")[0] in "'\\" for column in ("name", "comm"))


@given(raw_text, raw_text)
def test_any_name_is_one_cell_of_one_row(name, comm):
    text = written([named(name, comm), named("next")])
    rows = read(text)

    assert [row["swap_bytes"] for row in rows] == ["1", "1"]
    assert rows[1]["name"] == "next"
    assert text.count("\r\n") == 3
    assert not set(text.replace("\r\n", "")) & set("\r\n\x1b\x00\u202e")


def test_every_column_is_explained_and_numbers_say_their_unit():
    assert list(table.COLUMNS) == next(csv.reader([written([]).strip()]))
    assert all(table.COLUMNS.values())
    assert {name.rsplit("_", 1)[-1] for name in MEASURES} == {"bytes", "ns", "percent", "runs", "kills"}
