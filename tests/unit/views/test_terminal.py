# SPDX-License-Identifier: Apache-2.0
"""The terminal view: whole outputs as they should be, and what must hold for any report however hostile."""

import pathlib
import re
import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from tests.strategies_model import HOSTILE, structs
from tests.unit.views.building import entry, report
from tests.unit.views.endings import EXITED_0, SIGKILL_SELF
from tests.unit.views.kills import GRANDPARENT, WORKER, WORKER_KILLED
from tests.unit.views.samples import SAMPLES
from tracer.units import NS_PER_MS
from tracer.verdict.confirm.model import Checklist, Sign, Step
from tracer.verdict.model import Collateral, Incident, Mechanism, Remedy, Report, Verdict
from tracer.views import terminal

DATA = pathlib.Path(__file__).parents[2] / "data" / "views"
HEADINGS = (
    "Memory at the kill",
    "Why memory grew",
    "Proof",
    "Limits",
    "Timeline",
    "Where its memory is going",
    "What to do",
    "Also seen",
    "Caveats",
)
SGR = re.compile(r"\x1b\[[0-9;]*m")
BIDI_CONTROLS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

GOLDEN = [(name, 80, "plain") for name in SAMPLES] + [
    (name, width, how)
    for name in ("worker_killed", "group_kill", "grandparent")
    for width, how in ((60, "plain"), (120, "plain"), (40, "plain"), (80, "ascii"), (80, "color"))
]

