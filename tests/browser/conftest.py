# SPDX-License-Identifier: Apache-2.0
"""A real browser, where one is installed (`scripts/setup --browser`); one for all tests, since its start costs most."""

import pytest

from tests.architecture.checkout import ROOT
from tests.chromium import chromium, opened

AXE = ROOT / ".browser" / "axe.min.js"


@pytest.fixture(scope="session")
def browser():
    program = chromium()
    if program is None:
        pytest.skip("no Chromium is installed: scripts/setup --browser")
    with opened(program) as one:
        yield one


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core, the checker of accessibility."""
    if not AXE.exists():
        pytest.skip("axe-core is not there: scripts/setup --browser")
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """Writes a page into a file, for the browser."""
    folder = tmp_path_factory.mktemp("pages")

    def written(name, text):
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
        return folder / f"{name}.html"

    return written
