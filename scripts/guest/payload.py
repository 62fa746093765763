# SPDX-License-Identifier: Apache-2.0
"""What is taken into the guest: this checkout and the locked libraries, packed into one small read-only image."""

import hashlib
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.guest.errors import VmError
from scripts.guest.tools import call

ROOT = Path(__file__).resolve().parents[2]
_TAKEN = ("tracer", "bpf")
_INSIDE = ROOT / "scripts" / "guest" / "inside"
_LOCK = ROOT / "scripts" / "requirements.lock"


def digest(root: Path = ROOT) -> str:
    """Of everything that decides what a scenario does: with it results are known to be of this checkout."""
    sha = hashlib.sha256()
    for path in (*_files(root), *sorted((root / "scripts" / "guest" / "inside").iterdir())):
        if path.is_file():
            sha.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            sha.update(path.read_bytes())
    sha.update((root / "scripts" / "requirements.lock").read_bytes())
    return sha.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    for folder in _TAKEN:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and not path.is_symlink():
                yield path


_PIN = re.compile(r"^([A-Za-z0-9._-]+)==")


def runtime_lock(lock: str) -> str:
    """The part of a lock file that the project itself needs, without what only its development does.

    Followed by the "via" comments: who asked for each.
    """
    entries: dict[str, list[str]] = {}
    for line in lock.splitlines():
        match = _PIN.match(line)
        if match:
            name = match[1]
            while name in entries:  # one more for another Python
                name += "'"
            entries[name] = []
        if entries and (match or line.startswith(" ")):
            next(reversed(entries.values())).append(line)
    asked_by = {name: set(_askers(lines)) for name, lines in entries.items()}
    wanted = {"oomtrace (pyproject.toml)"}
    while True:
        more = {name for name, askers in asked_by.items() if askers & wanted} - wanted
        if not more:
            break
        wanted |= more
    return "".join(f"{line}\n" for name, lines in entries.items() if name in wanted for line in lines)


def _askers(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        text = line.strip()
        if text.startswith("#"):
            yield text.lstrip("# ").removeprefix("via ").strip()


def libraries(cache: Path, python: str) -> Path:
    """The locked libraries, as wheels for one Python, in a folder of the cache."""
    wanted = runtime_lock(_LOCK.read_text(encoding="utf-8"))
    folder = cache / "libs" / f"{python}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if folder.exists():
        return folder
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    (new / "wanted.lock").write_text(wanted, encoding="utf-8")
    call(
        (
            python_of_checkout(), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "install",
            "--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation=cp",
            f"--python-version={python}", "--target", new / "libs", "-r", new / "wanted.lock",
        )
    )  # fmt: skip
    (new / "libs").rename(folder)
    shutil.rmtree(new)
    return folder


def python_of_checkout() -> Path:
    """The interpreter that has pip and the locked libraries.

    Raises:
        VmError: this checkout was not set up.
    """
    python = ROOT / ".venv" / "bin" / "python"
    if python.exists():
        return python
    if (Path(sys.prefix) / "bin" / "oomtrace").exists():
        return Path(sys.executable)
    raise VmError("this checkout has no .venv: run scripts/setup first")


def write_image(image: Path, libs: Path) -> None:
    """The checkout, what runs in the guest, and the libraries, as one image."""
    tree = image.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in _TAKEN:
        shutil.copytree(ROOT / folder, tree / "checkout" / folder, symlinks=True, ignore=ignored)
    shutil.copytree(_INSIDE, tree / "inside", ignore=ignored)
    shutil.copytree(libs, tree / f"libs-{libs.name.partition('-')[0]}", ignore=ignored)
    _readable(tree)
    used_bytes = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    with image.open("wb") as file:
        file.truncate(used_bytes * 3 // 2 + (16 << 20))
    owner = ("-E", "root_owner=0:0")
    call(("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", *owner, "-d", tree, image))
    shutil.rmtree(tree)


def _readable(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
