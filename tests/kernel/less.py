# SPDX-License-Identifier: Apache-2.0
"""Machines that allow less, made of this one: mount namespaces that cover something, identities without rights."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.architecture.checkout import ROOT
from tests.kernel.running import Run
from tests.kernel.workload import MemoryCgroup
from tests.waiting import SLOWER
from tracer.kernel.session import PYTHON

HOG = (PYTHON, "-S", "-c", "import time\nx = []\nwhile True: x.append(bytes([1]) * (1 << 20)); time.sleep(0.002)")
LIMITED = ("--memory-max", "64M", "--swap-max", "0")
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups"
CAPS = f"{NOBODY} --inh-caps +bpf,+perfmon --ambient-caps +bpf,+perfmon"
NO_SYSLOG = "setpriv --inh-caps -syslog --bounding-set -syslog"
SECCOMP = Path(__file__).with_name("no_bpf.py")
WORK = "/mnt"
"""Covered in the namespace, for who may not go where tests lie."""


def patient_hog(mib: int) -> tuple[str, ...]:
    """Takes so much, waits until that was recorded (a sampler may be slow), and then takes all it can get."""
    script = rf"""
import re, time
kept = [bytes([1]) * ({mib} << 20)]
seen = 0
while seen < {mib}:
    time.sleep(0.02)
    recorded = open("run.oomtrace", "rb").read()
    seen = max((int(size) >> 20 for size in re.findall(rb'"rss_anon_bytes":(\d+)', recorded)), default=0)
while True:
    kept.append(bytes([1]) * (1 << 20))
"""
    return (PYTHON, "-S", "-c", script)


def bcc_folder() -> str:
    """The folder that the distribution's bcc lies in."""
    script = "import bcc, os; print(os.path.dirname(bcc.__file__))"
    return subprocess.run([PYTHON, "-I", "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def bcc_library() -> str:
    """The shared library that bcc loads."""
    script = "import bcc; print(next(l.split()[-1] for l in open('/proc/self/maps') if 'libbcc.so' in l))"
    return subprocess.run([PYTHON, "-I", "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def cover(path: str) -> str:
    """A shell line that puts an empty folder there."""
    return f"mount -t tmpfs none {path}"


def another_bcc(text: str) -> str:
    """Shell lines that put a module in bcc's place."""
    folder = bcc_folder()
    return f"{cover(folder)}; printf %s {shlex.quote(text)} > {folder}/__init__.py"


NO_LOG = "mount --bind /dev/null /dev/kmsg"


class Less:
    """Runs jobs on a lesser machine. Everything that is made stays within a namespace and ends with it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.oomtrace"
        self.folder = folder
        names = (name for name in os.environ if not name.startswith("SUDO_"))
        self.environ = {name: os.environ[name] for name in names} | {"COLUMNS": "80"}

    def run(
        self,
        *job: object,
        setup: str = "true",
        prefix: str = "",
        options: tuple[str, ...] = (),
        cgroup: MemoryCgroup | None = None,
        record: tuple[str, ...] | None = None,
    ) -> Run:
        """One run.

        Args:
            job: the command.
            setup: shell lines, as root, in a mount namespace of their own.
            prefix: what the tracer is started through.
            options: of `oomtrace run`.
            cgroup: where all of it is to run.
            record: options of the recording, where another one than usual is tested.
        """
        recorded = ("--record", "run.oomtrace") if record is None else record
        tracer = shlex.join(map(str, (sys.executable, "-m", "tracer", "run", *recorded, *options, "--", *job)))
        enter = "true" if cgroup is None else f"echo $$ > {cgroup.path}/cgroup.procs"
        script = f"""
            {enter} && {cover(WORK)} && mkdir {WORK}/code {WORK}/here && mount --bind {ROOT} {WORK}/code || exit 99
            chmod 777 {WORK}/here && cd {WORK}/here || exit 99
            {setup} || exit 99
            PYTHONPATH={WORK}/code {prefix} {tracer}
            status=$?
            cat run.oomtrace > {self.path} 2>/dev/null
            exit $status
        """
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=120 * SLOWER, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode != 99, done.stderr
        run = Run(done.returncode, done.stdout, done.stderr, self.path)
        assert "Traceback" not in done.stderr
        if self.path.stat().st_size:
            run.verdict = self.report()
        return run

    def report(self) -> dict:
        """The verdict over the recording, as a document."""
        return self._report(sys.executable, "-m", "tracer", "report", "--json", self.path)

    def report_elsewhere(self, setup: str) -> dict:
        """The same by nobody, in another folder, on a machine from which `setup` took something away.

        Commands name the recording where it lies: there that is another place, which is put back.
        """
        code, copy = f"{WORK}/code", f"{WORK}/copy.oomtrace"
        script = f"""
            {cover(WORK)} && mkdir {code} && mount --bind {ROOT} {code} || exit 99
            cp {shlex.quote(str(self.path))} {copy} && chmod 644 {copy} || exit 99
            {setup} || exit 99
            cd / && PYTHONPATH={code} exec {NOBODY} {sys.executable} -m tracer report --json {copy}
        """
        report = self._report("unshare", "--mount", "--propagation", "private", "sh", "-c", script)
        return json.loads(json.dumps(report).replace(copy, str(self.path)))

    def _report(self, *command: object) -> dict:
        environ = self.environ | {"PYTHONPATH": str(ROOT)}
        words = [str(word) for word in command]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60 * SLOWER, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def said(run: Run) -> list[str]:
    """What the tracer itself told the person, a line each."""
    return [line.removeprefix("oomtrace: ") for line in run.err.splitlines() if line.startswith("oomtrace: ")]


def rungs(run: Run) -> list[str | None]:
    """Of the first four links."""
    return [link["rung"] for link in run.primary["proof"] if link["link"] <= 4]


def symbols_are_seen(prefix: str) -> bool:
    """Whether the kernel tells addresses to who is started so (kernel.kptr_restrict, perf_event_paranoid)."""
    head = subprocess.run(
        [*prefix.split(), "head", "-n", "1", "/proc/kallsyms"], capture_output=True, text=True, check=True
    )
    return bool(head.stdout.split()[0].strip("0"))


def log_is_read(prefix: str) -> bool:
    """Whether the kernel's log can be read by who is started so (kernel.dmesg_restrict)."""
    command = [*prefix.split(), "dd", "if=/dev/kmsg", "iflag=nonblock", "count=1", "bs=16k", "status=none"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
