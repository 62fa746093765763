# SPDX-License-Identifier: Apache-2.0
"""Sources that say what a test tells them to say."""

import contextlib
import os
import time

import psutil

from tracer.events import (
    CgroupSample,
    Losses,
    PressureSample,
    ProcessForked,
    ProcessLooked,
    ProcessSample,
    ProcessSeen,
    VmstatSample,
)
from tracer.kernel.probes import Hook
from tracer.pipeline.ports import Sources
from tracer.sources.procfs import Row
from tracer.units import TICK_NS

START_NS = 5 * TICK_NS


def forked(pid, **changes):
    """As the kernel tells of a process that this one forked just now."""
    fields = {
        "ts_ns": time.monotonic_ns(), "cpu": 0, "start_ns": START_NS + 3, "parent_start_ns": 7, "anon_rss_bytes": 0,
        "tgid": pid, "parent_tgid": os.getpid(), "ns_tgid": pid, "ns_level": 0, "own_tgid": pid,
        "own_parent_tgid": os.getpid(), "in_tree": 0, "comm": "python",
    }  # fmt: skip
    return ProcessForked(**(fields | changes))


class Feed:
    """A ring buffer or a kernel log: `say` makes it readable."""

    hooks = (Hook("raw_tracepoint:mark_victim", True, None, True),)
    start_to_armed_ns, transport = 7, "ring_buffer"
    pending = naming = False

    def __init__(self):
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.waiting, self.tracked, self.pairs = [], [], []
        self.untracked = []
        self.fault = None
        self.lost = Losses(ts_ns=0)
        self.following, self.switched, self.tells_forks = False, [], True

    def say(self, *events):
        self.waiting += events
        os.write(self._write_fd, b"x")

    def fileno(self):
        return self._read_fd

    def read(self):
        if self.fault is not None:
            raise self.fault
        with contextlib.suppress(BlockingIOError):
            os.read(self._read_fd, 4096)
        taken, self.waiting = self.waiting, []
        if self.following and self.tells_forks:
            taken += [forked(child.pid) for child in psutil.Process().children()]
        return taken

    def follow_all(self, *, on):
        self.following = on
        self.switched.append(on)

    def track(self, tgid, start_ns):
        self.tracked.append((tgid, start_ns))

    def track_running(self, tgid, start_ns):
        self.tracked.append((tgid, start_ns))

    def untrack(self, tgid, start_ns):
        self.untracked.append((tgid, start_ns))

    def calibrate(self, mark_ts_ns, log_usec):
        self.pairs.append((mark_ts_ns, log_usec))
        return True

    def losses(self, now_ns):
        return self.lost

    def reclaim(self, now_ns):
        return []

    def close(self):
        os.close(self._read_fd)
        os.close(self._write_fd)


class Processes:
    """Every process is there, unless it is in `gone`."""

    def __init__(self):
        self.gone, self.rss_bytes, self.below = set(), 100, {}
        self.fault = None
        self.looks = []
        self.glances, self.scans = 0, []

    def seen(self, tgid):
        if tgid in self.gone:
            return None
        return ProcessSeen(ts_ns=1, source="proc", start_ns=START_NS, tgid=tgid, parent_tgid=1, comm="x")

    def looked(self, tgid):
        self.looks.append(tgid)
        return None if tgid in self.gone else ProcessLooked(ts_ns=1, source="proc", start_ns=START_NS, tgid=tgid)

    def sample(self, tgid, start_ns):
        if self.fault is not None:
            raise self.fault
        if tgid in self.gone:
            return None
        return ProcessSample(ts_ns=2, source="proc", start_ns=start_ns, tgid=tgid, rss_anon_bytes=self.rss_bytes)

    def moved(self, tgid, start_ns):
        self.glances += 1
        return 1

    def shm_files(self, tgids):
        self.scans.append(tuple(tgids))

    def start_ns(self, tgid):
        return None if tgid in self.gone else START_NS

    def code(self, tgid, known_bytes):
        return None

    def open_code(self, tgid, start_ns, library):
        return None

    def shm(self, tgid):
        return None

    def tmpfs(self, tgid, signalled_tgid):
        return None

    def table(self):
        return [Row(tgid, parent, START_NS) for parent, below in self.below.items() for tgid in below]


class Cgroups:
    """One cgroup below the root."""

    version = 2

    def __init__(self):
        self.usage_bytes, self.limit_bytes, self.file_bytes = 10, 1000, 0
        self.oom_kill = None
        self.inside = ()

    def memory_cgroup_of(self, tgid):
        return "/job"

    def chain(self, path):
        return (path, "/")

    def cgroup_id(self, path):
        return 77

    def processes(self, path):
        return self.inside

    def usage(self, path):
        return self.usage_bytes

    def sample(self, path):
        if path == "/":
            return None
        return CgroupSample(
            ts_ns=3,
            source="cgroup",
            path=path,
            usage_bytes=self.usage_bytes,
            limit_bytes=self.limit_bytes,
            file_bytes=self.file_bytes,
            oom_kill=self.oom_kill,
        )


class Host:
    def pressure(self):
        return PressureSample(ts_ns=4, source="pressure", mem_free_bytes=1)

    def vmstat(self):
        return VmstatSample(ts_ns=4, source="pressure", oom_kill=0)


def sources(**changes):
    given = {"processes": Processes(), "cgroups": Cgroups(), "host": Host(), "why_no_kernel": "no BPF here"}
    return Sources(**(given | changes))
