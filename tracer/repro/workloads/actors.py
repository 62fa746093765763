# SPDX-License-Identifier: Apache-2.0
"""Acts of others: processes beside the job, which are no part of it, and what they do to it. Standard library only."""

import contextlib
import ctypes
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from tracer.repro.workloads import stage
from tracer.repro.workloads.stage import MIB

FREEZER_V1 = "/sys/fs/cgroup/freezer"
PTRACE_SEIZE, PTRACE_DETACH, PTRACE_O_TRACEEXIT, PTRACE_EVENT_EXIT = 0x4206, 17, 0x40, 6
WALL = 0x4000_0000
"""For waitpid(2): what is traced is no child."""
OOMD_SETTINGS = "/run/systemd/oomd.conf.d/oomtrace.conf"


def watchdog(seconds: str) -> None:
    """Ends a job that takes far too long, or whose tracer is gone. Reads the job's pid, then `done`, from stdin."""
    line = sys.stdin.buffer.raw.readline().strip()  # type: ignore[union-attr]
    if not line.isdigit():  # the job never ran
        return
    pid = int(line)
    ready, _, _ = select.select([sys.stdin], [], [], float(seconds))
    if ready and sys.stdin.buffer.raw.readline() == b"done\n":  # type: ignore[union-attr]
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for folder, _, _ in os.walk(stage.cgroup()):
        with contextlib.suppress(OSError), open(f"{folder}/cgroup.procs", encoding="ascii") as file:
            for line in file:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(line), signal.SIGKILL)


def kill() -> None:
    """Sends SIGKILL."""
    _be_killer()
    os.kill(_job(), signal.SIGKILL)


def kill_a_worker() -> None:
    """Sends SIGKILL to one of the job's DataLoader workers, once all of them work."""
    _be_killer()
    os.kill(_workers(8)[0], signal.SIGKILL)


def _workers(count: int) -> list[int]:
    """So many that are called as DataLoader workers are, once they are there: of the scenario's cgroup or of all."""
    found: list[int] = []

    def all_there() -> bool:
        texts = [_text(f"{folder}/cgroup.procs") for folder, _, _ in os.walk(stage.cgroup())]
        inside = " ".join(texts).split()
        pids = map(int, inside or filter(str.isdecimal, os.listdir("/proc")))
        found[:] = [pid for pid in pids if _text(f"/proc/{pid}/comm") == "pt_data_worker\n"]
        return len(found) >= count

    stage.wait_for(all_there)
    return found


def tgkill() -> None:
    """Sends SIGKILL to the one thread."""
    _be_killer()
    pid = _job()
    stage.libc.syscall({"x86_64": 234, "aarch64": 131}[os.uname().machine], pid, pid, signal.SIGKILL)


def pidfd() -> None:
    """SIGKILL through a descriptor of the process."""
    _be_killer()
    try:
        descriptor = os.pidfd_open(_job())
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except (AttributeError, OSError) as error:
        stage.say("cannot", f"there is no pidfd here: {error}")
        os.kill(_job(), signal.SIGKILL)


def kill_cgroup() -> None:
    """Ends all of a cgroup by its file cgroup.kill."""
    _be_killer()
    pid = _job()
    try:
        with open(f"{stage.cgroup()}/cgroup.kill", "w", encoding="ascii") as file:
            file.write("1")
    except OSError:
        stage.say("cannot", "this kernel has no cgroup.kill (before 5.14)")
        os.kill(pid, signal.SIGKILL)


def kill_when_stuck(seconds: str = "0") -> None:
    """SIGKILL to a job that gets no further at its cgroup's limit."""
    _be_killer()
    pid = _job()
    base = stage.cgroup()
    if stage.version() == 1:
        stage.wait_for(lambda: stage.value(f"{base}/memory.oom_control", "under_oom"))
    else:
        stage.wait_for(
            lambda: stage.value(f"{base}/memory.events", "oom") or stage.value(f"{base}/memory.events", "high")
        )
    time.sleep(float(seconds))
    os.kill(pid, signal.SIGKILL)


def mark_the_dying() -> None:
    """Freezes the job, kills it by SIGKILL, which then waits, and has the OOM killer choose the one that is dying."""
    _be_killer()
    pid = _job()
    freezer = f"{FREEZER_V1}/oomtrace-repro-{secrets.token_hex(4)}"
    os.mkdir(freezer)
    try:
        _write(f"{freezer}/cgroup.procs", str(pid))
        _write(f"{freezer}/freezer.state", "FROZEN")
        stage.wait_for(lambda: "FROZEN" in _text(f"{freezer}/freezer.state"))
        os.kill(pid, signal.SIGKILL)
        # Alone in this cgroup with the frozen one, which the OOM killer chooses, marks and thereby thaws.
        stage.end_of(stage.child(_eat_beside, b"eater"))
    finally:
        _write(f"{freezer}/freezer.state", "THAWED")
        stage.wait_for(lambda: not _text(f"{freezer}/cgroup.procs"))
        os.rmdir(freezer)


