# SPDX-License-Identifier: Apache-2.0
"""What every file must say, and what none may."""

import re
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT, files, name, python_files, text_files

APACHE = "SPDX-License-Identifier: Apache-2.0"
BPF = "SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0"
WITHOUT = {".md", ".lock", ".txt", ".typed", ".json", ".oomtrace", ".log"}
# Written in two halves, so that this file does not hold what it looks for.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.*-])/(?:wo" + r"rk/(?:main|shared)|tm" + r"p/(?:venv|contracts))\b"),
    "a host of a package registry": re.compile(
        r"(?:py" + r"pi\.org|python" + r"hosted\.org|registry\.npm" + r"js|proxy\.gol" + r"ang|deb\.deb" + r"ian\.org)"
    ),
    "unfinished work": re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b(?!-)"),
}


def needs_licence(path: Path) -> bool:
    return path.suffix not in WITHOUT and path.name != "LICENSE" and "data" not in path.relative_to(ROOT).parts


def first_lines(text: str) -> str:
    lines = text.splitlines()
    return "\n".join(lines[:2] if text.startswith("#!") else lines[:1])


def test_every_file_begins_with_its_licence():
    silent = [
        name(path)
        for path, text in text_files()
        if needs_licence(path) and (BPF if path.suffix in {".c", ".h"} else APACHE) not in first_lines(text)
    ]

    assert not silent


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what):
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]

    assert not found


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a path of one machine", "cd /wo" + "rk/main"),
        ("a host of a package registry", "https://files.python" + "hosted.org/x"),
        ("unfinished work", "# TO" + "DO: later"),
    ],
    ids=["path", "host", "unfinished"],
)
def test_such_a_line_would_be_seen(what, line):
    assert FORBIDDEN[what].search(line)


def test_what_git_keeps_in_a_linked_worktree_is_no_file_of_the_project(tmp_path):
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    (tmp_path / "README.md").write_text("")

    assert list(files(tmp_path)) == [tmp_path / "README.md"]


def test_every_module_says_first_what_it_owns():
    modules = set(python_files("tracer", "scripts"))
    silent = [
        name(path) for path, text in text_files() if path in modules and '"""' not in "\n".join(text.splitlines()[:3])
    ]

    assert not silent
