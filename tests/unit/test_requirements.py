# SPDX-License-Identifier: Apache-2.0
"""OOMTRACE_REQUIRE turns skipping into failure, and only where it should; slow is no failure: tests/conftest.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
HERE = "import pytest\ndef test_it():\n    pytest.skip('no root')\n"
MODULE = "import pytest\npytest.skip('no torch', allow_module_level=True)\n"
FIXTURE = "import pytest\n@pytest.fixture\ndef f():\n    pytest.skip('no bcc')\ndef test_it(f): pass\n"
OTHER = "def test_it(does_not_apply):\n    does_not_apply('cgroup v1')\n"
SLOW = """
import time
from hypothesis import given, strategies as st

clock, late = time.perf_counter, []
def drawn(number):
    late.append(0.4)  # each value seems to take so long, to draw and to be looked at
    time.perf_counter = lambda: clock() + sum(late)
    return number

@given(st.integers(0, 9).map(drawn))
def test_it(number):
    drawn(number)
"""
EXPECTED = "import pytest\n@pytest.mark.xfail(strict=True)\ndef test_it():\n    assert False\n"


@pytest.fixture
def outcome(tmp_path):
    """Runs one test file below tests/FOLDER with requirements; what pytest's last line counts."""

    def run(folder, text, require=""):
        target = tmp_path / "tests" / folder
        target.mkdir(parents=True)
        shutil.copy(CONFTEST, tmp_path / "tests" / "conftest.py")
        (target / "test_it.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    kernel: x\n    torch: x\n    vm: x\n")
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(tmp_path)],
            env={**os.environ, "OOMTRACE_REQUIRE": require},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return (ran.stdout + ran.stderr).splitlines()

    return run


@pytest.mark.parametrize("text", [HERE, FIXTURE, MODULE], ids=["test", "fixture", "module"])
def test_without_requirements_what_cannot_run_is_skipped(outcome, text):
    assert "1 skipped" in outcome("kernel", text)[-1]


@pytest.mark.parametrize("text", [HERE, FIXTURE, MODULE], ids=["test", "fixture", "module"])
def test_what_is_required_and_cannot_run_fails_with_its_reason(outcome, text):
    lines = outcome("kernel", text, "vm,kernel")

    assert "1 failed" in lines[-1] or "1 error" in lines[-1]
    assert any("required by OOMTRACE_REQUIRE, but" in line and "no " in line for line in lines)


def test_another_kind_is_not_meant(outcome):
    assert "1 skipped" in outcome("torch", HERE, "kernel")[-1]


def test_what_does_not_apply_to_this_machine_is_skipped_in_any_case(outcome):
    assert "1 skipped" in outcome("kernel", OTHER, "kernel")[-1]


def test_an_expected_failure_is_none_of_its_business(outcome):
    assert "1 xfailed" in outcome("kernel", EXPECTED, "kernel")[-1]


def test_an_unknown_requirement_is_an_error_and_not_ignored(outcome):
    lines = outcome("kernel", HERE, "cuda")

    assert any("knows kernel, torch, launchers, vm, browser, not cuda" in line for line in lines)


def test_a_machine_that_is_busy_fails_no_property(outcome):
    assert "1 passed" in outcome("unit", SLOW)[-1]
