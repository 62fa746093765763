# SPDX-License-Identifier: Apache-2.0
"""The layers hold; and each contract that says so fails when it is broken on purpose."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, copy_to

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

BREAKS = [
    ("layers", "units.py", "import tracer.events"),
    ("layers", "events/base.py", "import tracer.kernel"),
    ("layers", "recording/__init__.py", "import tracer.job"),
    ("layers", "verdict/judge.py", "import tracer.pipeline"),
    ("layers", "helpers.py", ""),  # a module without a layer
    ("views", "views/added.py", "import tracer.views.document"),
    ("views-lay-out", "views/document.py", "import tracer.recording"),
    ("bcc", "sources/live.py", "import bcc"),
    ("bcc", "kernel/session.py", "from bcc import BPF"),
    ("rich", "cli/run.py", "import rich.console"),
    ("jinja2", "views/document.py", "import jinja2"),
    ("psutil", "job/launch.py", "import psutil"),
    ("perfetto", "cli/export.py", "import perfetto"),
    ("shtab", "cli/helping.py", "import shtab"),
    ("pynvml", "sources/gpu.py", "import pynvml"),
    ("pure", "verdict/judge.py", "import os"),
    ("pure", "attribution/tree.py", "from time import monotonic_ns"),
    ("pure", "logs/kernel/__init__.py", "from pathlib import Path"),
    ("pure", "events/base.py", "import socket"),
    ("pure", "verdict/model.py", "import random"),
    ("pure", "attribution/roles.py", "from uuid import uuid4"),
    ("pure", "verdict/people.py", "import http.client"),
    ("pure", "logs/kernel/decision.py", "from urllib.request import urlopen"),
    ("facts", "verdict/judge.py", "from tracer.recording import read_recording"),
]


def lint_imports(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-logo", "--no-cache", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_layers_hold():
    linted = lint_imports(ROOT)

    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert " 0 broken" in linted.stdout


@pytest.mark.parametrize(("contract", "module", "line"), BREAKS, ids=[f"{c}-{m}" for c, m, _ in BREAKS])
def test_a_contract_fails_when_it_is_broken(contract, module, line, tmp_path):
    copy = copy_to(tmp_path, "tracer", "pyproject.toml")
    with (copy / "tracer" / module).open("a") as file:
        file.write(f"\n{line}\n")

    linted = lint_imports(copy, "--contract", contract)

    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert "BROKEN" in linted.stdout or "not listed as layers" in linted.stdout, linted.stdout + linted.stderr


def test_no_contract_goes_without_such_a_break():
    contracts = re.findall(r'^id = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)

    assert contracts
    assert sorted(contracts) == sorted({contract for contract, _, _ in BREAKS})
