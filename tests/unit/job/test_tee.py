# SPDX-License-Identifier: Apache-2.0
"""The job's output through the copier: byte for byte, and whatever becomes of us, of its reader or of the log."""

import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import tty
from dataclasses import replace
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import DEADLINE_S, SLOWER, has_ended, wait_for
from tracer.errors import InputError, OomtraceError, PermissionDenied, UsageError
from tracer.job.copier import RESIZED
from tracer.job.identity import find_caller
from tracer.job.tee import LogFile, Tee

SMALL = [sys.executable, str(Path(__file__).with_name("small_tee.py"))]
ENVIRON = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def tee(tmp_path):
    """Starts a job whose output is copied; in the end no copier is left."""
    processes = []

    def start(*job, log="log", patience="30", **kwargs):
        kwargs = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | kwargs
        command = [*SMALL, str(log), "says", *job]
        processes.append(subprocess.Popen(command, cwd=tmp_path, env=ENVIRON | {"PATIENCE": patience}, **kwargs))
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    said = told(tmp_path)
    if said:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(said[0]["job"], signal.SIGKILL)
        wait_for(lambda: has_ended(said[0]["copier"]), "the copier to end with the last writer")


def told(folder):
    says = folder / "says"
    lines = says.read_text().splitlines(keepends=True) if says.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def started(folder):
    wait_for(lambda: told(folder), "the job to run")
    return told(folder)[0]


def data_of(folder, stream):
    return "".join(one["data"] for one in told(folder) if one.get("stream") == stream).encode("latin-1")


def finished(process):
    out, err = process.communicate(timeout=60 * SLOWER)
    return process.returncode, out, err


def test_each_stream_goes_its_way_and_both_into_the_log(tee, tmp_path):
    raw = bytes(range(256)) * 3
    job = f"import os; os.write(1, {raw!r}); os.write(2, b'to err'); os._exit(7)"

    assert finished(tee(sys.executable, "-S", "-c", job)) == (7, raw, b"to err")
    log = (tmp_path / "log").read_bytes()
    assert sorted(log) == sorted(raw + b"to err")
    assert (data_of(tmp_path, "stdout"), data_of(tmp_path, "stderr")) == (raw, b"to err")


def test_what_goes_to_one_place_keeps_its_order(tee, tmp_path):
    job = "for i in $(seq 200); do echo out $i; echo err $i >&2; done"
    code, out, _ = finished(tee("sh", "-c", job, stderr=subprocess.STDOUT))

    assert out.decode() == "".join(f"out {i}\nerr {i}\n" for i in range(1, 201))
    assert (tmp_path / "log").read_bytes() == out == data_of(tmp_path, "both")
    assert (code, told(tmp_path)[0]["streams"]) == (0, ["both"])


def test_much_output_is_whole(tee, tmp_path):
    code, out, _ = finished(tee("seq", "1000000"))

    assert out == "".join(f"{number}\n" for number in range(1, 1_000_001)).encode()
    assert (tmp_path / "log").read_bytes() == out
    assert code == 0


def test_without_a_file_the_output_is_seen_all_the_same(tee, tmp_path):
    assert finished(tee("echo", "hello", log="-")) == (0, b"hello\n", b"")
    assert data_of(tmp_path, "stdout") == b"hello\n"


def test_a_stream_that_we_were_given_closed_is_closed_in_the_job(tee, tmp_path):
    process = tee("sh", "-c", "ls /proc/self/fd > fds; echo err >&2", stdout=None, preexec_fn=lambda: os.close(1))
    code, _, err = finished(process)

    assert (code, err, told(tmp_path)[0]["streams"]) == (0, b"err\n", ["stderr"])


def test_a_job_outlives_the_tracer_and_its_output_goes_on(tee, tmp_path):
    job = "echo before; while ! [ -e go ]; do sleep 0.02; done; seq 1 20000; echo after >&2; echo $? > done"
    process = tee("sh", "-c", job)
    said = started(tmp_path)
    wait_for(lambda: (tmp_path / "log").read_bytes() == b"before\n", "the first line")
    process.kill()
    process.wait()
    (tmp_path / "go").touch()
    out, err = process.stdout.read(), process.stderr.read()

    wait_for(lambda: has_ended(said["copier"]), "the copier to end")
    assert out.decode() == "before\n" + "".join(f"{number}\n" for number in range(1, 20001))
    assert (err, (tmp_path / "done").read_text()) == (b"after\n", "0\n")
    assert sorted((tmp_path / "log").read_bytes()) == sorted(out + err)


def test_the_output_of_those_who_outlive_the_job_still_goes_its_way(tee, tmp_path):
    process = tee("sh", "-c", "(while ! [ -e go ]; do sleep 0.02; done; echo late) & echo now")
    wait_for(lambda: process.poll() is not None, "the tracer to end")
    (tmp_path / "go").touch()

    assert process.stdout.read() == b"now\nlate\n"
    assert told(tmp_path)[-1]["dry"] == [True, True]


