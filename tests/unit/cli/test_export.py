# SPDX-License-Identifier: Apache-2.0
"""`oomtrace export`: what it writes and where, of recordings of every kind, and what it never does."""

import json
import os
import stat
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tests.recordings import everything, many_processes, nothing_killed, several_kills, with_name, written
from tracer.cli import main
from tracer.cli.export import FORMATS, ExportCommand

TEXT = [name for name, form in FORMATS.items() if not form.binary]
HOSTILE = ("=cmd|' /C calc'!A0", "@everyone", "|x|```<b>", "\x1b[31m\n# x", "[a](http://e)", "\udce9\u202e")


@pytest.fixture
def recording(tmp_path):
    return written(tmp_path / "run.oomtrace", everything())


def exported(recording, form, tmp_path):
    target = tmp_path / f"out.{form}"
    assert main(["export", str(recording), "--to", form, "--output", str(target)]) == 0
    return target.read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_the_file_is_its_owners_alone_and_nothing_else_is_left(recording, form, tmp_path, capsys):
    assert exported(recording, form, tmp_path)

    assert stat.S_IMODE((tmp_path / f"out.{form}").stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == sorted([f"out.{form}", "run.oomtrace"])
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("form", FORMATS)
def test_standard_output_gets_the_same_bytes(recording, form, tmp_path, capfdbinary):
    assert main(["export", str(recording), "--to", form]) == 0

    assert capfdbinary.readouterr().out == exported(recording, form, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_there_is_never_written_over(recording, form, tmp_path, capsys):
    taken = tmp_path / "there"
    taken.write_text("mine")

    assert main(["export", str(recording), "--to", form, "--output", str(taken)]) == 2

    assert taken.read_text() == "mine"
    assert f"--output {tmp_path}/there.2" in capsys.readouterr().err


def test_a_link_that_leads_nowhere_is_not_followed(recording, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")

    assert main(["export", str(recording), "--to", "json", "--output", str(tmp_path / "link")]) == 2
    assert not (tmp_path / "target").exists()


def test_a_folder_that_is_not_there_is_unreadable_input_and_said(recording, tmp_path, capsys):
    assert main(["export", str(recording), "--to", "json", "--output", str(tmp_path / "no" / "x.json")]) == 3
    assert "cannot be created" in capsys.readouterr().err


@pytest.mark.parametrize("form", [name for name, form in FORMATS.items() if form.binary])
def test_bytes_are_not_for_a_terminal(recording, form, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    assert main(["export", str(recording), "--to", form]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert f"--to {form} --output FILE" in told.err


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"kind":"Header"}\n'], ids=["empty", "text", "header"])
def test_what_is_no_recording_leaves_no_file(form, content, tmp_path):
    (tmp_path / "x").write_bytes(content)

    assert main(["export", str(tmp_path / "x"), "--to", form, "--output", str(tmp_path / "y")]) == 3
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_header_alone_is_a_recording_of_nothing(form, tmp_path):
    exported(written(tmp_path / "run.oomtrace", everything()[:1]), form, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("scene", [nothing_killed, several_kills], ids=lambda scene: scene.__name__)
def test_every_kind_of_run_can_be_exported(form, scene, tmp_path):
    assert exported(written(tmp_path / "run.oomtrace", scene()), form, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_a_thousand_processes_can_be_exported(form, tmp_path):
    assert exported(written(tmp_path / "run.oomtrace", many_processes(1000)), form, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_of_a_process_can_be_exported(form, name, tmp_path):
    content = exported(written(tmp_path / "run.oomtrace", with_name(name)), form, tmp_path)

    if form in TEXT:
        assert "\x1b" not in content.decode()


@pytest.mark.parametrize("form", ["json", "markdown"])
def test_a_torn_end_is_said(recording, form, tmp_path):
    recording.write_bytes(recording.read_bytes()[:-20])

    assert b"torn end" in exported(recording, form, tmp_path)


def test_the_document_is_the_one_that_report_prints(recording, tmp_path, capsys):
    assert main(["report", "--json", str(recording)]) == 0

    assert exported(recording, "json", tmp_path).decode() == capsys.readouterr().out


@pytest.mark.parametrize("form", FORMATS)
def test_a_disk_that_is_full_is_said_in_one_line(recording, form):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tracer", "export", recording, "--to", form],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (3, "oomtrace: output: No space left on device\n")


def test_without_the_library_of_perfetto_it_is_said_what_installs_it(recording, monkeypatch, tmp_path, capsys):
    for name in [name for name in sys.modules if name.startswith(("perfetto", "tracer.views.perfetto"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "perfetto", None)
    monkeypatch.delattr("tracer.views.perfetto", raising=False)

    assert main(["export", str(recording), "--to", "perfetto", "--output", str(tmp_path / "x")]) == 5

    assert capsys.readouterr().err == (
        "oomtrace: a trace for Perfetto needs the Python package perfetto, which is not installed\n"
        f"try: {sys.executable} -m pip install --upgrade perfetto\n"
    )
    assert not (tmp_path / "x").exists()


def test_a_form_that_nobody_knows_is_a_usage_error(recording, capsys):
    assert main(["export", str(recording), "--to", "xml"]) == 2
    assert "markdown" in capsys.readouterr().err


def test_the_help_names_every_form(capsys):
    main(["export", "--help"])

    shown = capsys.readouterr().out
    assert all(f"{name}:" in shown for name in FORMATS)
    assert all(any(f"--to {name}" in line for _, line in ExportCommand.examples) for name in FORMATS)


def test_what_was_judged_says_how_it_was_chosen_where_there_is_very_much(recording, monkeypatch, tmp_path):
    monkeypatch.setattr("tracer.verdict.thinning.MOST_SAMPLES", 10)
    monkeypatch.setattr("tracer.cli.judging.few_enough", lambda _: None)

    verdict = json.loads(exported(recording, "json", tmp_path))

    assert any("samples" in caveat and "were looked at" in caveat for caveat in verdict["caveats"])
    assert verdict["incidents"][verdict["primary"]]["strength"] == "proved"