large_to_draw = settings(
    max_examples=60, suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("name, width, how", GOLDEN)
def test_the_whole_output_is_as_it_should_be(name, width, how):
    expected = (DATA / f"{name}.{width}.{how}.txt").read_text(encoding="utf-8")

    assert expected == terminal.render(SAMPLES[name], width=width, color=how == "color", ascii_only=how == "ascii")


def test_the_width_is_80_unless_given():
    assert terminal.render(WORKER_KILLED, width=80) == terminal.render(WORKER_KILLED)


def test_no_more_than_120_columns_and_no_less_than_40_are_used():
    assert terminal.render(WORKER_KILLED, width=120) == terminal.render(WORKER_KILLED, width=500)
    assert terminal.render(WORKER_KILLED, width=40) == terminal.render(WORKER_KILLED, width=1)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"FORCE_COLOR": "1", "COLUMNS": "200"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("color", [False, True])
def test_the_environment_changes_nothing(monkeypatch, variables, color):
    expected = terminal.render(WORKER_KILLED, color=color)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert expected == terminal.render(WORKER_KILLED, color=color)


@large_to_draw
@given(structs(Report), st.integers(40, 130), st.booleans())
def test_no_line_of_any_report_is_wider_than_the_page(any_report, width, ascii_only):
    lines = terminal.render(any_report, width=width, ascii_only=ascii_only).splitlines()

    assert [line for line in lines if cell_len(line) > width] == []


@large_to_draw
@given(structs(Report), st.integers(40, 130), st.booleans())
def test_nothing_but_visible_characters_and_line_ends_comes_out(any_report, width, ascii_only):
    output = terminal.render(any_report, width=width, ascii_only=ascii_only)

    characters = set(output) - {"\n", " "}
    assert {c for c in characters if unicodedata.category(c)[0] in "CMZ" or c in BIDI_CONTROLS} == set()
    assert not ascii_only or all("!" <= c <= "~" for c in characters)


@large_to_draw
@given(structs(Report), st.integers(40, 130))
def test_colors_are_the_only_escapes_and_change_no_letter(any_report, width):
    colored = terminal.render(any_report, width=width, color=True)

    assert terminal.render(any_report, width=width) == SGR.sub("", colored)


@large_to_draw
@given(structs(Report), st.integers(40, 130))
def test_outside_text_never_begins_a_line_of_its_own(any_report, width):
    lines = terminal.render(any_report, width=width).split("\n")

    assert [line for line in lines[1:] if line and not line.startswith(("  ", *HEADINGS))] == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_name_leaves_the_rows_around_it_as_they_are(text):
    hostile = report(
        Incident(cause="sigkill", strength="likely", headline="Killed", victim=WORKER, signal=9),
        timeline=(
            entry(-NS_PER_MS, "start", "a", "first"),
            entry(0, "kill", text, text),
            entry(NS_PER_MS, "exit", "c", "last"),
        ),
    )

    lines = [line for line in terminal.render(hostile).splitlines() if line.strip()]
    timeline = next(index for index, line in enumerate(lines) if line.startswith("Timeline"))
    assert re.fullmatch(r" +-1\.0 ms  start  a +first", lines[timeline + 1])
    assert re.fullmatch(r" +\+1\.0 ms  exit   c +last", lines[-2])
    assert "recorded" in lines[-1]


def test_a_report_about_nothing_says_so():
    nothing = Report(verdict=Verdict(primary=0, incidents=()), timeline=())

    assert terminal.render(nothing).startswith("Nothing was observed")


def test_an_incident_without_words_of_its_own_still_gets_a_headline():
    bare = report(Incident(cause="exited", strength="proved", exit_code=3), recording=None)

    assert terminal.render(bare).split("  ")[0] == "Exited with status 3; nothing was killed"


def test_a_clean_exit_is_short():
    lines = terminal.render(EXITED_0).splitlines()

    assert len(lines) == 5


def test_a_clean_exit_still_tells_of_a_kill_beside_it():
    story = (entry(-5, "kill", "mysqld", "by the kernel", outside=True), entry(0, "exit", "job", "code 0"))
    beside = report(Incident(cause="exited", strength="proved", exit_code=0), timeline=story)

    assert "mysqld" in terminal.render(beside)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_absent_unknown_and_present_links_differ_without_color(ascii_only):
    lines = terminal.render(SIGKILL_SELF, ascii_only=ascii_only).splitlines()
    first = lines.index("Proof") + 1

    marks = [line.split()[0] for line in lines[first : first + 5]]
    assert marks == (["no", "no", "ok", "ok", "?"] if ascii_only else ["✗", "✗", "✓", "✓", "?"])


def test_a_path_keeps_its_end_when_it_is_shortened():
    assert "/slurm/…/step_0/task_3" in terminal.render(GRANDPARENT, width=60)


def test_commands_and_the_recording_are_never_shortened():
    long = "/data/" + "deep/" * 40 + "run.oomtrace"
    output = terminal.render(report(SAMPLES["global_oom"].verdict.incidents[0], recording=long), width=40)

    assert long in re.sub(r"\s+", "", output)


def test_collateral_that_the_timeline_lacks_is_told_with_the_facts():
    incident = Incident(cause="crash", strength="proved", collateral=(Collateral(pid=76, how="SIGTERM"),) * 12)

    output = terminal.render(report(incident))
    assert "went down pid 76: SIGTERM" in output
    assert "and 4 more" in output


def test_all_of_five_hundred_entries_are_shown():
    many = report(
        WORKER_KILLED.verdict.incidents[0],
        timeline=[entry(n * NS_PER_MS, "note", f"process {n}", f"entry number {n}.") for n in range(500)],
    )

    output = terminal.render(many)
    assert [n for n in range(500) if f"entry number {n}." not in output] == []


@example(0)
@example(7)
@given(st.integers(-5, 5))
def test_a_primary_that_does_not_exist_breaks_nothing(primary):
    odd = Report(verdict=Verdict(primary=primary, incidents=WORKER_KILLED.verdict.incidents), timeline=())

    expected = "Killed by the kernel" if primary == 0 else "Nothing was observed"
    assert terminal.render(odd).startswith(expected)


def test_what_cannot_be_told_apart_is_named_wherever_a_mechanism_is() -> None:
    mechanism = Mechanism(
        name="worker_cache", or_=("allocator_retention",), strength="likely", statement="workers grew", because=("so",)
    )
    page = terminal.render(report(Incident(cause="host_oom_cgroup", strength="proved", mechanism=mechanism)), width=120)

    assert "worker_cache or allocator_retention, likely" in " ".join(page.split())
    assert page.count("worker_cache") == page.count("worker_cache or allocator_retention") == 2


CHECKLIST = Checklist(
    statement="1 of 2 known signs of such a kill are there, 1 not seen",
    signs=(
        Sign(name="kernel_record", what="the kernel's record of the kill", status="present", statement="its log"),
        Sign(name="no_cuda_oom", what="no CUDA out of memory anywhere", status="not_observed", statement="not read"),
    ),
    steps=(Step(do="Change one variable at a time."), Step(do="Again.", command=f"oomtrace compare {'a' * 90} b")),
)


def confirmed(width: int = 80, **how: bool) -> str:
    shown = report(Incident(cause="host_oom_cgroup", strength="proved", headline="x"))
    return terminal.render(replace(shown, verdict=replace(shown.verdict, confirm=CHECKLIST)), width=width, **how)


def test_the_checklist_is_one_line_unless_it_is_asked_for() -> None:
    page = confirmed()

    assert "confirm   1 of 2 known signs of such a kill are there, 1 not seen: oomtrace\n" in page
    assert "no CUDA" not in page


def test_the_checklist_has_a_line_for_each_sign_and_whole_commands() -> None:
    page = confirmed(confirm=True)

    assert "Confirm  1 of 2 known signs of such a kill are there, 1 not seen\n" in page
    assert "  ✓ the kernel's record of the kill  its log\n" in page
    assert "  ? no CUDA out of memory anywhere   not read\n" in page
    assert "a" * 90 in page.replace("\n     ", "")
    assert "confirm   " not in page


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_checklist_fits_and_needs_neither_color_nor_unicode(width: int) -> None:
    page = confirmed(width, confirm=True, ascii_only=True)

    assert page.isascii()
    assert max(map(len, page.splitlines())) <= width


@pytest.mark.parametrize("same", [True, False])
def test_what_all_remedies_are_checked_by_is_told_once(same: bool) -> None:
    remedies = (Remedy(do="Do this.", verify="run it"), Remedy(do="Or that.", verify="run it" if same else "run that"))
    page = terminal.render(report(Incident(cause="exited", strength="likely", headline="x", remedies=remedies)))

    assert page.count("run it") == 1
    assert ("check, after one change at a time: run it" in page) == same
    assert ("check: run that" in page) != same