def test_signals_do_not_end_the_copier(tee, tmp_path):
    process = tee("sh", "-c", "while ! [ -e go ]; do sleep 0.02; done; echo still here")
    copier = started(tmp_path)["copier"]
    assert os.getsid(copier) == copier != os.getsid(process.pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGUSR1):
        os.kill(copier, number)
    (tmp_path / "go").touch()

    assert finished(process)[1] == b"still here\n"


def test_a_reader_that_goes_away_ends_the_job_as_without_us(tee, tmp_path):
    process = tee("sh", "-c", "echo first; while ! [ -e go ]; do sleep 0.02; done; while :; do echo more; done")
    started(tmp_path)
    assert process.stdout.readline() == b"first\n"
    process.stdout.close()
    (tmp_path / "go").touch()
    process.wait(DEADLINE_S)

    assert os.WTERMSIG(told(tmp_path)[-1]["status"]) == signal.SIGPIPE


def test_a_reader_that_goes_away_does_not_stop_the_other_stream(tee, tmp_path):
    job = "trap '' PIPE; echo 1; while ! [ -e go ]; do sleep 0.02; done; echo 2; echo err >&2; exit 4"
    process = tee("sh", "-c", job)
    assert process.stdout.readline() == b"1\n"
    process.stdout.close()
    (tmp_path / "go").touch()
    process.stdout = None

    code, _, err = finished(process)
    assert (code, err.endswith(b"err\n")) == (4, True)


def test_a_slow_reader_holds_up_its_own_stream_alone(tee, tmp_path):
    process = tee("sh", "-c", "seq 1 300000 & echo at once >&2; wait")
    wait_for(lambda: select.select([process.stderr], [], [], 0)[0], "the other stream")
    assert os.read(process.stderr.fileno(), 100) == b"at once\n"

    code, out, _ = finished(process)
    assert (code, out.count(b"\n")) == (0, 300000)


def test_a_file_that_takes_no_more_does_not_end_the_job(tee, tmp_path):
    limit = 64 * 1024

    process = tee("sh", "-c", "while ! [ -e go ]; do sleep 0.02; done; seq 1 30000; exit 3")
    resource.prlimit(started(tmp_path)["copier"], resource.RLIMIT_FSIZE, (limit, limit))
    (tmp_path / "go").touch()
    code, out, _ = finished(process)

    # Each stream says what the log misses by its own end: what is read last need not have been told last.
    last = max(told(tmp_path), key=lambda one: one.get("missing", 0))
    assert (code, out.count(b"\n")) == (3, 30000)
    assert (tmp_path / "log").stat().st_size == limit
    assert (last["missing"], last["error"]) == (len(out) - limit, errno.EFBIG)


def test_the_job_gets_none_of_our_descriptors_and_we_keep_none_of_its_output(tee, tmp_path):
    process = tee("sh", "-c", "ls -l /proc/self/fd; while ! [ -e go ]; do sleep 0.02; done")
    copier = started(tmp_path)["copier"]
    mine = {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")}
    held = [os.readlink(f"/proc/{copier}/fd/{fd}") for fd in os.listdir(f"/proc/{copier}/fd")]
    inherited = {os.readlink(f"/proc/{os.getpid()}/fd/{fd}") for fd in ("1", "2")}
    (tmp_path / "go").touch()
    _, out, _ = finished(process)

    assert "socket" not in out.decode()
    assert "/log" not in out.decode()
    assert held.count("/dev/null") >= 1
    assert not [name for name in held if name.startswith("pipe:") and name not in mine and name in inherited]


def test_the_copier_stays_small(tee, tmp_path):
    process = tee("sh", "-c", "seq 1 100000; while ! [ -e go ]; do sleep 0.02; done", stdout=subprocess.DEVNULL)
    copier = started(tmp_path)["copier"]
    wait_for(lambda: (tmp_path / "log").read_bytes().endswith(b"100000\n"), "the output to be copied")
    rollup = Path(f"/proc/{copier}/smaps_rollup").read_text()
    (tmp_path / "go").touch()
    finished(process)

    private_kib = sum(int(kib) for kib in re.findall(r"Private_(?:Clean|Dirty): +(\d+)", rollup))
    assert private_kib < 8 * 1024


class Terminal:
    """A real one, which the job's output goes to."""

    def __init__(self, rows=31, columns=97):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, wanted):
        shown = b""

        def there():
            nonlocal shown
            if select.select([self.master], [], [], 0.01)[0]:
                shown += os.read(self.master, 65536)
            return wanted in shown

        wait_for(there, f"{wanted!r}, in {shown!r}")
        return shown


@pytest.fixture
def terminal():
    made = Terminal()
    yield made
    for fd in (made.master, made.slave):
        with contextlib.suppress(OSError):
            os.close(fd)


def on(terminal):
    return {"stdin": terminal.slave, "stdout": terminal.slave, "stderr": terminal.slave}


