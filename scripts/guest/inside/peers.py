# SPDX-License-Identifier: Apache-2.0
"""Runs a command of oomtrace beside the other tools that tell of OOM kills: the same kills, each with its own count.

Each tool is started alone and waited for, until it says that it is ready; one that fails leaves its own words. The
command is then run, and the lines that each tool printed are counted. Prints one JSON document, and ends as the
command did. Nothing is installed: what is not there is said not to be. Standard library alone.
"""

import argparse
import contextlib
import json
import os
import pty
import re
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "oomtrace.peers/1"
TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("bpftrace oomkill.bt", ("oomkill.bt", "bpftrace-oomkill.bt")),
    ("libbpf-tools oomkill", ("oomkill-libbpf", "/usr/sbin/oomkill")),
    ("bcc oomkill", ("oomkill-bpfcc", "/usr/share/bcc/tools/oomkill")),
)
"""By name, with what each is called in distributions; all hook oom_kill_process() by a kprobe."""
READY = re.compile(rb"Tracing (?:OOM kills|oom_kill_process)")
KILL = re.compile(rb"OOM kill of PID")
START_S = 240.0
QUIET_S = 3.0
"""No line for so long after the command's end: there come no more."""
LAST_S = 60.0
READY_FILE, PYTHON = "{ready}", "{python}"
"""In the command: a file that it writes once it watches; this interpreter."""


@dataclass
class Found:
    """What became of one tool."""

    tool: str
    ready_s: float | None = None
    """The shortest of its starts."""
    rss_mib: float | None = None
    seen: int | None = None
    """`None`: it did not run."""
    lost: int | None = None
    """`None`: it does not say."""
    words: str | None = None
    """Why it did not run, as it said itself; of ours, what the verdict is."""


@dataclass
class Tool:
    """One tool that runs, its output read from a terminal of its own: into a pipe it would say nothing for long."""

    found: Found
    command: Sequence[str]
    output: bytearray = field(default_factory=bytearray)
    changed_s: float = 0.0

    def start(self, patience_s: float) -> None:
        """Until it says that it is ready, or ends."""
        began_s = self.changed_s = time.monotonic()
        self._terminal, theirs = pty.openpty()
        self._child = subprocess.Popen(
            self.command, stdin=theirs, stdout=theirs, stderr=theirs, cwd="/", start_new_session=True
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        while not READY.search(self.output):
            if self._child.poll() is not None or time.monotonic() - began_s > patience_s:
                self._reader.join(2)
                self.stop()
                self.found.words = last_words(bytes(self.output), self._child.returncode)
                return
            time.sleep(0.02)
        self.found.ready_s = round(time.monotonic() - began_s, 2)
        self.found.seen = 0

    def _read(self) -> None:
        with contextlib.suppress(OSError), selectors.DefaultSelector() as selector:
            selector.register(self._terminal, selectors.EVENT_READ)
            while selector.select():
                chunk = os.read(self._terminal, 65536)
                if not chunk:
                    return
                self.output += chunk
                self.changed_s = time.monotonic()

    @property
    def runs(self) -> bool:
        return self.found.words is None and self._child.poll() is None

    def settle(self) -> None:
        """Wait for its last lines; count them."""
        until_s = time.monotonic() + LAST_S
        while self.runs and time.monotonic() < min(until_s, self.changed_s + QUIET_S):
            time.sleep(0.05)
        self.found.rss_mib = rss_mib(self._child.pid)
        self.found.seen = len(KILL.findall(self.output))
        if self._child.poll() is not None:
            self.found.words = f"it ended meanwhile: {last_words(bytes(self.output), self._child.returncode)}"

    def stop(self) -> None:
        """As a person would; and if it does not listen, harder."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(10)


def last_words(output: bytes, status: int | None) -> str:
    """The line of a failing tool that tells most: the first that says what it did not find, else the last."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode("utf-8", "replace"))
    lines = [" ".join(line.split()) for line in plain.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"[Kk]ernel headers|No such file|not permitted", line)]
    said = (telling or lines or ["it said nothing"])[0 if telling else -1]
    return f"{said[:200]} (exit {status})"


