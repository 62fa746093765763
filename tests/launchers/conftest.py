# SPDX-License-Identifier: Apache-2.0
"""Real launchers round a small stand-in for a training job; each test skips where its launcher is not installed."""

import shutil
import subprocess

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.attaching import attach  # noqa: F401 - a fixture
from tests.kernel.conftest import can_trace  # noqa: F401 - a fixture
from tests.kernel.running import oomtrace  # noqa: F401 - a fixture
from tests.launchers.slurm import OneNode, programs_missing

WORKLOADS = ROOT / "tracer" / "repro" / "workloads"
VENV = ROOT / ".venv-torch"


@pytest.fixture
def installed():
    """The path of a program, of the system or of .venv-torch; skips where there is none."""

    def find(name):
        path = shutil.which(name, path=f"{VENV / 'bin'}:/usr/local/bin:/usr/bin:/bin")
        return path or pytest.skip(f"{name} is not installed")

    return find


@pytest.fixture
def python_with():
    """The Python of .venv-torch that has a package; skips where there is none."""

    def find(package):
        python = VENV / "bin" / "python"
        code = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
        if not python.exists() or subprocess.run([python, "-c", code], check=False).returncode:
            pytest.skip(f"{package} is not in .venv-torch")
        return python

    return find


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    """A Slurm of this machine alone, for as long as the tests take."""
    missing = programs_missing()
    if missing:
        pytest.skip(f"{missing} is not installed")
    node = OneNode(tmp_path_factory.mktemp("slurm"))
    why = node.start()
    if why is not None:
        node.stop()
        pytest.skip(f"Slurm does not run here: {why}")
    yield node
    node.stop()
