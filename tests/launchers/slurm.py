# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one machine: its daemons, on ports and in folders of their own."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.waiting import DEADLINE_S, wait_for

DAEMONS = ("slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "scancel", "sinfo", "squeue")
NODE = "oomtrace-test"
SEARCHED = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}
SlurmctldPort={controller_port}
SlurmdPort={daemon_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PrologFlags=Contain
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""
CGROUPS = """
CgroupAutomount=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
AllowedSwapSpace=0
MinRAMSpace=16
"""


def programs_missing() -> str | None:
    """The first of Slurm's programs that is not there."""
    return next((name for name in (*DAEMONS, *CLIENTS) if shutil.which(name, path=SEARCHED) is None), None)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class OneNode:
    """Controller and node in one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {"PATH": SEARCHED, "SLURM_CONF": f"{folder}/slurm.conf", "LC_ALL": "C"}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> str | None:
        """Why it does not run; `None`: it does."""
        host = socket.gethostname().partition(".")[0]
        text = CONFIGURATION.format(
            folder=self.folder, host=host, node=NODE, controller_port=free_port(), daemon_port=free_port()
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "cgroup.conf").write_text(CGROUPS)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        for command in (("slurmctld", "-D", "-c"), ("slurmd", "-D", "-N", NODE)):
            with (self.folder / f"{command[0]}.out").open("wb") as out:
                self._started.append(
                    subprocess.Popen(command, env=self.environ, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
                )
        until = time.monotonic() + DEADLINE_S
        while self.run("sinfo", "-h", "-o", "%T", check=False).strip() != "idle":
            ended = next((one for one in self._started if one.poll() is not None), None)
            if ended is not None or time.monotonic() > until:
                return self._last_words()
            time.sleep(0.1)
        return None

    def run(self, *command: object, check: bool = True) -> str:
        """A client of it, to its end."""
        done = subprocess.run(
            list(map(str, command)), env=self.environ, cwd=self.folder, capture_output=True, text=True, check=False,
            timeout=DEADLINE_S,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, script: Path, *options: object) -> str:
        """The id of a job that runs by now."""
        job = self.run("sbatch", "--parsable", *options, script).strip()
        wait_for(lambda: self.run("squeue", "-h", "-t", "R", "-j", job, check=False).strip(), "the job to run")
        return job

    def stop(self) -> None:
        """With all that runs in it."""
        self.run("scancel", "--state=RUNNING", "--user=root", check=False)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not self.run("squeue", "-h", check=False).strip(), "its jobs to end")
        for daemon in reversed(self._started):
            daemon.terminate()
            daemon.wait(DEADLINE_S)
        for controller in ("memory", "freezer", "cpuset", "devices", "cpuacct"):
            with contextlib.suppress(OSError):
                os.rmdir(f"/sys/fs/cgroup/{controller}/slurm_{NODE}")

    def _last_words(self) -> str:
        lines = [
            line
            for name in DAEMONS
            for line in (self.folder / f"{name}.out").read_text(errors="replace").splitlines()
            if "error" in line or "fatal" in line
        ]
        return lines[-1] if lines else "its node does not get ready"
