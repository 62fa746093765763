# SPDX-License-Identifier: Apache-2.0
"""The systemd that owns the cgroups here, asked over D-Bus through its own `busctl`. Never waits for long.

In a tree of systemd's only systemd makes cgroups (its single-writer rule): what others make there it may
undo at any reload, and below a session or a service none with a limit can be made at all.
"""

import os
import re
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.errors import CgroupUnavailable

BUSCTL = ("/usr/bin/busctl", "/bin/busctl", "/run/current-system/sw/bin/busctl")
"""Never through PATH, which is the caller's."""
PATIENCE_S = 5.0

_SERVICE, _OBJECT = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
_MANAGER = "org.freedesktop.systemd1.Manager"
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
"""Old versions colour an error whatever it is written to."""
_KINDS = {"scope": "Scope", "service": "Service", "slice": "Slice"}


class Refused(CgroupUnavailable):
    """systemd answered, and said no."""


@dataclass(frozen=True)
class Unit:
    """What of a unit matters to its cgroup."""

    name: str
    control_group: str
    slice: str
    """The slice that it stands in; a slice itself: its own name."""


def is_booted(*, run_root: str = "/run", proc_root: str = "/proc", own_pid: int | None = None) -> bool:
    """Whether process 1 is systemd, and /proc shows the pids that it goes by."""
    if not os.path.isdir(f"{run_root}/systemd/system"):
        return False
    try:
        with open(f"{proc_root}/1/comm", "rb") as file:
            comm = file.read().strip()
        return comm == b"systemd" and int(os.readlink(f"{proc_root}/self")) == (own_pid or os.getpid())
    except (OSError, ValueError):
        return False


def find_busctl(candidates: Sequence[str] = BUSCTL, *, owner: int = 0) -> str | None:
    """The program, where nobody but root can have changed it."""
    for path in candidates:
        try:
            file = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(file.st_mode) and file.st_uid == owner and not file.st_mode & 0o022:
            return path
    return None


class Manager:
    """The system's service manager, or that of one user.

    Args:
        busctl: path of the program.
        user: the caller's own service manager is meant, not the system's.
        environ: the caller's environment, which names the user's bus; that of the system is at a fixed place.
    """

    def __init__(
        self,
        busctl: str,
        *,
        user: bool = False,
        environ: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._command = (busctl, "--no-pager", "--user" if user else "--system")
        self._patience_s = patience_s
        self._environ = {"LC_ALL": "C", "SYSTEMD_COLORS": "0"}
        if user:
            runtime = f"/run/user/{os.getuid()}"
            given = {} if environ is None else environ
            for name in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"):
                if given.get(name):
                    self._environ[name] = given[name]
            if os.path.isdir(runtime):
                self._environ.setdefault("XDG_RUNTIME_DIR", runtime)

    def control_group(self) -> str:
        """The cgroup below which it has all of its units.

        Raises:
            CgroupUnavailable: it does not answer.
        """
        answer = self._ask("get-property", _SERVICE, _OBJECT, _MANAGER, "ControlGroup")
        return _strings(answer)[0] or "/"

    def unit_of(self, pid: int) -> Unit | None:
        """The unit that a process belongs to; `None`: to none that it knows.

        Raises:
            CgroupUnavailable: it does not answer.
        """
        try:
            path = _strings(self._ask("call", _SERVICE, _OBJECT, _MANAGER, "GetUnitByPID", "u", str(pid)))[0]
        except Refused:
            return None
        name = _strings(self._ask("get-property", _SERVICE, path, f"{_SERVICE}.Unit", "Id"))[0]
        kind = _KINDS.get(name.rpartition(".")[2])
        if kind is None:
            return None
        answer = self._ask("get-property", _SERVICE, path, f"{_SERVICE}.{kind}", "Slice", "ControlGroup")
        found = _strings(answer)
        above, control_group = found[0], found[-1]
        return Unit(
            name=name,
            control_group=control_group or "/",
            slice=name if kind == "Slice" else above or "-.slice",
        )

    def start_scope(self, name: str, properties: Sequence[tuple[str, ...]]) -> None:
        """A transient scope; each property is its name, its D-Bus type and the words of its value.

        Raises:
            Refused: systemd said no.
            CgroupUnavailable: it does not answer.
        """
        words = [word for each in properties for word in each]
        call = ("call", _SERVICE, _OBJECT, _MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))")
        self._ask(*call, name, "fail", str(len(properties)), *words, "0")

    def _ask(self, *words: str) -> str:
        try:
            done = subprocess.run(
                (*self._command, *words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd="/",
                env=self._environ,
                timeout=self._patience_s,
                check=False,
                start_new_session=True,  # a Ctrl-C is for the job
            )
        except subprocess.TimeoutExpired as error:
            raise CgroupUnavailable(
                f"systemd gave no answer over D-Bus within {self._patience_s:g} s: leave out --memory-max"
            ) from error
        except OSError as error:
            raise CgroupUnavailable(f"cannot run {self._command[0]}: {error.strerror}") from error
        if done.returncode == 0:
            return done.stdout.decode("utf-8", "backslashreplace")
        lines = _COLOR.sub("", done.stderr.decode("utf-8", "backslashreplace")).strip().split("\n")
        text = lines[-1].strip().removeprefix("Call failed: ") or f"busctl ended with {done.returncode}"
        if text.startswith(("Failed to connect", "Failed to set address", "Failed to get bus", "Connection timed out")):
            raise CgroupUnavailable(
                f"systemd cannot be reached over D-Bus ({text}): start that (systemctl start dbus), "
                "or leave out --memory-max"
            )
        raise Refused(text)


def _strings(answer: str) -> list[str]:
    """The strings in what busctl prints: `s "user-1000.slice"`, one value a line, C escapes."""
    found = [re.sub(r"\\(.)", r"\1", text) for text in _STRING.findall(answer)]
    if not found:
        raise CgroupUnavailable(f"systemd's answer is not understood: {answer.strip()[:80]!r}")
    return found
