# SPDX-License-Identifier: Apache-2.0
"""Copies what the job writes: to where it was to go, and into a log. A program of its own, run as a file by `tee`.

It outlives the tracer: it ends when the last writer of each stream has closed it, and not before. All signals are
blocked by whoever starts it. It imports next to nothing, since it stays in memory beside the job.

    copier.py LOG CHANNEL ...        LOG: a descriptor, or -1; CHANNEL: FROM,TO,SIDE,TTY

What the job sees is what it would see without us, as far as that can be:

- nobody reads any more (a pager that was left, a terminal that hung up): its next write fails likewise;
- a slow reader, or a terminal that is held (Ctrl-S): it waits, and its other stream does not;
- a full disk behind its output: it is not told, since a pipe cannot; the bytes are counted, and others follow;
- the log cannot be written: nothing. What is missing there is marked in it and counted;
- `stty tostop` has no effect on it, and a program that draws whole screens on its output cannot set the modes of
  the real terminal: those are for `run` without a log.

Each channel has a thread, which may wait for a slow reader without holding up the other one, and tells the
tracer through SIDE what it read and when. The log has a thread of its own: a disk that hangs must not hang the job.
"""

import _thread
import errno
import fcntl
import os
import select
import stat
import struct
import sys
import termios
import time

HEAD = struct.Struct("=QQQIHB")
"""When it was read (CLOCK_MONOTONIC); bytes that the log misses so far; bytes of this stream that were not told
because the tracer was behind, and bytes that nobody took, both since the last message; an errno; what it is."""
DATA, DRY, RESIZED, END, READY = 0, 1, 2, 3, 4
CHUNK_BYTES = 32 * 1024
LOOK_MS = 250
"""Nobody tells of a new size of a terminal that is not one's own."""
PATIENCE_MS = 2000
"""So long is waited for a log that does not move; then it is let go until it does."""
TIOCGPTPEER = 0x5441
"""include/uapi/asm-generic/ioctls.h; since 4.13."""
_DRAINED_READS = 64
_MOST_FILES = 1 << 20
_F_SETPIPE_SZ, _PIPE_BYTES = 1031, 256 * 1024
_NO_SIZE = b"\0" * 8
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Log:
    """The file. Whatever becomes of it, the job is not held up for longer than `PATIENCE_MS` in all."""

    def __init__(self, fd: int) -> None:
        self.error = 0
        """The errno of its last failure."""
        self._fd = fd
        self._lock = _thread.allocate_lock()
        self._taken = self._done = 0
        self._stuck = False
        self._dropped = self._lost = self._told = 0
        if fd >= 0:
            self._from, self._to = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(self._to, False)
            _enlarge(self._to)
            _thread.start_new_thread(self._run, ())

    @property
    def missing(self) -> int:
        """Bytes that are not in it."""
        return self._dropped + self._lost

    def take(self, data: bytes) -> None:
        """Put something behind the rest."""
        rest = memoryview(data)
        while rest and self._fd >= 0:
            try:
                count = os.write(self._to, rest)
            except BlockingIOError:
                if self._stuck or not _waits_for(self._to, select.POLLOUT, PATIENCE_MS):
                    self._stuck = True
                    with self._lock:
                        self._dropped += len(rest)
                    return
                continue
            self._stuck = False
            with self._lock:
                self._taken += count
            rest = rest[count:]

    def settle(self) -> None:
        """Wait until what was taken is written, but not for ever."""
        until = time.monotonic() + PATIENCE_MS / 1000
        while self._done < self._taken and not self._stuck and time.monotonic() < until:
            time.sleep(0.001)

    def _run(self) -> None:
        while True:
            data = os.read(self._from, CHUNK_BYTES)
            self._write(data)
            self._done += len(data)

    def _write(self, data: bytes) -> None:
        gap = self.missing - self._told
        if gap:  # there is room again, perhaps: whoever reads the file must see the hole
            try:
                os.write(self._fd, b"\n[oomtrace: %d bytes are missing here]\n" % gap)
                self._told += gap
            except OSError:
                self._lost += len(data)
                return
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except OSError as error:
                self.error = error.errno or errno.EIO
                self._lost += len(rest)
                return


