# SPDX-License-Identifier: Apache-2.0
"""The locked dependencies: everything that pyproject.toml asks for, pinned and hashed, from no named place."""

import re

from tests.architecture.checkout import ROOT

LOCK = (ROOT / "scripts" / "requirements.lock").read_text()
PYPROJECT = (ROOT / "pyproject.toml").read_text()
# The block of one requirement: its first line, its hashes, who asked for it.
REQUIREMENT = re.compile(r"^([a-z0-9][\w.-]*)(.*?)(?=^[a-z0-9]|\Z)", re.MULTILINE | re.DOTALL)


def locked() -> list[tuple[str, str]]:
    return REQUIREMENT.findall(LOCK)


def test_it_holds_every_dependency_that_is_declared():
    declared = re.findall(r'^    "([\w-]+)>=', PYPROJECT, re.MULTILINE)
    backend = re.findall(r'^requires = \["([\w-]+)', PYPROJECT, re.MULTILINE)

    assert {"msgspec", "psutil", "rich", "ruff", "hatchling"} <= set(declared + backend)
    assert set(declared + backend) <= {name for name, _ in locked()}


def test_each_is_pinned_and_has_hashes():
    loose = [name for name, rest in locked() if not rest.startswith("==") or "--hash=sha256:" not in rest]

    assert not loose


def test_it_names_no_place_to_get_them_from():
    assert "://" not in LOCK
    assert not re.search(r"^\s*(?:--index-url|--extra-index-url|--find-links|-[if])\b", LOCK, re.MULTILINE)


def test_the_fuzzer_is_locked_apart_and_is_not_installed_with_the_rest():
    apart = (ROOT / "scripts" / "requirements-fuzz.lock").read_text()
    named = re.findall(r"^([a-z]\w+)==[\d.]+;[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", apart, re.MULTILINE)

    assert set(named) == {"atheris"}
    assert re.search(r'^fuzz = \["atheris>=', PYPROJECT, re.MULTILINE)
    assert "atheris" not in {name for name, _ in locked()}
    assert "://" not in apart
