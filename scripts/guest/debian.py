# SPDX-License-Identifier: Apache-2.0
"""Debian suites by an apt of our own: the host's mirror, signatures checked, nothing of the host's changed."""

import re
from pathlib import Path

from scripts.guest.errors import VmError
from scripts.guest.tools import call

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_TARGETS = "$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(REPO_URI)"


def find_mirror(targets: str | None = None) -> str:
    """The archive that the host's apt takes Debian from.

    Raises:
        VmError: it takes it from nowhere.
    """
    if targets is None:
        targets = call(("apt-get", "indextargets", "--format", _TARGETS, "Created-By: Packages"))
    for line in targets.splitlines():
        origin, component, release, uri = [*line.split("|"), "", "", ""][:4]
        if origin == "Debian" and component == "main" and not release.endswith("-security"):
            return uri.rstrip("/")
    raise VmError("the host's apt knows no Debian archive (apt-get update was never run?): name one with --mirror")


_PASSED_ON = ("Acquire::Check-", "Acquire::http", "Acquire::Retries", "Acquire::ForceIPv")


def host_settings(dump: str | None = None) -> list[str]:
    """How the host's apt reaches its mirror and what it believes of it, as lines of a configuration."""
    if dump is None:
        dump = call(("apt-config", "dump", "--no-empty", "--format", '%F "%v";%n', "Acquire"))
    return [line for line in dump.splitlines() if line.startswith(_PASSED_ON)]


class Suite:
    """One suite of the archive.

    Args:
        folder: where its lists are kept.
        mirror: the archive.
        name: such as bookworm.
    """

    def __init__(self, folder: Path, mirror: str, name: str) -> None:
        self.name = name
        self.mirror = mirror
        self.source = f"deb [signed-by={KEYRING}] {mirror} {name} main"
        self._folder = folder / name
        self._options: tuple[str, ...] = ()

    def update(self) -> None:
        """Fetch the suite's lists."""
        lists = self._folder / "lists"
        for each in (lists / "partial", self._folder / "archives" / "partial"):
            each.mkdir(parents=True, exist_ok=True)
        (self._folder / "status").touch()
        (self._folder / "sources.list").write_text(self.source + "\n", encoding="utf-8")
        settings = {
            "Dir::State": self._folder,
            "Dir::State::lists": lists,
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder,
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferencesparts": "-",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
        }
        self._options = tuple(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))
        call(("apt-get", "-qq", *self._options, "update"))

    def names(self) -> set[str]:
        """Every package that it has."""
        return set(call(("apt-cache", *self._options, "pkgnames")).split())

    def download(self, package: str, folder: Path) -> Path:
        """Fetch one package, as a file in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        call(("apt-get", "-qq", *self._options, "download", package), cwd=folder)
        found = sorted(folder.glob(f"{package}_*.deb"))
        if not found:
            raise VmError(f"apt fetched no {package} from {self.name}")
        return found[-1]


_NUMBER = re.compile(r"(\d+)")


def by_version(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts names with their numbers as numbers."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in _NUMBER.split(name))


_IMAGE = re.compile(r"linux-(?:image|binary-unsigned)-(\d[\w.+~]*(?:-\d+)?)-amd64(-unsigned)?")


def kernel_packages(names: set[str]) -> tuple[str, list[str]]:
    """The newest kernel among a suite's packages: its version, and which packages hold image and modules.

    Unsigned ones: they hold the same kernel, and are made by the source package itself.

    Raises:
        VmError: there is none.
    """
    found: dict[str, str] = {}
    for name in names:
        match = _IMAGE.fullmatch(name)
        if match and (name.startswith("linux-binary") or match[2]):
            found[f"{match[1]}-amd64"] = name
    if not found:
        raise VmError("the suite has no kernel package that is known here (linux-image-VERSION-amd64-unsigned)")
    version = max(found, key=by_version)
    split = (f"linux-modules-{version}", f"linux-base-{version}")  # the latter says what is built in
    return version, [found[version], *(each for each in split if each in names)]
