# SPDX-License-Identifier: Apache-2.0
"""A user of the test's own who may call sudo without a password, in an environment like conda's; removed afterwards."""

import contextlib
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER, wait_for

SUDOERS = Path("/etc/sudoers.d")
SYSTEM_PYTHON = "/usr/bin/python3"
# What a job is, as JSON: on its standard output nothing else is written.
WHO_AM_I = """
import json, os, resource, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "uids": status["Uid"].split(), "gids": status["Gid"].split(), "groups": sorted(map(int, status["Groups"].split())),
    "umask": status["Umask"].strip(), "capabilities": status["CapEff"].strip(), "cwd": os.getcwd(),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "python": sys.executable, "prefix": sys.prefix,
    "environ": dict(os.environ), "pid": os.getpid(), "group": os.getpgrp(),
}))
"""


class Person:
    """The user, and what belongs to them."""

    def __init__(self, name):
        self.name = name
        entry = pwd.getpwnam(name)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid
        self.groups = sorted(os.getgrouplist(name, self.gid))
        self.home = Path(entry.pw_dir)
        self.oomtrace = self.home / "secure path" / "oomtrace"
        self.conda = self.home / "conda env"
        self.environ = {
            "HOME": str(self.home), "USER": name, "LOGNAME": name, "SHELL": "/bin/sh", "LC_ALL": "C", "TERM": "dumb",
            "PATH": f"{self.conda}/bin:/usr/bin:/bin:/usr/sbin", "CONDA_PREFIX": str(self.conda),
            "LD_LIBRARY_PATH": f"{self.conda}/lib", "WANDB_MODE": "offline", "EMPTY": "",
        }  # fmt: skip

    def become(self):
        os.initgroups(self.name, self.gid)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        os.umask(0o027)

    def run(self, *command, folder=None, **kwargs):
        """Runs it from a shell of that person; standard input is empty."""
        from_shell = ["sh", "-c", '"$@"; exit $?', "sh", *map(str, command)]
        given = {"cwd": folder or self.home, "env": self.environ, "preexec_fn": self.become, **kwargs}
        return run_quietly(from_shell, **given)

    def recordings(self):
        return sorted(self.home.glob("*.oomtrace"))


def run_quietly(command, **kwargs):
    """Runs it to its end, with nothing to read; its output is kept."""
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * SLOWER, check=False, **kwargs
    )


def told(process):
    """What the job said that it is."""
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@contextlib.contextmanager
def a_person(*, use_pty):
    """The user with a home, an environment, `oomtrace` in the path that sudo sets, and a rule for sudo."""
    name = f"oomt-{secrets.token_hex(4)}"
    home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/tmp"))
    rule = SUDOERS / f"{name}"
    try:
        _locked("useradd", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", "--groups", "games", name)
        try:
            linked = home / "secure path"
            _install(name, home, linked)
            _allow(rule, name, linked, use_pty=use_pty)
            yield Person(name)
        finally:
            rule.unlink(missing_ok=True)
            _locked("userdel", name)
    finally:
        shutil.rmtree(home)


def _locked(*command):
    """A command that takes the lock of /etc/passwd, which another may hold."""
    errors = []

    def done():
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        errors[:] = [process.stderr]
        return process.returncode == 0

    wait_for(done, f"{command[0]}: {errors}")


def _install(name, home, linked):
    conda = home / "conda env"
    (conda / "bin").mkdir(parents=True)
    (conda / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (conda / "bin" / "python").symlink_to(SYSTEM_PYTHON)
    (home / "whoami.py").write_text(WHO_AM_I)
    linked.mkdir()
    command = linked / "oomtrace"  # as the link that scripts/setup makes, but not into a folder of the machine
    command.write_text(f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' -m tracer \"$@\"\n")
    command.chmod(0o755)
    for path in (home, conda, conda / "bin", home / "whoami.py"):
        shutil.chown(path, name, name)
    home.chmod(0o755)


def _allow(rule, name, linked, *, use_pty):
    path = f"{linked}:/usr/sbin:/usr/bin:/sbin:/bin"
    terminal = "use_pty" if use_pty else "!use_pty"
    lines = [
        f'Defaults:{name} {terminal}, !requiretty, !lecture, env_reset, secure_path="{path}"',
        f"{name} ALL=(ALL:ALL) NOPASSWD:SETENV: ALL",
        "",
    ]
    # A name with a dot is passed over by sudo until it is complete and known to be good.
    draft = rule.with_name(f"{rule.name}.draft")
    try:
        draft.touch(mode=0o440)
        draft.write_text("\n".join(lines))
        subprocess.run(["visudo", "-c", "-q", "-f", str(draft)], check=True, capture_output=True)
        draft.rename(rule)
    finally:
        draft.unlink(missing_ok=True)


def _person(*, use_pty):
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a user")
    for program in ("sudo", "visudo", "useradd"):
        if shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin") is None:
            pytest.skip(f"{program} is not installed")
    return a_person(use_pty=use_pty)


@pytest.fixture(scope="session")
def person(can_trace):
    """That person; sudo makes a terminal of its own for the command, as it does by default on newer systems."""
    with _person(use_pty=True) as made:
        yield made


@pytest.fixture(scope="session", params=[True, False], ids=["use_pty", "no_pty"])
def sudoer(request, can_trace):
    """The same, and once more with a sudo that leaves the terminal as it is."""
    with _person(use_pty=request.param) as made:
        yield made
