# SPDX-License-Identifier: Apache-2.0
"""The distribution's Python and its bcc: missing, old, untried, broken."""

import os
import sys

import pytest

from tests.unit.doctor.trees import by_id
from tracer.doctor.software import Asked, ask, check


def judged(answer: Asked, *, root=True):
    return by_id(check({"ID": "debian"}, root=root, asked=lambda: answer))


@pytest.mark.parametrize(
    "version, ok",
    [("0.18.0", "yes"), ("0.26.0", "yes"), ("0.37.0", "yes"), ("0.14.0", "no"), ("0.16.0", "unknown"),
     ("0.38.1", "unknown"), ("1.0", "unknown"), ("EAGER-dirty", "unknown"), ("", "unknown")],
)  # fmt: skip
def test_a_version_is_good_if_it_was_tried(version, ok):
    bcc = judged(Asked("3.11", version))["bcc"]

    assert bcc.ok == ok
    assert (bcc.remedy is None) == (ok == "yes")


def test_a_missing_bcc_is_told_with_the_package():
    bcc = judged(Asked("3.11", why_not="ModuleNotFoundError: No module named 'bcc'"), root=False)["bcc"]

    assert bcc.ok == "no"
    assert "No module named 'bcc'" in bcc.found
    assert bcc.remedy == "sudo apt install python3-bpfcc"


def test_without_the_python_bcc_is_missing_too():
    found = judged(Asked(None, why_not="No such file or directory"))

    assert (found["python"].ok, found["bcc"].ok) == ("no", "no")
    assert "python3" in found["python"].remedy


def test_a_python_that_is_too_old_for_the_loader_is_told():
    assert judged(Asked("3.6", "0.26.0"))["python"].ok == "no"


def fake_python(tmp_path, text):
    path = tmp_path / "python3"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_without_bcc_is_asked_and_says_so():
    answer = ask(sys.executable)

    assert answer.python == f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert answer.bcc is not None or "bcc" in answer.why_not


def test_what_a_python_prints_is_read(tmp_path):
    assert ask(fake_python(tmp_path, "echo python 3 9; echo bcc 0.20.0")) == Asked("3.9", "0.20.0", None)


def test_one_that_dies_is_no_error(tmp_path):
    answer = ask(fake_python(tmp_path, "echo python 3 9; echo libbcc.so.0: cannot open >&2; kill -9 $$"))

    assert answer == Asked("3.9", None, "libbcc.so.0: cannot open")


def test_one_that_cannot_be_started_is_none(tmp_path):
    assert ask(str(tmp_path / "absent")) == Asked(None, None, os.strerror(2))