def mark_the_exiting() -> None:
    """Kills the job by SIGKILL, holds it on its way out, and has the OOM killer choose the one that is going."""
    _be_killer()
    pid = _job()
    if _ptrace(PTRACE_SEIZE, pid, PTRACE_O_TRACEEXIT) != 0:
        stage.say("cannot", f"no process can be traced here: {os.strerror(ctypes.get_errno())}")
        os.kill(pid, signal.SIGKILL)
        return
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, WALL)
    if status >> 8 != signal.SIGTRAP | PTRACE_EVENT_EXIT << 8:
        stage.say("cannot", f"this kernel lets go of a process that dies of SIGKILL (status {status:#x})")
        return
    stage.end_of(stage.child(_eat_beside, b"eater"))
    _ptrace(PTRACE_DETACH, pid, 0)


def _ptrace(request: int, pid: int, data: int) -> int:
    return int(stage.libc.ptrace(request, pid, None, ctypes.c_void_p(data)))


def _eat_beside() -> None:
    stage.enter("")
    stage.take(50 * MIB)


def sysrq() -> None:
    """An operator asks for an OOM kill."""
    _be_killer()
    _job()
    _write("/proc/sysrq-trigger", "f")


def earlyoom(prefer: str = "hog", workers: str = "0") -> None:
    """The daemon, with limits so high that it acts at once, and with some of the job preferred."""
    # A program that is no act of ours says nothing of itself.
    pid = _workers(int(workers))[0] if int(workers) else _job()
    free = stage.value("/proc/meminfo", "MemAvailable:") * 100 // stage.value("/proc/meminfo", "MemTotal:")
    percent = max(2, free - 10)
    log = os.path.join(stage.folder(), "earlyoom")
    command = ["earlyoom", "-m", f"{percent},1", "-s", "100,100", "-r", "0", "--prefer", f"^{prefer}$"]
    try:
        with open(log, "wb") as file:
            daemon = subprocess.Popen(command, stdout=file, stderr=file)
    except OSError as error:
        stage.say("cannot", f"earlyoom does not start: {error.strerror}")
        os.kill(pid, signal.SIGKILL)
        return
    stage.wait_for(lambda: "sending SIGTERM when" in _text(log) or daemon.poll() is not None)
    stage.say("watched")
    _until_over()
    daemon.terminate()
    daemon.wait()
    print(_text(log), flush=True)


def systemd_oomd() -> None:
    """The daemon, with a limit on swap that the job passes."""
    os.makedirs(os.path.dirname(OOMD_SETTINGS), exist_ok=True)
    with open(OOMD_SETTINGS, "w", encoding="ascii") as file:
        file.write("[OOM]\nSwapUsedLimit=10%\n")
    try:
        started = subprocess.run(["systemctl", "start", "systemd-oomd.service"], check=False).returncode == 0
        if not started:
            stage.say("cannot", "systemd-oomd does not start")
        stage.say("watched")
        pid = _job()
        if not started:
            os.kill(pid, signal.SIGKILL)
        _until_over()
    finally:
        os.remove(OOMD_SETTINGS)
        subprocess.run(["systemctl", "stop", "systemd-oomd.service", "systemd-oomd.socket"], check=False)


def _until_over() -> None:
    """Until the scenario has been watched to its end: who sent a signal is looked at while it is there."""
    sys.stdin.buffer.raw.read()  # type: ignore[union-attr]


def _be_killer() -> None:
    stage.be(b"killer")


def _job() -> int:
    return int(stage.hear("pid"))


def _text(path: str) -> str:
    """Empty where the process or cgroup is gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def neighbour(most_mib: str) -> None:
    """Grows beside the job, under the limit of both, once that trains; and stays."""
    stage.be(b"neighbour")
    stage.hear("training")
    stage.enter("neighbour")
    stage.eat(int(most_mib), pause_s=0.012)
    sys.stdin.buffer.raw.read(1)  # type: ignore[union-attr] # until all is over


ACTS: dict[str, Callable[..., None]] = {
    "watchdog": watchdog,
    "kill": kill,
    "tgkill": tgkill,
    "pidfd": pidfd,
    "kill-cgroup": kill_cgroup,
    "kill-when-stuck": kill_when_stuck,
    "kill-a-worker": kill_a_worker,
    "mark-the-dying": mark_the_dying,
    "mark-the-exiting": mark_the_exiting,
    "sysrq": sysrq,
    "earlyoom": earlyoom,
    "systemd-oomd": systemd_oomd,
    "neighbour": neighbour,
}
