# SPDX-License-Identifier: Apache-2.0
"""What this checkout consists of: the files that the rules are about."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tracer", "bpf", "scripts", "tests", ".ci")
CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
NOT_OURS = {".git", ".venv.lock"}
"""In a linked worktree `.git` is a file, and holds a path of the machine."""


def files(root: Path = ROOT) -> Iterator[Path]:
    """Every file of the project, once: links, caches and what git ignores left out."""
    found = [path for path in root.iterdir() if path.suffix != ".oomtrace" and path.name not in NOT_OURS]
    for folder in FOLDERS:
        for top, folders, names in os.walk(root / folder):
            folders[:] = [each for each in folders if each not in CACHES]
            found += [Path(top, each) for each in names]
    yield from (path for path in found if path.is_file() and not path.is_symlink())


def text_files() -> list[tuple[Path, str]]:
    """Every file that is text, with its text."""
    found = []
    for path in files():
        data = path.read_bytes()
        if b"\0" not in data:
            found.append((path, data.decode("utf-8", "replace")))
    return found


def is_python(path: Path) -> bool:
    """By name, or by the first line of a program without one."""
    if path.suffix:
        return path.suffix == ".py"
    with path.open("rb") as file:
        first = file.readline()
    return first.startswith(b"#!") and b"python" in first


def python_files(*folders: str) -> list[Path]:
    """Every Python file below some top folders; all, if none are named."""
    return sorted(
        path for path in files() if is_python(path) and (not folders or path.relative_to(ROOT).parts[0] in folders)
    )


def bash_scripts() -> list[Path]:
    """The programs that say so in their first line."""
    return sorted(path for path in files() if path.read_bytes().startswith(b"#!/usr/bin/env bash"))


def programs() -> list[Path]:
    """Everything in scripts/ that a person starts."""
    return sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix)


def name(path: Path) -> str:
    """A file's path as it is shown in a test's name or a failure."""
    return str(path.relative_to(ROOT))


def copy_to(target: Path, *names: str) -> Path:
    """A copy of some top-level files and folders, for a test that breaks or moves them."""
    for each in names:
        source = ROOT / each
        if source.is_dir():
            shutil.copytree(source, target / each, symlinks=True, ignore=shutil.ignore_patterns(*CACHES))
        else:
            shutil.copy2(source, target / each)
    return target