class Channel:
    """One stream, from the job's end to where it was to go."""

    def __init__(self, fds: "tuple[int, int, int]", log: Log, *, tty: bool) -> None:
        self._from, self._to, self._side = fds
        self._log = log
        self._tty = tty
        self._unseen = self._refused = self._error = 0
        # As the tracer has set it.
        self._size = fcntl.ioctl(self._from, termios.TIOCGWINSZ, _NO_SIZE) if tty else _NO_SIZE
        os.set_blocking(self._side, False)
        if tty:
            self._own_terminal()
        kind = os.fstat(self._to).st_mode
        # Whoever writes to one of these is told when nobody reads any more; of others poll says nothing.
        self._watched = stat.S_ISFIFO(kind) or stat.S_ISCHR(kind) or stat.S_ISSOCK(kind)

    def run(self) -> None:
        """Copy until the last writer has closed it, or nobody reads any more."""
        poller = select.poll()
        poller.register(self._from, select.POLLIN)
        poller.register(self._side, select.POLLIN)
        if self._watched:
            poller.register(self._to, 0)
        self._tell(READY, b"")
        going = True
        while going:
            ready = dict(poller.poll(LOOK_MS if self._tty else None))
            if self._tty:
                self._follow_size()
            if self._side in ready and not self._answer():
                poller.unregister(self._side)  # the tracer is gone
            if self._from in ready:
                going = self._copy()
            elif self._to in ready:
                # As without us: the next write of the job fails.
                going = False
        os.close(self._from)
        os.close(self._to)
        self._log.settle()
        self._tell(END, b"", waits=True)

    def run_blindly(self) -> None:
        """Copy, and nothing else."""
        try:
            while True:
                data = os.read(self._from, CHUNK_BYTES)
                if not data or not self._pass_on(data):
                    return
        except OSError:
            return
        finally:
            os.close(self._from)

    def _copy(self) -> bool:
        """Whether there may be more."""
        try:
            data = os.read(self._from, CHUNK_BYTES)
        except OSError:  # of a terminal: nobody has its other side any more
            return False
        if not data:
            return False
        self._tell(DATA, data)
        self._log.take(data)
        return self._pass_on(data)

    def _pass_on(self, data: bytes) -> bool:
        """Whether somebody still wants it."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._to, rest) :]
            except BlockingIOError:
                _waits_for(self._to, select.POLLOUT, None)
            except OSError as error:
                if error.errno not in _NO_ROOM and self._watched:
                    return False
                # A full disk: the job cannot be told through a pipe, and is not to be ended for it.
                self._refused += len(rest)
                self._error = error.errno or errno.EIO
                return True
        return True

    def _answer(self) -> bool:
        """Copy what is there by now, and say so; whether anybody is there who asks."""
        try:
            if not os.read(self._side, 16):
                return False
        except BlockingIOError:
            return True
        except OSError:
            return False
        for _ in range(_DRAINED_READS):
            if not _waits_for(self._from, select.POLLIN, 0) or not self._copy():
                break
        self._log.settle()
        self._tell(DRY, b"", waits=True)
        return True

    def _tell(self, what: int, data: bytes, *, waits: bool = False) -> None:
        error = self._error or self._log.error
        head = HEAD.pack(time.monotonic_ns(), self._log.missing, self._unseen, self._refused, error, what)
        try:
            if waits:
                _waits_for(self._side, select.POLLOUT, PATIENCE_MS)
            os.write(self._side, head + data)
        except OSError:  # it is behind, or gone
            self._unseen += len(data)
        else:
            self._unseen = self._refused = 0

    def _own_terminal(self) -> None:
        """Make it the terminal of our session: else the first of the job that opens it by name has it as its own."""
        try:
            side = fcntl.ioctl(self._from, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(side, termios.TIOCSCTTY, 0)
            finally:
                os.close(side)
        except OSError:  # an old kernel, or the session has one from its other stream
            return

    def _follow_size(self) -> None:
        try:
            size = fcntl.ioctl(self._to, termios.TIOCGWINSZ, _NO_SIZE)
            if size != self._size:
                fcntl.ioctl(self._from, termios.TIOCSWINSZ, size)
                self._size = size
                self._tell(RESIZED, b"")
        except OSError:
            return


def _waits_for(fd: int, what: int, patience_ms: "int | None") -> bool:
    poller = select.poll()
    poller.register(fd, what)
    return bool(poller.poll(patience_ms))


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:  # this user has many large ones: it serves as it is
        return


def _let_go_of_all_but(kept: "set[int]") -> None:
    # What we hold open, its other side waits for.
    null = os.open(os.devnull, os.O_RDWR)
    for fd in {0, 1, 2} - kept:
        os.dup2(null, fd)
    last = 2
    for fd in [*sorted(kept - {0, 1, 2}), _MOST_FILES]:
        os.closerange(last + 1, fd)
        last = fd


def _shun_oom_killer() -> None:
    # With us the job would lose its output: nobody gains by that.
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(fd, b"-1000")
    except OSError:  # it needs CAP_SYS_RESOURCE
        pass
    finally:
        os.close(fd)


def _run(channel: Channel, ended: "_thread.LockType") -> None:
    try:
        channel.run()
    except Exception:  # noqa: BLE001 - whatever is wrong with us, the job's output goes its way
        channel.run_blindly()
    finally:
        ended.release()


def main(words: "list[str]") -> None:
    """Copy all channels until each has ended."""
    log_fd = int(words[0])
    wanted = [tuple(map(int, word.split(","))) for word in words[1:]]
    _let_go_of_all_but({log_fd, *(fd for channel in wanted for fd in channel[:3])} - {-1})
    os.chdir("/")
    _shun_oom_killer()
    log = Log(log_fd)
    channels = [Channel((source, to, side), log, tty=bool(tty)) for source, to, side, tty in wanted]
    locks = []
    for channel in channels:
        ended = _thread.allocate_lock()
        ended.acquire()
        locks.append(ended)
        _thread.start_new_thread(_run, (channel, ended))
    for ended in locks:
        ended.acquire()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
