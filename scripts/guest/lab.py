# SPDX-License-Identifier: Apache-2.0
"""The cache: kernels, roots, libraries, results and measured times, made when first asked for."""

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from scripts.guest import kernels, roots
from scripts.guest.debian import Suite, find_mirror
from scripts.guest.errors import VmError
from scripts.guest.kernels import Kernel, Series
from scripts.guest.roots import Root

MAKING_S = {"kernel": 40.0, "root": 100.0}
"""On two cores and a fast mirror."""
_ROOM_BYTES = 4 << 30

_T = TypeVar("_T")


def default_cache() -> Path:
    """Outside of the tree, where caches of the user belong."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oomtrace-vm"


def say(text: str) -> None:
    """Progress."""
    print(f"vm: {text}", flush=True)


class Lab:
    """Whatever a boot needs from the cache.

    Args:
        cache: its folder.
        mirror: of Debian; `None`: the host's.
    """

    def __init__(self, cache: Path, mirror: str | None) -> None:
        self.cache = cache
        self._mirror = mirror
        self._suites: dict[str, Suite] = {}

    @contextmanager
    def held(self) -> Iterator[Path]:
        """Ours alone for the time, with a folder for what goes away at the end."""
        self.cache.mkdir(parents=True, exist_ok=True)
        with (self.cache / "lock").open("w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("waiting for another scripts/vm with this cache")
                fcntl.flock(lock, fcntl.LOCK_EX)
            for left in self.cache.glob("work-*"):  # of one that was killed
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix="work-", dir=self.cache) as work:
                yield Path(work)

    def _suite(self, name: str) -> Suite:
        if name not in self._suites:
            self._mirror = self._mirror or find_mirror()
            suite = Suite(self.cache / "apt", self._mirror, name)
            suite.update()
            self._suites[name] = suite
        return self._suites[name]

    def missing(self, wanted: list[Series]) -> list[str]:
        """What would have to be made first: "kernel 6.1", "root bookworm"."""
        absent = [f"kernel {each.name}" for each in wanted if kernels.cached(self._kernel_folder(each)) is None]
        suites = dict.fromkeys(suite for each in wanted for suite in (each.suite, each.beside) if suite)
        return absent + [f"root {suite}" for suite in suites if roots.cached(self.cache / "roots", suite) is None]

    def _kernel_folder(self, series: Series) -> Path:
        return self.cache / "kernels" / series.name

    def kernel(self, series: Series, work: Path) -> Kernel:
        """Its files; the initrd is written each time, as it is ours."""
        folder = self._kernel_folder(series)
        folder.parent.mkdir(parents=True, exist_ok=True)
        found = kernels.cached(folder)
        if found is None:
            made = f"fetching the newest kernel of {series.suite}"
            found = self._timed(made, lambda: kernels.make(self._suite(series.suite), folder))
        kernels.write_initrd(found, work)
        return found

    def root(self, suite: str) -> Root:
        """Its image."""
        folder = self.cache / "roots"
        found = roots.cached(folder, suite)
        if found is None:
            if roots.free_bytes(self.cache) < _ROOM_BYTES:
                raise VmError(
                    f"less than {_ROOM_BYTES >> 30} GiB are free below {self.cache}: name another with --cache"
                )
            found = self._timed(f"making the root of {suite}", lambda: roots.make(self._suite(suite), folder))
        return found

    def refresh(self, wanted: list[Series]) -> None:
        """Forget kernels and roots, so that the newest are fetched."""
        for each in wanted:
            shutil.rmtree(self._kernel_folder(each), ignore_errors=True)
            for suite in (each.suite, each.beside):
                if suite:
                    (self.cache / "roots" / f"{suite}.json").unlink(missing_ok=True)

    @staticmethod
    def _timed(what: str, make: Callable[[], _T]) -> _T:
        say(f"{what} ...")
        since_s = time.monotonic()
        made = make()
        say(f"{what}: done in {time.monotonic() - since_s:.0f} s")
        return made


class Times:
    """How long things took here, for the next estimate.

    Args:
        path: a file of the cache.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds: dict[str, float] = {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            self.seconds = {str(key): float(value) for key, value in content.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass

    def keep(self, key: str, seconds: float) -> None:
        """The latest counts as much as all before it."""
        before = self.seconds.get(key)
        self.seconds[key] = round(seconds if before is None else (before + seconds) / 2, 1)
        self._path.write_text(json.dumps(self.seconds, sort_keys=True), encoding="utf-8")
