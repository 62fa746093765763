# SPDX-License-Identifier: Apache-2.0
"""The process that stays beside the job imports nothing heavy: contracts do not see imports made at run time."""

import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT

HEAVY = ("bcc", "rich", "jinja2", "asyncio", "pydantic", "shtab", "difflib", "pynvml", "perfetto", "google")
RESIDENT = (
    "tracer.cli",
    "tracer.cli.commands",
    "tracer.cli.export",
    "tracer.cli.run",
    "tracer.cli.attach",
    "tracer.cli.stop",
    "tracer.pipeline",
    "tracer.sources.live",
    "tracer.recording",
)


def imported_by(modules: tuple[str, ...], *flags: str) -> set[str]:
    program = f"import {', '.join(modules)}, sys; print('\\n'.join(sys.modules))"
    child = subprocess.run(
        [sys.executable, *flags, "-c", program],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(child.stdout.split())


@pytest.mark.parametrize("module", RESIDENT)
def test_what_stays_beside_the_job_imports_nothing_heavy(module):
    assert imported_by((module,)).isdisjoint(HEAVY)


def test_the_reader_of_a_recording_needs_neither_psutil_nor_a_kernel():
    loaded = imported_by(("tracer.recording", "tracer.verdict.judge"))

    assert "psutil" not in loaded
    assert not {name for name in loaded if name.startswith(("tracer.kernel", "tracer.sources"))}


OF_EXPLAIN = {"attribution", "cli", "errors", "events", "logs", "masking", "units", "verdict", "views", "wire"}
"""Parts of ours that may be imported where only logs are left: nothing that watches, records or draws."""
NOT_OF_EXPLAIN = {
    *HEAVY,
    "psutil",
    "subprocess",
    "threading",
    "ctypes",
    "tempfile",
    "socket",
    "gzip",
    "lzma",
    "shutil",
    "random",
}


@pytest.mark.parametrize("form", [(), ("--json",), ("--brief",), ("--format", "editor"), ("--redact",)], ids="".join)
def test_a_log_is_explained_by_what_is_quickly_imported(form):
    log = ROOT / "tests" / "data" / "explain" / "mixed" / "mixed.log"
    program = f"import sys; from tracer.cli import main; main({['explain', *form, str(log)]!r}); print(*sys.modules)"
    child = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(child.stdout.splitlines()[-1].split())

    assert loaded.isdisjoint(NOT_OF_EXPLAIN)
    assert {name.split(".")[1] for name in loaded if name.startswith("tracer.")} <= OF_EXPLAIN
    assert not [name for name in loaded if name.startswith("tracer.views.") and name.count(".") > 2]


def test_a_heavy_import_would_be_seen():
    assert "asyncio" in imported_by(("tracer", "asyncio"))
