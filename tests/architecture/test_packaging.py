# SPDX-License-Identifier: Apache-2.0
"""What is no Python reaches every kind of installation: C sources, behind the link tracer/bpf, and templates."""

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, copy_to

PARTS = ("tracer", "bpf", "scripts", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".clang-format")
TEMPLATES = "tracer/views/webpage/templates"
ASK_TEMPLATES = (
    "import importlib.resources as r; "
    "print(*sorted(p.name for p in (r.files('tracer') / 'views' / 'webpage' / 'templates').iterdir()))"
)
ASK = "import importlib.resources as r; print(*sorted(p.name for p in (r.files('tracer') / 'bpf').iterdir()))"


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def build(folder: Path, kind: str) -> Path:
    """A wheel or an sdist of `folder`, by the build backend itself: nothing is fetched."""
    run(sys.executable, "-m", "hatchling", "build", "--target", kind, cwd=folder)
    (made,) = (folder / "dist").iterdir()
    return made


def build_editable(folder: Path) -> Path:
    """The wheel that `pip install --editable` makes and installs."""
    program = "import hatchling.build as b; print(b.build_editable('dist'))"
    (folder / "dist").mkdir()
    return folder / "dist" / run(sys.executable, "-c", program, cwd=folder)


@pytest.fixture
def copy(tmp_path):
    """The checkout in a folder of its own: a build leaves nothing in the real one."""
    (folder := tmp_path / "checkout").mkdir()
    return copy_to(folder, *PARTS)


@pytest.fixture
def install(tmp_path):
    """Installs a wheel into a fresh environment, without an index; returns its bin folder."""

    def into_fresh_environment(wheel: Path) -> Path:
        venv.create(tmp_path / "env", with_pip=False, symlinks=True)
        python = tmp_path / "env" / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python, "--isolated", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
        return python.parent

    return into_fresh_environment


def c_sources() -> list[str]:
    return sorted(path.name for path in (ROOT / "bpf").iterdir() if path.suffix in {".c", ".h"})


def assert_complete(bin_folder: Path) -> None:
    shipped = run(bin_folder / "python", "-I", "-c", ASK, cwd=bin_folder).split()

    assert "events.h" in shipped
    assert set(c_sources()) <= set(shipped)
    assert (bin_folder / "oomtrace").exists()
    templates = run(bin_folder / "python", "-I", "-c", ASK_TEMPLATES, cwd=bin_folder).split()
    assert templates == sorted(path.name for path in (ROOT / TEMPLATES).iterdir())


def test_the_link_to_the_c_sources_is_relative():
    assert (ROOT / "tracer" / "bpf").readlink() == Path("../bpf")


def test_an_editable_install_has_the_c_sources(copy, install):
    assert_complete(install(build_editable(copy)))


def test_a_wheel_has_the_c_sources(copy, install):
    assert_complete(install(build(copy, "wheel")))


def test_a_wheel_made_from_an_sdist_has_the_c_sources(copy, install, tmp_path):
    (tmp_path / "unpacked").mkdir()
    run("tar", "-xzf", build(copy, "sdist"), cwd=tmp_path / "unpacked", PATH=os.defpath)
    (unpacked,) = (tmp_path / "unpacked").iterdir()

    assert_complete(install(build(unpacked, "wheel")))


def test_an_sdist_has_what_a_distribution_packages(copy):
    with tarfile.open(build(copy, "sdist")) as archive:
        inside = {member.partition("/")[2] for member in archive.getnames()}

    assert {"bpf/events.h", "tracer/bpf/events.h", "scripts/setup", "LICENSE", "README.md"} <= inside
