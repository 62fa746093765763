# SPDX-License-Identifier: Apache-2.0
"""The loader child's files run on the distribution's Python: 3.8 syntax, standard library and bcc alone."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, name

OLDEST = (3, 8)
SINCE_3_8 = {"tomllib", "zoneinfo", "graphlib"}
KERNEL = ROOT / "tracer" / "kernel"


def imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "tracer.kernel." * bool(node.level) + (node.module or "")
            found.update((module, *(f"{module}.{alias.name}" for alias in node.names)))
    return found


def loader_child() -> list[Path]:
    """The loader, all that it imports of ours, and the packages that it passes through."""
    found, ahead = {ROOT / "tracer" / "__init__.py", KERNEL / "__init__.py"}, [KERNEL / "loader.py"]
    while ahead:
        found.add(path := ahead.pop())
        modules = {module.split(".")[2] for module in imports(ast.parse(path.read_text())) if module.count(".") > 1}
        ahead += [
            sibling for module in modules if (sibling := KERNEL / f"{module}.py").exists() and sibling not in found
        ]
    return sorted(found)


LOADER_CHILD = loader_child()
ALLOWED = (sys.stdlib_module_names - SINCE_3_8) | {"bcc", "__future__", "tracer"}


def annotated(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.AnnAssign)
        or (isinstance(node, ast.arg) and node.annotation is not None)
        or (isinstance(node, ast.FunctionDef) and node.returns is not None)
        for node in ast.walk(tree)
    )


def postpones_annotations(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )


@pytest.mark.parametrize("path", LOADER_CHILD, ids=name)
def test_an_old_python_can_read_it(path):
    tree = ast.parse(path.read_text(), feature_version=OLDEST)

    # `int | None` and `list[int]` are read by 3.8 only where annotations are not evaluated.
    assert postpones_annotations(tree) or not annotated(tree)


@pytest.mark.parametrize("path", LOADER_CHILD, ids=name)
def test_it_imports_the_standard_library_and_its_siblings_alone(path):
    found = imports(ast.parse(path.read_text()))

    assert {module.partition(".")[0] for module in found} <= ALLOWED
    assert all(module.startswith("tracer.kernel") for module in found if module.startswith("tracer."))


@pytest.mark.parametrize("path", LOADER_CHILD, ids=name)
def test_ruff_knows_its_floor_too(path):
    floor = re.compile(rf'^"{name(path)}" = "py38"$', re.MULTILINE)

    assert floor.search((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize(
    "text",
    ["match 1:\n case 1: pass", "try: pass\nexcept* OSError: pass"],
    ids=["match", "except-star"],
)
def test_newer_syntax_would_be_seen(text):
    with pytest.raises(SyntaxError):
        ast.parse(text, feature_version=OLDEST)
