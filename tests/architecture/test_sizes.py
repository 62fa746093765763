# SPDX-License-Identifier: Apache-2.0
"""Files, functions and signatures stay small enough to be read at once."""

import ast

import pytest

from tests.architecture.checkout import files, name, python_files

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_POSITIONAL = 5
SOURCES = (".py", ".c", "")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(text: str) -> list[Function]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]


def positional(function: Function) -> int:
    arguments = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    return len(arguments) - (arguments[:1] in (["self"], ["cls"]))


def test_no_file_is_longer_than_four_hundred_lines():
    sources = [path for path in files() if path.suffix in SOURCES and path.name != "LICENSE"]
    long = {name(path): lines for path in sources if (lines := path.read_bytes().count(b"\n")) > MAX_FILE_LINES}

    assert not long


@pytest.mark.parametrize("path", python_files(), ids=name)
def test_functions_and_signatures_are_short(path):
    found = functions(path.read_text())
    long = [f.name for f in found if f.end_lineno - f.lineno + 1 > MAX_FUNCTION_LINES]
    # pytest hands a test its fixtures by position; that is no signature anyone calls.
    wide = [f.name for f in found if positional(f) > MAX_POSITIONAL and not f.name.startswith("test_")]

    assert not long
    assert not wide


def test_self_does_not_count_as_a_parameter():
    method, function = functions("def method(self, a, b, /, c, d, e, *, f): ...\ndef function(a, b, c, d, e, f): ...")

    assert positional(method) == MAX_POSITIONAL
    assert positional(function) == MAX_POSITIONAL + 1
