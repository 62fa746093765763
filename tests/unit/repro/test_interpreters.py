# SPDX-License-Identifier: Apache-2.0
"""A Python with PyTorch is one that says so itself, and the one that was made for it comes first."""

import pytest

from tracer.job.cgroup import Hierarchy
from tracer.repro import interpreters, needs


@pytest.fixture
def pythons(tmp_path, monkeypatch):
    """Stand-ins for interpreters, each with an answer to whether it has PyTorch; the one that is found."""
    monkeypatch.setattr(interpreters, "ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))

    def found(**answers):
        for name, status in answers.items():
            path = tmp_path / {"made": ".venv-torch/bin/python", "own": "own"}.get(name, f"path/{name}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\nexit {status}\n")
            path.chmod(0o755)
        monkeypatch.setattr(interpreters.sys, "executable", str(tmp_path / "own"))
        chosen = interpreters.torch_python.__wrapped__()
        return chosen and chosen.removeprefix(f"{tmp_path}/")

    return found


def test_the_one_that_was_made_for_it_comes_first(pythons):
    assert pythons(made=0, own=0, python3=0) == ".venv-torch/bin/python"


def test_others_are_taken_in_their_order_if_they_have_it(pythons):
    assert pythons(made=1, own=1, python3=1, python=0) == "path/python"
    assert pythons(own=0) == "own"


def test_where_none_has_it_none_is_found(pythons):
    assert pythons(made=1, own=1, python3=1) is None


def test_what_cannot_be_run_does_not_have_it(pythons, tmp_path):
    (tmp_path / ".venv-torch" / "bin").mkdir(parents=True)
    (broken := tmp_path / ".venv-torch" / "bin" / "python").write_bytes(b"\x7fELF\0")
    broken.chmod(0o755)

    assert pythons(own=1) is None


def test_what_needs_pytorch_is_not_played_without_and_the_reason_says_what_to_do(monkeypatch):
    machine = needs.Machine(Hierarchy(2, "/", "/", "/"))
    monkeypatch.setattr(needs, "torch_python", lambda: None)
    assert "scripts/setup --torch" in needs.missing(("torch",), machine)

    monkeypatch.setattr(needs, "torch_python", lambda: "/usr/bin/python3")
    assert needs.missing(("torch",), machine) is None