IS_ATTY = """
import os
print(*map(os.isatty, (0, 1, 2)), *os.get_terminal_size(1), os.ttyname(1) == os.ttyname(2), end="!")
"""
HUNG_UP = """
import os, time
while not os.path.exists("go"): time.sleep(0.02)
try:
    while True: os.write(1, b"x"); time.sleep(0.01)
except OSError as error:
    open("why", "w").write(str(error.errno))
"""


def test_a_job_keeps_a_terminal_of_the_same_size_where_it_had_one(tee, tmp_path, terminal):
    process = tee(sys.executable, "-S", "-c", IS_ATTY, **on(terminal))

    assert b"True True True 97 31 True!" in terminal.until(b"!")
    assert process.wait(DEADLINE_S) == 0
    assert (tmp_path / "log").read_bytes() == b"True True True 97 31 True!"


def test_what_a_terminal_is_sent_is_as_it_was_written(tee, tmp_path, terminal):
    tty.setraw(terminal.slave)
    process = tee("printf", r"a\nb\rc\t\033[31md\377e.", **on(terminal))

    assert terminal.until(b".") == b"a\nb\rc\t\x1b[31md\xffe."
    process.wait(DEADLINE_S)
    assert (tmp_path / "log").read_bytes() == b"a\nb\rc\t\x1b[31md\xffe."


def test_a_new_size_reaches_the_job(tee, tmp_path, terminal):
    job = "import os, time\nwhile os.get_terminal_size(1) != (50, 20): time.sleep(0.02)\nprint('small now.')"
    process = tee(sys.executable, "-S", "-c", job, **on(terminal))
    started(tmp_path)
    terminal.resize(20, 50)

    terminal.until(b"small now.")
    process.wait(DEADLINE_S)
    assert RESIZED in [one.get("what") for one in told(tmp_path)]


def test_a_terminal_and_a_pipe_are_each_what_they_were(tee, tmp_path, terminal):
    process = tee(sys.executable, "-S", "-c", "import os; print(os.isatty(1), os.isatty(2))", stdout=subprocess.PIPE,
                  stdin=terminal.slave, stderr=terminal.slave)  # fmt: skip

    assert finished(process)[1] == b"False True\n"
    assert told(tmp_path)[0]["streams"] == ["stdout", "stderr"]


def test_nobody_of_the_job_gets_the_copiers_terminal_as_its_own_by_opening_it(tee, tmp_path, terminal):
    job = "setsid sh -c 'exec 3<>/dev/stdout 2>/dev/null; cut -d\" \" -f7 /proc/self/stat > tty_nr'; echo end."
    process = tee("sh", "-c", job, **on(terminal))
    terminal.until(b"end.")
    process.wait(DEADLINE_S)
    wait_for(lambda: (tmp_path / "tty_nr").exists() and (tmp_path / "tty_nr").read_text(), "it to say its terminal")

    assert (tmp_path / "tty_nr").read_text() == "0\n"


def test_a_terminal_that_hangs_up_is_told_to_the_job_as_without_us(tee, tmp_path, terminal):
    process = tee(sys.executable, "-S", "-c", HUNG_UP, **on(terminal))
    started(tmp_path)
    os.close(terminal.slave)
    os.close(terminal.master)
    terminal.master = terminal.slave = -1
    (tmp_path / "go").touch()
    process.wait(DEADLINE_S)

    assert (tmp_path / "why").read_text() == str(errno.EIO)


def test_a_log_is_a_new_file_of_the_callers_alone(tmp_path):
    log = LogFile.create(str(tmp_path / "log"), find_caller({}))
    os.close(log.fd)

    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="exists already"):
        LogFile.create(str(tmp_path / "log"), find_caller({}))
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with pytest.raises(UsageError, match="exists already"):
        LogFile.create(str(tmp_path / "link"), find_caller({}))
    with pytest.raises(InputError, match="No such file"):
        LogFile.create(str(tmp_path / "no" / "log"), find_caller({}))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_log_is_made_with_the_callers_rights():
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    nobody = replace(find_caller({}), uid=65534, gid=65534, groups=(65534,))
    try:
        folder.chmod(0o755)
        with pytest.raises(PermissionDenied):
            LogFile.create(str(folder / "log"), nobody)
        folder.chmod(0o777)
        log = LogFile.create(str(folder / "log"), nobody)

        assert (folder / "log").stat().st_uid == 65534
        log.discard()
        os.close(log.fd)
        assert not (folder / "log").exists()
    finally:
        shutil.rmtree(folder)


def test_a_log_that_was_replaced_meanwhile_is_not_removed(tmp_path):
    log = LogFile.create(str(tmp_path / "log"), find_caller({}))
    (tmp_path / "log").unlink()
    (tmp_path / "log").write_text("another")
    log.discard()
    os.close(log.fd)

    assert (tmp_path / "log").read_text() == "another"


def test_without_a_copier_no_job_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    before = set(os.listdir("/proc/self/fd"))

    with pytest.raises(OomtraceError, match="cannot be copied"):
        Tee.start(LogFile(-1, None), find_caller({}))
    assert set(os.listdir("/proc/self/fd")) == before
