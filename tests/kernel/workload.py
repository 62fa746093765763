# SPDX-License-Identifier: Apache-2.0
"""What kernel tests work with: a memory cgroup of their own, a process that does as it is told, what was seen."""

import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import DEADLINE_S, put_down, wait_for
from tracer.events import AnyEvent, KernelStack, OomMark
from tracer.kernel.session import Session
from tracer.sources.live import LiveSource
from tracer.units import TICK_NS

HOG = Path(__file__).with_name("hog.py")
V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class MemoryCgroup:
    """A memory cgroup of the version that this machine has; everything in it is ended with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.version = 1 if path.is_relative_to(V1) else 2
        path.mkdir()

    @classmethod
    def make(cls) -> "MemoryCgroup":
        root = V1 if (V1 / "memory.limit_in_bytes").exists() else V2
        if root is V2:
            (root / "cgroup.subtree_control").write_text("+memory")
        return cls(root / f"oomtrace-test-{secrets.token_hex(4)}")

    def child(self, name: str) -> "MemoryCgroup":
        if self.version == 2:
            (self.path / "cgroup.subtree_control").write_text("+memory")
        return MemoryCgroup(self.path / name)

    def limit(self, limit_bytes: int) -> None:
        self.file("memory.max", "memory.limit_in_bytes").write_text(str(limit_bytes))

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def file(self, v2: str, v1: str) -> Path:
        return self.path / (v1 if self.version == 1 else v2)

    @property
    def id(self) -> int:
        return self.path.stat().st_ino

    def number(self, v2: str, v1: str) -> int:
        text = self.file(v2, v1).read_text().strip()
        return 1 << 63 if text == "max" else int(text)

    def key(self, v2: str, v1: str, name: str) -> int:
        """One line `name number` of a file."""
        lines = dict(line.split() for line in self.file(v2, v1).read_text().splitlines())
        return int(lines[name])

    def remove(self) -> None:
        folders = [Path(top) for top, _, _ in os.walk(self.path, topdown=False)]

        def empty() -> bool:
            pids = [int(pid) for folder in folders for pid in (folder / "cgroup.procs").read_text().split()]
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            return not pids

        wait_for(empty, f"{self.path} to become empty")
        for folder in folders:
            folder.rmdir()


class Hog:
    """A process that runs lines of Python, see hog.py; outside of any cgroup until it is put into one."""

    def __init__(self, *prefix: str) -> None:
        command = [*prefix, sys.executable, "-I", "-S", str(HOG)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    @property
    def start_ticks(self) -> int:
        return start_ticks(self.pid)

    def do(self, line: str) -> str:
        """Runs it to its end; what it says."""
        self.tell(line)
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> None:
        """Has it run, for lines that do not end well."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self) -> int:
        """Exit code, or minus the signal's number."""
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        put_down(self.process)


class Watch:
    """A session, and all that it has seen so far."""

    def __init__(self, session: Session) -> None:
        self.session, self.source = session, LiveSource(session)
        self.events: list[AnyEvent] = []

    def read(self) -> list[AnyEvent]:
        self.events += self.source.read()
        return self.events

    def of(self, kind: type, **fields: object) -> list:
        """All events of a class with these fields, so far."""
        matching = (e for e in self.read() if isinstance(e, kind))
        return [e for e in matching if all(getattr(e, name) == value for name, value in fields.items())]

    def wait(self, kind: type, **fields: object):
        """The first such event."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := self.of(kind, **fields)):
            assert time.monotonic() < deadline, f"no {kind.__name__} with {fields} among {self.events[-20:]}"
            select.select([self.source], [], [], 0.01)
        return found[0]

    def kill(self, tgid: int) -> tuple[OomMark, KernelStack]:
        """The mark of a process and its stack, once both are there."""
        mark = self.wait(OomMark, tgid=tgid)
        return mark, self.wait(KernelStack, mark_ts_ns=mark.ts_ns)


class KernelLog:
    """/dev/kmsg from now on."""

    KILLED = re.compile(
        r"Killed process (?P<pid>\d+) \((?P<comm>.*)\) total-vm:(?P<total_vm>\d+)kB, anon-rss:(?P<anon>\d+)kB, "
        r"file-rss:(?P<file>\d+)kB, shmem-rss:(?P<shmem>\d+)kB, UID:(?P<uid>\d+) pgtables:(?P<pgtables>\d+)kB "
        r"oom_score_adj:(?P<adj>-?\d+)",
        re.DOTALL,
    )

    def __init__(self) -> None:
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)
        self.texts: list[str] = []

    def records(self) -> Iterator[str]:
        while True:
            try:
                record = os.read(self.fd, 16384)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # overwritten: goes on with the oldest that is left
            head, _, text = record.decode("utf-8", "backslashreplace").partition(";")
            if int(head.split(",")[0]) < 8:
                yield text.partition("\n")[0]

    def killed(self, pid: int) -> dict[str, str]:
        """The kernel's own words about one kill."""
        found: list[dict[str, str]] = []

        def there() -> bool:
            self.texts += self.records()
            found[:] = [m.groupdict() for m in map(self.KILLED.search, self.texts) if m and m["pid"] == str(pid)]
            return bool(found)

        wait_for(there, f"the report about {pid}")
        return found[0]

    def close(self) -> None:
        os.close(self.fd)


def filesystem_of(path: Path) -> str:
    """Type of the file system that a path lies on."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return max((len(point), kind) for point, kind in mounts if path.is_relative_to(point))[1]


def start_ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat, counted from behind the name."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def start_ns(pid: int) -> int:
    """As user space knows it: floored to a tick."""
    return start_ticks(pid) * TICK_NS
