# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest: each scenario of the plan, one after the other; what it said and how it ended goes to files.

Knows nothing of what a scenario means. A scenario without `ended.json` is one that the guest did not survive.
"""

import contextlib
import ctypes
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

WORK = Path("/var/tmp/scenario")  # noqa: S108 - the guest is ours alone
CHECKOUT = "/oomtrace/checkout"
WARM_S = 300.0
MCL_CURRENT, MCL_FUTURE = 1, 2
EVENTS = Path("/sys/kernel/tracing/events")
BTF = Path("/sys/kernel/btf/vmlinux")
FORMATS = (
    "oom/mark_victim", "signal/signal_generate", "sched/sched_process_fork", "sched/sched_process_exec",
    "sched/sched_process_exit", "printk/console", "vmscan/mm_vmscan_memcg_reclaim_begin",
    "vmscan/mm_vmscan_memcg_reclaim_end", "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
)  # fmt: skip
"""Tracepoints whose layout is kept with the rest."""


def main(results: Path) -> int:
    """Exit code; what was found lies in files."""
    protect()
    plan = json.loads((results / "plan.json").read_text(encoding="utf-8"))
    found = {"release": platform.release(), "python": platform.python_version(), **_warm()}
    _write(results / "guest.json", {**found, "boot_s": float(Path("/proc/uptime").read_text("ascii").split()[0])})
    if plan["layouts"]:
        with contextlib.suppress(OSError):  # the rest is no less true without
            copy_layouts(results / "layouts")
    why_not = without(plan["cgroup"], Path("/proc/self/mounts").read_text(encoding="utf-8"))
    for scenario in plan["scenarios"]:
        if why_not is None:
            run(scenario, results / scenario["name"])
        else:
            _pass_over(results / scenario["name"], why_not)
    _write(results / "finished.json", {})
    return 0


def copy_layouts(target: Path) -> None:
    """Formats of tracepoints and type information of the kernel that runs, all or nothing.

    Raises:
        OSError: this kernel has no type information, or it cannot be written.
    """
    new = target.with_name(target.name + ".new")
    (new / "formats").mkdir(parents=True)
    for name in FORMATS:
        with contextlib.suppress(OSError):  # not every kernel has every one
            text = (EVENTS / name / "format").read_bytes()
            (new / "formats" / f"{name.replace('/', '-')}.txt").write_bytes(text)
    shutil.copyfile(BTF, new / BTF.with_suffix(".btf").name)
    new.rename(target)


def without(cgroup: str, mounts: str) -> str | None:
    """Why this is not a machine of that hierarchy of cgroups."""
    for line in mounts.splitlines():
        _, _, kind, options, *_ = line.split()
        if cgroup == "v2" and kind == "cgroup2":
            return None
        if cgroup == "v1" and kind == "cgroup" and "memory" in options.split(","):
            return None
    return f"this kernel, or the systemd of this release, has no memory controller of cgroup {cgroup}"


def _pass_over(folder: Path, why_not: str) -> None:
    folder.mkdir(exist_ok=True)
    _write(folder / "stdout", {"outcome": "not_applicable", "reason": why_not})
    _write(folder / "ended.json", {"exit": 5, "timed_out": False, "seconds": 0.0})


def protect() -> None:
    """A kill of the whole machine is to hit the scenario: never us, nor our pages."""
    Path("/proc/self/oom_score_adj").write_text("-1000", encoding="ascii")
    ctypes.CDLL(None).mlockall(MCL_CURRENT | MCL_FUTURE)


def _warm() -> dict[str, Any]:
    # The first start reads LLVM from the disk, which under emulation takes longer than anyone would wait.
    command = ["/usr/bin/python3", "-I", "-B", "-c", "import bcc, sys; print(bcc.__version__, *sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=WARM_S, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"bcc": None, "why": str(error)}
    words = done.stdout.split()
    if len(words) != 3:
        return {"bcc": None, "why": done.stderr.strip()[-300:]}
    return {"bcc": words[0], "loader_python": ".".join(words[1:])}


def run(scenario: dict[str, Any], folder: Path) -> None:
    """One scenario, for no longer than it may take, and what the kernel logs meanwhile."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    folder.mkdir(exist_ok=True)
    (folder / "started").touch()
    command = [sys.executable, *scenario["command"]]
    command = [str(WORK / "recording.oomtrace") if word == "{record}" else word for word in command]
    log = None
    with contextlib.suppress(OSError):
        log = KernelLog(WORK / "kmsg")
    since_s = time.monotonic()
    with (WORK / "stdout").open("wb") as stdout, (WORK / "stderr").open("wb") as stderr:
        child = subprocess.Popen(
            # The driver cannot be killed for memory; what it starts can.
            ["/bin/sh", "-c", 'echo 0 >/proc/self/oom_score_adj; exec "$@"', "sh", *command],
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            status, timed_out = child.wait(scenario["timeout_s"]), False
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGTERM)  # it may have set something that is to be undone
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            status, timed_out = child.wait(), True
    seconds = time.monotonic() - since_s
    if log is not None:
        log.close()
    for path in WORK.iterdir():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    _write(folder / "ended.json", {"exit": status, "timed_out": timed_out, "seconds": round(seconds, 1)})


class KernelLog:
    """Copies the records of /dev/kmsg from now on into a file, as they come."""

    def __init__(self, target: Path) -> None:
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._fd, 0, os.SEEK_END)
        self._file = target.open("wb")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        while True:
            over = self._over.is_set()  # asked before the last look
            with contextlib.suppress(BlockingIOError):
                while True:
                    try:
                        self._file.write(os.read(self._fd, 8192))
                    except BrokenPipeError:
                        self._file.write(b"# records were overwritten before they were read\n")
            if over:
                return
            self._over.wait(0.02)

    def close(self) -> None:
        """Read what is still there, and end."""
        self._over.set()
        self._thread.join(60)
        self._file.close()
        os.close(self._fd)


def _write(path: Path, content: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
