# SPDX-License-Identifier: Apache-2.0
"""What a person starts: each script is executable, explains itself, is clean, and does what it says."""

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, bash_scripts, copy_to, name, programs, python_files

STEPS = ("ruff check", "ruff format", "mypy", "lint-imports", "events.h", "shellcheck", "clang-format")


def run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def set_up():
    """Only a checkout that was set up can be asked what a second run does; setting one up needs an index."""
    if Path(sys.prefix) != ROOT / ".venv" or not (ROOT / ".venv" / "oomtrace-setup").exists():
        pytest.skip("these tests do not run from this checkout's .venv")


def has_tool(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")


@pytest.mark.parametrize("script", programs(), ids=name)
def test_a_script_is_executable_and_explains_itself(script):
    helped = run(sys.executable, script, "--help") if b"python" in script.read_bytes()[:40] else run(script, "--help")

    assert script.stat().st_mode & stat.S_IXOTH
    assert helped.returncode == 0, helped.stderr
    assert f"usage: scripts/{script.name}" in helped.stdout or f"usage: {script.name}" in helped.stdout
    assert max(map(len, helped.stdout.splitlines())) <= 100


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
