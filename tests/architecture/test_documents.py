# SPDX-License-Identifier: Apache-2.0
"""The READMEs name files that exist, and their examples are code that would run."""

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, files, name

DOCUMENTS = sorted(path for path in files() if path.suffix == ".md" and path.name != "CHANGELOG.md")
A_PATH = re.compile(r"`((?:tracer|bpf|scripts|tests)/[\w./-]+)`")
A_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
AN_EXAMPLE = re.compile(r"^( *)```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def examples(document: Path) -> list[str]:
    found = AN_EXAMPLE.findall(document.read_text())
    return ["\n".join(line[len(indent) :] for line in text.splitlines()) for indent, text in found]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_file_that_is_named_exists(document):
    text = document.read_text()
    paths = [ROOT / path for path in A_PATH.findall(text)] + [document.parent / link for link in A_LINK.findall(text)]

    assert [str(path) for path in paths if not path.exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_name_that_an_example_imports_exists(document):
    for example in examples(document):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                exec(ast.unparse(node))


def test_the_examples_of_the_architecture_define_what_they_show():
    shown = examples(ROOT / "tracer" / "README.md")
    for example in shown:
        exec(compile(example, "README.md", "exec"), {"__name__": "example"})

    assert len(shown) == 6


def test_every_test_that_is_named_exists():
    tests = "\n".join(path.read_text() for path in files() if path.name.startswith("test_") and path.suffix == ".py")
    for document in DOCUMENTS:
        named = re.findall(r"`(test_\w+)`", document.read_text())

        assert [one for one in named if f"def {one}(" not in tests] == [], document
