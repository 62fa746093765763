# SPDX-License-Identifier: Apache-2.0
"""The commands `doctor` and `selftest`: exit codes, documents, and who is refused."""

import json
import os

import msgspec
import pytest

from tests.unit.views.findings import DIAGNOSES, SELFTESTS
from tracer.cli import main
from tracer.doctor import diagnose
from tracer.doctor.model import Diagnosis
from tracer.errors import KernelUnavailable
from tracer.repro import selftest


def give(monkeypatch, module, name, result):
    def answer(*_, **__):
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(module, name, answer)


@pytest.mark.parametrize("name, code", [("good", 0), ("nobody", 1), ("container", 0), ("no_log", 1)])
def test_doctor_ends_with_0_only_where_each_kind_of_kill_is_proved(monkeypatch, capsys, name, code):
    give(monkeypatch, diagnose, "diagnose", DIAGNOSES[name])

    assert main(["doctor"]) == code
    assert capsys.readouterr().out.startswith("A kill here would be: ")


def test_doctor_gives_one_document(monkeypatch, capsys):
    give(monkeypatch, diagnose, "diagnose", DIAGNOSES["nobody"])

    assert main(["doctor", "--json"]) == 1
    text = capsys.readouterr().out
    assert msgspec.json.decode(text, type=Diagnosis) == DIAGNOSES["nobody"]
    assert json.loads(text)["schema"] == "oomtrace.doctor/1"


def test_another_system_is_one_line_and_5(monkeypatch, capsys):
    give(monkeypatch, diagnose, "diagnose", KernelUnavailable("this is Darwin"))

    assert main(["doctor"]) == 5
    assert capsys.readouterr().err == "oomtrace: this is Darwin\n"


@pytest.fixture
def as_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.parametrize("name, code", [("agrees", 0), ("disagrees", 1)])
def test_selftest_ends_with_0_only_where_all_agree(monkeypatch, capsys, as_root, name, code):
    give(monkeypatch, selftest, "selftest", SELFTESTS[name])

    assert main(["selftest"]) == code
    assert main(["selftest", "--json"]) == code
    assert '"schema": "oomtrace.selftest/1"' in capsys.readouterr().out


def test_an_interrupted_selftest_ends_as_one_that_was_interrupted(monkeypatch, as_root):
    give(monkeypatch, selftest, "selftest", selftest.Interrupted(15))

    assert main(["selftest"]) == 128 + 15


def test_selftest_without_root_says_what_to_type(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert main(["selftest"]) == 4
    assert capsys.readouterr().err.endswith('needs root: sudo "$(command -v oomtrace)" selftest\n')