def rss_mib(pid: int) -> float | None:
    """Resident memory now."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmRSS:"):
                return round(int(line.split()[1]) / 1024, 1)
    return None


def counted() -> int | None:
    """OOM kills of the machine, as the kernel counts them."""
    for line in Path("/proc/vmstat").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return None


def find(names: Sequence[str]) -> str | None:
    """The program, under whatever name it has here."""
    return next((path for name in names if (path := shutil.which(name)) is not None), None)


def start_tools(patience_s: float = START_S, starts: int = 1) -> list[Tool]:
    """Each alone, one after the other; its last start is the one that stays."""
    tools = []
    for name, names in TOOLS:
        path = find(names)
        times: list[float] = []
        for left in reversed(range(starts if path is not None else 1)):
            tool = Tool(Found(name), (path or "",))
            if path is None:
                tool.found.words = "not installed"
                break
            tool.start(patience_s)
            if tool.found.ready_s is None:
                break
            times.append(tool.found.ready_s)
            if left:
                tool.stop()
        tool.found.ready_s = min(times, default=None)
        tools.append(tool)
    return tools


def start_ours(command: Sequence[str], recording: str, starts: int) -> list[float]:
    """How long ours takes until it watches, with a job that does nothing."""
    if READY_FILE not in command:
        return []
    job = len(command) - 1 - command[::-1].index("--")
    times = []
    with tempfile.TemporaryDirectory(prefix="oomtrace-peers-") as folder:
        for number in range(starts):
            nothing = [f"{folder}/{number}" if word == recording else word for word in command[:job]]
            found = Found("oomtrace")
            _run([*nothing, "--", "sleep", "0.1"], found)
            times += [] if found.ready_s is None else [found.ready_s]
    return times


def run(
    command: Sequence[str], *, recording: str | None = None, starts: int = 1, patience_s: float = START_S
) -> tuple[int, dict[str, Any]]:
    """The command beside the tools: its exit status, and the document.

    Args:
        command: one that prints a document itself, or records.
        recording: where it records; the document is then the verdict on that.
        starts: so often is each started; the shortest start counts.
        patience_s: so long may each tool take until it is ready.
    """
    times = start_ours(command, recording, starts - 1) if recording is not None else []
    tools = start_tools(patience_s, starts)
    running = [tool for tool in tools if tool.found.words is None]
    try:
        before = counted()
        ours = Found("oomtrace")
        status, output = _run(command, ours)
        ours.ready_s = min([*times, *([] if ours.ready_s is None else [ours.ready_s])], default=None)
        for tool in running:
            tool.settle()
        after = counted()
    finally:
        for tool in running:
            tool.stop()
    if recording is not None:
        report = [sys.executable, "-m", "tracer", "report", "--json", recording]
        output = subprocess.run(report, capture_output=True, check=False).stdout
    inner = _document(output)
    # Of its own cgroup, if it says: elsewhere on this machine others may be killed.
    kernel = _count(ours, inner)
    if kernel is None and before is not None and after is not None:
        kernel = after - before
    if recording is not None:
        status = int(ours.seen is None or kernel != ours.seen + (ours.lost or 0))
    document = {
        "schema": SCHEMA,
        "outcome": inner.get("outcome", {0: "pass", 5: "not_applicable"}.get(status, "fail")),
        "reason": inner.get("reason"),
        "kernel_release": os.uname().release,
        "counted": kernel,
        "tools": [asdict(each) for each in (ours, *(tool.found for tool in tools))],
        "document": inner if recording is None else {},
    }
    return status, document


def _run(command: Sequence[str], ours: Found) -> tuple[int, bytes]:
    with tempfile.TemporaryDirectory(prefix="oomtrace-peers-") as folder:
        ready = Path(folder, "ready")
        words = [{READY_FILE: str(ready), PYTHON: sys.executable}.get(word, word) for word in command]
        began_s, held = time.monotonic(), list[float]()
        with Path(folder, "stdout").open("w+b") as stdout:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stdout)
            forward = signal.signal(signal.SIGTERM, lambda *_: child.terminate())
            while child.poll() is None:
                if READY_FILE in command and ready.exists() and ready.stat().st_size:
                    ours.ready_s = ours.ready_s or round(time.monotonic() - began_s, 2)
                    held += [now for now in (rss_mib(child.pid),) if now]
                time.sleep(0.02 if ours.ready_s is None else 0.2)
            signal.signal(signal.SIGTERM, forward)
            # Not the most: when the job has ended it judges, and loads what it needs for that.
            ours.rss_mib = statistics.median_low(held) if held else None
            stdout.seek(0)
            return child.returncode, stdout.read()


def _document(output: bytes) -> dict[str, Any]:
    """What the command printed, if that is a document: else nothing."""
    with contextlib.suppress(ValueError):
        found = json.loads(output)
        return found if isinstance(found, dict) else {}
    return {}


def _count(ours: Found, document: dict[str, Any]) -> int | None:
    """From a scenario's result, or from a verdict; what the kernel counted, if that says so."""
    counters, told = document.get("counters"), document.get("reconciliation")
    if isinstance(told, dict):
        counters = next((each for each in told["counters"] if each["whose"] == "job"), None)
    if not isinstance(counters, dict):
        ours.words = "its document says nothing of kills"
        return None
    ours.seen, ours.lost = counters["seen"], counters["lost"]
    said = document.get("found") or document["incidents"][document["primary"]]
    ours.words = f"{said.get('cause')}: {said.get('strength')}"
    kernel = counters.get("kernel", counters.get("counted"))
    return kernel if isinstance(kernel, int) else None


def main() -> int:
    """The command's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patience", type=float, default=START_S, help="seconds until a tool must be ready")
    parser.add_argument("--starts", type=int, default=1, help="start each so often; the shortest counts (default 1)")
    parser.add_argument("--recording", metavar="FILE", help="judge this, which the command records")
    parser.add_argument("command", nargs="+", help="what the interpreter is to run")
    args = parser.parse_args()
    status, document = run(
        [PYTHON, *args.command], recording=args.recording, starts=args.starts, patience_s=args.patience
    )
    print(json.dumps(document))
    return status


if __name__ == "__main__":
    sys.exit(main())
