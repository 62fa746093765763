# SPDX-License-Identifier: Apache-2.0
"""What all tests share: folder marks, how hypothesis is run, and OOMTRACE_REQUIRE, which turns skipping into failure.

A test that cannot run here (no root, no PyTorch) is skipped with a reason, and fails where that kind of
test is required. One that does not apply here (a cgroup v2 file on a v1 machine) is skipped in any case:
`does_not_apply`.
"""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
KINDS = ("kernel", "torch", "launchers", "vm", "browser")
REQUIRED = frozenset(filter(None, os.environ.get("OOMTRACE_REQUIRE", "").split(",")))
NOT_APPLICABLE = "does not apply here: "

# A machine may be busy with other things: that drawing or running took long says nothing about the code.
# Where kinds are required (CI) the same commit always gets the same answer: new examples are looked for elsewhere.
settings.register_profile(
    "oomtrace", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(REQUIRED)
)
settings.load_profile("oomtrace")


def kind_of(path: Path) -> str | None:
    """Kernel, torch, launchers, vm or browser: the folder below tests that a file lies in."""
    parts = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return next((part for part in parts[:1] if part in KINDS), None)


def pytest_configure(config):
    # Under nohup, or in the background of a script, signals are ignored from the start, and every child
    # inherits that: tests of signals would then test the caller's shell.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    unknown = REQUIRED - set(KINDS)
    if unknown:
        raise pytest.UsageError(f"OOMTRACE_REQUIRE knows {', '.join(KINDS)}, not {', '.join(sorted(unknown))}")


def pytest_collection_modifyitems(items):
    for item in items:
        kind = kind_of(item.path)
        if kind is not None:
            item.add_marker(getattr(pytest.mark, kind))


def must_run(report, kinds) -> bool:
    """Whether a skipped report should have been none."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    skipped = report.skipped and not hasattr(report, "wasxfail")
    return skipped and bool(REQUIRED & kinds) and NOT_APPLICABLE not in reason


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if must_run(report, {mark.name for mark in item.iter_markers()}):
        report.outcome, report.longrepr = "failed", f"required by OOMTRACE_REQUIRE, but {report.longrepr[2]}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if must_run(report, {kind_of(collector.path)} if collector.path else set()):
        report.outcome, report.longrepr = "failed", f"required by OOMTRACE_REQUIRE, but {report.longrepr[2]}"
    return report


@pytest.fixture
def does_not_apply():
    """Skips a test for a reason that OOMTRACE_REQUIRE cannot change: this machine is of another kind."""
    return lambda reason: pytest.skip(NOT_APPLICABLE + reason)
