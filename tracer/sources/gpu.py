# SPDX-License-Identifier: Apache-2.0
"""What NVML says of GPUs: asked in a process of its own (`tracer.sources.nvml`), answered some time, or never.

Nothing here waits. On a machine without NVIDIA's driver no process is started, and no library is loaded anywhere.
"""

import contextlib
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import msgspec

from tracer.events import GpuPeak, GpuSample, GpuStatus
from tracer.pseudofiles import read_bytes
from tracer.units import NS_PER_S

SIGNS = ("/dev/nvidiactl", "/proc/driver/nvidia", "/usr/lib/wsl/lib/libnvidia-ml.so.1")
"""One of them is there wherever NVML may have something to say. /proc shows the driver in containers without a GPU."""
PATIENCE_NS = 5 * NS_PER_S
"""Without persistence mode the first call loads firmware into each device, which takes seconds."""
NO_DRIVER = "no NVIDIA driver"
_LINE_BYTES = 4 << 20
_PROGRAM = os.path.join(os.path.dirname(__file__), "nvml.py")


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What one line of the process says."""

    status: GpuStatus | None = None
    samples: tuple[GpuSample, ...] = ()
    peaks: tuple[GpuPeak, ...] = ()
    took_ns: int = 0


@dataclass(frozen=True)
class GpuUnavailable:
    """Why nobody is asked."""

    why: str
    driver_version: str | None = None

    def status(self, now_ns: int) -> GpuStatus:
        """As the event that says so."""
        return GpuStatus(
            ts_ns=now_ns, source="nvml", available=False, why_not=self.why, driver_version=self.driver_version
        )


@final
class GpuSource:
    """The process that asks, and how long it has owed an answer. It is `busy` from the start: it owes its status."""

    def __init__(self, pid: int, requests: int, answers: int) -> None:
        self.pid = pid
        self._requests = requests
        self._answers = answers
        self._owed = 1
        self._since_ns = time.monotonic_ns()
        self._late = False
        self._ended = False
        self._buffer = b""
        self._status: int | None = None
        self._silent: int | None = None
        self._told: GpuStatus | None = None

    @classmethod
    def open(cls, *, signs: Iterable[str] = SIGNS, proc_root: str = "/proc") -> "GpuSource | GpuUnavailable":
        """Start it, where there is something to ask."""
        if not any(map(os.path.exists, signs)):
            return GpuUnavailable(NO_DRIVER)
        driver = driver_version(proc_root)
        spec = importlib.util.find_spec("pynvml")  # found, not imported
        if spec is None or spec.origin is None:
            return GpuUnavailable("the Python package nvidia-ml-py is not installed", driver)
        try:
            return cls(*_spawn(os.path.dirname(spec.origin)))
        except OSError as error:
            return GpuUnavailable(f"the process that asks NVML could not be started: {error.strerror}", driver)

    @property
    def busy(self) -> bool:
        """Whether an answer is owed, in time or not."""
        return self._owed > 0 and not self._ended

    @property
    def ended(self) -> bool:
        """Whether no answer will ever come."""
        return self._ended

    def fileno(self) -> int:
        return self._answers

    def sample(self) -> None:
        """Ask for memory and processes of all devices."""
        self._ask(b"sample\n")

    def peaks(self, pids: Iterable[int]) -> None:
        """Ask what the driver's accounting kept of these."""
        self._ask(b"peaks %s\n" % b" ".join(b"%d" % pid for pid in pids))

    def read(self) -> Sequence[Answer]:
        """The answers that are there. That it ended is one, too: as a status, once."""
        if self._ended:
            return ()
        try:
            part = os.read(self._answers, 1 << 16)
        except BlockingIOError:
            return ()
        except OSError:
            part = b""
        if not part:
            return self._end(None)
        *lines, self._buffer = (self._buffer + part).split(b"\n")
        if len(self._buffer) > _LINE_BYTES:
            return self._end("it gave an answer without an end")
        found: list[Answer] = []
        for line in lines:
            try:
                found.append(msgspec.json.decode(line, type=Answer))
            except (msgspec.DecodeError, ValueError) as error:
                return (*found, *self._end(f"it gave an answer that is none: {error}"))
            self._owed = max(0, self._owed - 1)
        if found:
            found[0] = self._in_time_again(found[0])
            self._since_ns, self._late = time.monotonic_ns(), False
            self._told = next((one.status for one in reversed(found) if one.status is not None), self._told)
        return found

    def _in_time_again(self, answer: Answer) -> Answer:
        """The process says only what is new to it, and does not know that it was given up."""
        if not self._late or answer.status is not None or self._told is None:
            return answer
        return msgspec.structs.replace(answer, status=msgspec.structs.replace(self._told, ts_ns=time.monotonic_ns()))

    def late(self, now_ns: int) -> GpuStatus | None:
        """That an answer is overdue, said once. It may still come, and is then taken."""
        if self._late or not self.busy or now_ns - self._since_ns < PATIENCE_NS:
            return None
        self._late = True
        return self._unavailable(f"no answer from NVML within {PATIENCE_NS // NS_PER_S} s", now_ns)

    @property
    def overdue(self) -> bool:
        """Whether that was said, and no answer has come since."""
        return self._late or self._ended

    def close(self, *, patience_s: float = 0.2) -> None:
        """End it, once. One that waits in the driver cannot be ended, and is left behind: nobody waits for it."""
        self._ended = True
        for fd in filter(None, (self._requests, self._answers, self._silent)):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._requests = self._answers = self._silent = -1
        if self.pid <= 0:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)  # a child that was not waited for yet: its pid is nobody else's
        deadline = time.monotonic() + patience_s
        while not self._reaped() and time.monotonic() < deadline:
            time.sleep(0.002)

    def _ask(self, line: bytes) -> None:
        if self._ended:
            return
        if not self._owed:
            self._since_ns = time.monotonic_ns()
        with contextlib.suppress(OSError):  # full: it hangs, and `late` says so; broken: `read` says so
            os.write(self._requests, line)
            self._owed += 1

    def _end(self, why: str | None) -> tuple[Answer, ...]:
        self._ended = True
        # Whoever waits for the descriptor must not be woken for ever: a pipe that says nothing takes its number.
        silent, self._silent = os.pipe2(os.O_CLOEXEC)
        os.dup2(silent, self._answers, inheritable=False)
        os.close(silent)
        if why is None:
            self._reaped(wait=True)
            why = "the process that asks NVML ended" if self._status is None else _how(self._status)
        return (Answer(status=self._unavailable(why, time.monotonic_ns())),)

    def _reaped(self, *, wait: bool = False) -> bool:
        """Whether it is gone."""
        deadline = time.monotonic() + (0.1 if wait else 0)
        while self.pid > 0:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, None
            if pid:
                self.pid, self._status = 0, status
            elif time.monotonic() >= deadline:
                return False
            else:
                time.sleep(0.002)
        return True

    def _unavailable(self, text: str, now_ns: int) -> GpuStatus:
        return GpuUnavailable(text).status(now_ns)


def driver_version(proc_root: str = "/proc") -> str | None:
    """Of the kernel's module, without asking NVML."""
    words = (read_bytes(f"{proc_root}/driver/nvidia/version", 4096) or b"").decode("utf-8", "replace").split()
    version = next((word for word in words if word[:1].isdigit() and "." in word), None)
    return None if version is None else version[:40]


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"the process that asks NVML ended: {f'signal {-code}' if code < 0 else f'exit {code}'}"


def _spawn(folder: str) -> tuple[int, int, int]:
    read_requests, requests = os.pipe2(os.O_CLOEXEC)
    answers, write_answers = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for fd in (requests, answers):
        os.set_blocking(fd, False)
    python = sys.executable or "/usr/bin/python3"
    # As ld.so has read it for this process already: some Pythons and some containers find libraries by it alone.
    environ = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    try:
        pid = os.posix_spawn(
            python,
            [python, "-I", "-S", _PROGRAM, folder],
            environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate((read_requests, write_answers, null))],
            setsid=True,
            setsigmask=signal.valid_signals(),
        )
    except OSError:
        os.close(requests)
        os.close(answers)
        raise
    finally:
        for fd in (read_requests, write_answers, null):
            os.close(fd)
    return pid, requests, answers
