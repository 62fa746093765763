# SPDX-License-Identifier: Apache-2.0
"""What a person starts: each script is executable, explains itself, is clean, and does what it says."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, bash_scripts, copy_to, name, programs, python_files
from tracer.cli import COMMANDS

STEPS = ("ruff check", "ruff format", "mypy", "lint-imports", "events.h", "shellcheck", "clang-format")


def run(*command: str | Path, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environ}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def tools():
    """A folder for PATH that holds what is named and nothing else, where any user may look."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)

        def only(*tools: str, **programs: str) -> Path:
            for tool in tools:
                (Path(folder) / tool).symlink_to(shutil.which(tool))
            for program, text in programs.items():
                path = Path(folder) / program.replace("_", "-")
                path.write_text(f"#!/bin/sh\n{text}\n")
                path.chmod(0o755)
            return Path(folder)

        yield only


@pytest.fixture
def set_up():
    """Only a checkout that was set up can be asked what a second run does; setting one up needs an index."""
    if Path(sys.prefix) != ROOT / ".venv" or not (ROOT / ".venv" / "oomtrace-setup").exists():
        pytest.skip("these tests do not run from this checkout's .venv")


def has_tool(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")


def asked(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A script, started as from a fresh clone: its Python knows the standard library alone."""
    plain = (sys.executable, "-I", "-S") if b"python" in script.read_bytes()[:40] else ()
    return run(*plain, script, *arguments, COLUMNS="80")


@pytest.mark.parametrize("script", programs(), ids=name)
def test_a_script_is_executable_and_explains_itself(script):
    helped = asked(script, "--help")

    assert script.stat().st_mode & stat.S_IXOTH
    assert helped.returncode == 0, helped.stderr
    assert f"usage: scripts/{script.name}" in helped.stdout or f"usage: {script.name}" in helped.stdout


@pytest.mark.parametrize("script", programs(), ids=name)
def test_what_a_script_says_of_itself_fits_eighty_columns(script):
    assert [line for line in asked(script, "--help").stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("arguments", [(), *((command.name,) for command in COMMANDS)], ids=" ".join)
def test_what_the_command_says_of_itself_fits_eighty_columns(arguments):
    helped = run(sys.executable, "-m", "tracer", *arguments, "--help", COLUMNS="80")

    assert helped.stdout
    assert [line for line in helped.stdout.splitlines() if len(line) > 80] == []


def test_the_header_can_be_checked_by_whatever_python_is_there(set_up):
    checked = asked(ROOT / "scripts" / "events-h", "--check")

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("script", programs(), ids=name)
def test_a_script_has_a_test(script):
    quoted = re.compile(rf'scripts/{script.name}\b|"scripts" / "{script.name}"')

    assert any(quoted.search(path.read_text()) for path in python_files("tests"))


@pytest.mark.parametrize("script", bash_scripts(), ids=name)
def test_shellcheck_finds_nothing(script):
    has_tool("shellcheck")
    linted = run("shellcheck", script)

    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("source", sorted((ROOT / "bpf").glob("*.c")), ids=name)
def test_bpf_sources_are_formatted(source):
    has_tool("clang-format")
    formatted = run("clang-format", "--dry-run", "--Werror", source)

    assert formatted.returncode == 0, formatted.stderr


def test_an_unknown_argument_is_refused():
    for script in ("scripts/setup", "scripts/check", "scripts/demo"):
        refused = run(ROOT / script, "--no-such-thing")

        assert refused.returncode == 2
        assert "no-such-thing" in refused.stderr or "usage" in refused.stderr


def test_a_second_setup_has_nothing_to_do(set_up):
    again = run("scripts/setup", "--no-link")

    assert again.stdout.splitlines() == ["setup: ready"], again.stderr


def test_a_setup_that_may_not_install_says_so_before_it_tries(tools):
    path = tools("bash", "dirname", "cat", apt_get="echo apt was called; exit 1")
    shutil.copy(ROOT / "scripts" / "setup", path / "setup")
    someone = {"user": 65534, "group": 65534, "extra_groups": ()} if os.geteuid() == 0 else {}
    command, env = ["bash", path / "setup", "--dev"], {"PATH": str(path)}
    stopped = subprocess.run(command, env=env, capture_output=True, text=True, check=False, **someone)

    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert re.match(
        r"setup: to install these packages needs root, and sudo is not installed: .*shellcheck", stopped.stderr
    )
    assert "scripts/setup --no-system" in stopped.stderr


def test_a_setup_that_is_refused_the_link_says_so_and_what_to_run_instead(tmp_path):
    program = """
    source <(sed '/^main "/d' "$1/scripts/setup")
    venv=$1/.venv link=$2/oomtrace
    can_be_root() { true; }
    as_root() { echo 'sudo: a password is required' >&2; return 1; }
    make_link
    """
    refused = run("bash", "-c", program, "_", ROOT, tmp_path)

    assert refused.returncode == 0
    assert refused.stdout == f"setup: not linked into /usr/local/bin (no root): run {ROOT}/.venv/bin/oomtrace\n"


def test_a_demo_without_root_says_so_before_it_tries(tools):
    someone = {"user": 65534, "group": 65534, "extra_groups": ()} if os.geteuid() == 0 else {}
    for sudo in ({}, {"sudo": "exit 1"}):
        path = tools(*(("bash", "dirname") if not sudo else ()), **sudo)
        shutil.copy(ROOT / "scripts" / "demo", path / "demo")
        command, env = ["bash", path / "demo"], {"PATH": str(path)}
        stopped = subprocess.run(command, env=env, capture_output=True, text=True, check=False, **someone)

        assert (stopped.returncode, stopped.stdout) == (1, "")
        assert stopped.stderr.startswith("demo: BPF needs root, and sudo ")


def test_unit_tests_install_nothing_into_the_system(set_up, tools, tmp_path):
    names = ("bash", "dirname", "cat", "sha256sum", "cut", "flock", "readlink", "env")
    path = tools(*names, apt_get=f"touch {tmp_path}/called", sudo=f"touch {tmp_path}/called")
    listed = run("scripts/test", "--unit", "--collect-only", "-q", "tests/unit/test_wire.py", PATH=str(path))

    assert listed.returncode == 0, listed.stdout + listed.stderr
    assert not (tmp_path / "called").exists()


def test_check_tells_every_failure_and_not_only_the_first(tmp_path):
    has_tool("shellcheck")
    has_tool("clang-format")
    copy_to(tmp_path, "scripts", "pyproject.toml", ".clang-format", ".ci")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "tracer").mkdir()
    (tmp_path / "tracer" / "__init__.py").write_text("import   os\nx: int = ''\n")
    (tmp_path / "bpf").mkdir()
    (tmp_path / "bpf" / "oom.c").write_text("int  x ;\n")
    (tmp_path / "scripts" / "bad").write_text("#!/usr/bin/env bash\necho $1\n")

    checked = run("scripts/check", cwd=tmp_path)

    assert checked.returncode == 1
    assert checked.stdout.splitlines()[-1] == f"check: failed: {','.join(STEPS)}", checked.stdout + checked.stderr


def test_unit_tests_are_chosen_by_one_word(set_up):
    chosen = run("scripts/test", "--unit", "--collect-only", "-q")

    assert chosen.returncode == 0, chosen.stdout + chosen.stderr
    assert "\ntests/unit/" in chosen.stdout
    assert "\ntests/kernel/" not in chosen.stdout


def test_man_page_and_completion_are_installed_for_the_command_that_is_linked(set_up, tmp_path):
    # The script's own functions, with other folders, as anyone.
    program = """
    source <(sed '/^main "/d' "$1/scripts/setup")
    venv=$1/.venv link=$2/oomtrace share=$2/share
    can_be_root() { true; }
    as_root() { "$@"; }
    make_pages
    """
    command = ("bash", "-c", program, "_", ROOT, tmp_path)
    page, completion = tmp_path / "share/man/man1/oomtrace.1", tmp_path / "share/bash-completion/completions/oomtrace"
    for missing in ("link", "share"):
        assert run(*command).returncode == 0, missing
        assert not (tmp_path / "share" / "man").exists()
        (tmp_path / "share").mkdir(exist_ok=True)
    (tmp_path / "oomtrace").symlink_to(ROOT / ".venv" / "bin" / "oomtrace")

    done = run(*command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert page.read_text().startswith(".TH OOMTRACE 1")
    assert "_shtab_oomtrace" in completion.read_text()
    assert page.stat().st_mode & 0o777 == 0o644
    before = page.stat()
    run(*command)
    assert (page.stat().st_ino, page.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
