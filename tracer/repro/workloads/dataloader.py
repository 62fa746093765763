# SPDX-License-Identifier: Apache-2.0
"""A training job in small: launcher, ranks, DataLoader workers; one worker's cache never lets go of a sample.

Standard library only and no import of this package, so any Python runs it as a file. The processes look
from outside as those of torchrun and PyTorch do: variables, sessions, names, messages, exit codes.
It never asks for more than `--cap-mib`: without a memory limit round it, it ends well.
"""

import argparse
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import selectors
import signal
import subprocess
import sys
import time

MIB = 1024 * 1024
PR_SET_NAME = 15
HANDLED = (signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV, signal.SIGTERM)
"""By a worker of PyTorch's; who loads handles SIGCHLD."""
SAMPLES_A_SECOND = 20
BATCH = b"b" * 4096
FAILED = 1
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "HOROVOD_RANK", "SLURM_PROCID")
"""Where launchers say which rank one is: under mpirun, srun and the like it is a rank of theirs."""
BARRIER = "DATALOADER_BARRIER"
"""Two descriptors: to say that one has started, and to wait on."""


def main() -> int:
    """Be the launcher, or a rank where the environment says so."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4, help="per rank")
    parser.add_argument("--leaking-rank", type=int, default=0)
    parser.add_argument("--leaking-worker", type=int, default=2, help="whose cache grows; -1: the rank's own")
    parser.add_argument("--rate-mib", type=int, default=60, help="how fast it grows, per second")
    parser.add_argument("--cap-mib", type=int, default=1024, help="where it stops growing")
    parser.add_argument("--dataset-mib", type=int, default=32, help="in the rank, before it forks its workers")
    parser.add_argument("--worker-mib", type=int, default=16, help="what each worker needs for itself")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long the training takes")
    parser.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default="fork", help="of workers")
    parser.add_argument("--unnamed", action="store_true", help="as PyTorch before 2.5: workers have handlers, no name")
    parser.add_argument("--steady", action="store_true", help="no leak: ends well")
    parser.add_argument("--local_rank", help="what DeepSpeed gives to each rank, too")
    options = parser.parse_args()
    rank = next((os.environ[name] for name in RANKS if os.environ.get(name)), None)
    return launch(options) if rank is None else train(int(rank), options)


def launch(options: argparse.Namespace) -> int:
    """As torchrun: each rank a session of its own; when one fails the others are ended."""
    started_fd, start_fd = os.pipe()
    go_fd, hold_fd = os.pipe()
    ranks = [start_rank(rank, options.ranks, (start_fd, go_fd)) for rank in range(options.ranks)]
    os.set_blocking(started_fd, False)
    workers_left = options.ranks * options.workers if options.start_method == "fork" else 0
    stopped = [False]

    def stop(_number: int, _frame: object) -> None:
        stopped[0] = True
        end(ranks)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    failed = None
    while failed is None and any(rank.poll() is None for rank in ranks):
        time.sleep(0.05)
        if hold_fd >= 0:
            workers_left -= count_started(started_fd)
            if workers_left <= 0:
                os.close(hold_fd)
                hold_fd = -1
        failed = next((number for number, rank in enumerate(ranks) if rank.poll() not in (None, 0)), None)
    if failed is None:
        return FAILED if stopped[0] else 0
    code, pid = ranks[failed].returncode, ranks[failed].pid
    print(f"launcher: failed (exitcode: {code}) local_rank: {failed} (pid: {pid})", file=sys.stderr, flush=True)
    end(ranks)
    return FAILED


def count_started(started_fd: int) -> int:
    """How many workers have said so since the last look."""
    try:
        return len(os.read(started_fd, 4096))
    except BlockingIOError:
        return 0


def wait_for_all() -> None:
    """A worker begins when all of them are there: what it takes must not keep the others from being started."""
    fds = os.environ.get(BARRIER)
    if fds is None:
        return
    start_fd, go_fd = map(int, fds.split(","))
    os.write(start_fd, b".")
    os.read(go_fd, 1)  # ends when the launcher lets go of the other end, or is gone


def start_rank(rank: int, ranks: int, fds: "tuple[int, int]") -> "subprocess.Popen[bytes]":
    """The same program again, with the variables that make it a rank."""
    variables = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "GROUP_RANK": 0,
        "TORCHELASTIC_RUN_ID": "dataloader",
        "TORCHELASTIC_RESTART_COUNT": 0,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
    }
    environ = os.environ | {name: str(value) for name, value in variables.items()}
    environ[BARRIER] = ",".join(map(str, fds))
    command = [sys.executable, "-u", os.path.abspath(__file__), *sys.argv[1:]]
    return subprocess.Popen(command, env=environ, start_new_session=True, pass_fds=fds)


def end(ranks: "list[subprocess.Popen[bytes]]") -> None:
    """SIGTERM to the groups of all that still run, SIGKILL to those that stay."""
    for rank in ranks:
        if rank.poll() is None:
            os.killpg(rank.pid, signal.SIGTERM)
    deadline = time.monotonic() + 5
    for rank in ranks:
        try:
            rank.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(rank.pid, signal.SIGKILL)
            rank.wait()


def train(rank: int, options: argparse.Namespace) -> int:
    """A rank: reads batches from its workers, in the order in which they come."""
    dataset = bytes([rank + 1]) * (options.dataset_mib * MIB)
    workers = [start_worker(rank, number, options) for number in range(options.workers)]
    if options.unnamed:
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    pipes = {worker.read_fd: worker for worker in workers}
    leaks = rank == options.leaking_rank and options.leaking_worker < 0 and not options.steady
    kept: list[bytes] = []
    steps, ends_at = 0, time.monotonic() + options.seconds
    with selectors.DefaultSelector() as selector:
        for read_fd in pipes:
            selector.register(read_fd, selectors.EVENT_READ)
        while time.monotonic() < ends_at:
            for key, _ in selector.select(0.1):
                if not os.read(key.fd, len(BATCH)):
                    return worker_died(pipes[key.fd])
                steps += 1
                if leaks and len(kept) < options.cap_mib:
                    kept.append(bytes([1]) * MIB)
                if steps % 100 == 0:
                    print(f"rank {rank}: step {steps}, loss {1 / (1 + steps / 100):.3f}", flush=True)
    for worker in workers:
        os.kill(worker.pid, signal.SIGTERM)
    for worker in workers:
        worker.end()
    print(f"rank {rank}: done after {steps} steps over {len(dataset) // MIB} MiB of data", flush=True)
    return 0


class Worker:
    """A process, and the pipe that its batches come through; at its end the pipe ends."""

    def __init__(self, pid: int, read_fd: int, process: "object | None" = None) -> None:
        self.pid = pid
        self.read_fd = read_fd
        self._process = process

    def end(self) -> "int | None":
        """Wait for it; its exit code, or minus the signal."""
        if isinstance(self._process, multiprocessing.process.BaseProcess):
            self._process.join()
            return self._process.exitcode
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def worker_died(worker: Worker) -> int:
    """Say it as a rank does whose DataLoader noticed, and fail."""
    code = worker.end()
    if code is not None and code < 0:
        how = f"is killed by signal: {signal.strsignal(-code)}. "
    else:
        how = f"exited unexpectedly with exit code {code}. "
    print(f"RuntimeError: DataLoader worker (pid {worker.pid}) {how}", file=sys.stderr, flush=True)
    return FAILED


def start_worker(rank: int, number: int, options: argparse.Namespace) -> Worker:
    """As PyTorch starts it: forked by the rank, or through multiprocessing."""
    leaks = number == options.leaking_worker and rank == options.leaking_rank
    if options.start_method != "fork":
        context = multiprocessing.get_context(options.start_method)
        reads, writes = context.Pipe(duplex=False)
        process = context.Process(target=work_through, args=(writes, options, leaks))
        process.start()
        writes.close()
        assert process.pid is not None
        return Worker(process.pid, os.dup(reads.fileno()), process)
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_fd)
        return Worker(pid, read_fd)
    code = FAILED
    try:
        os.close(read_fd)
        code = work(write_fd, options, leaks=leaks)
    finally:
        os._exit(code)


def work_through(writes: "multiprocessing.connection.Connection", options: argparse.Namespace, leaks: bool) -> None:
    """What multiprocessing runs in the process that it starts."""
    sys.exit(work(writes.fileno(), options, leaks=leaks))


def work(write_fd: int, options: argparse.Namespace, *, leaks: bool) -> int:
    """A worker: makes samples until nobody reads them any more."""
    if options.unnamed:
        for number in HANDLED:
            signal.signal(number, lambda _number, _frame: os._exit(0))
    else:
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"pt_data_worker", 0, 0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if options.start_method == "fork":  # the others keep no descriptor of their parent's
        wait_for_all()
    own = bytes([1]) * (options.worker_mib * MIB)
    cache: list[bytes] = []
    sample_bytes = options.rate_mib * MIB // SAMPLES_A_SECOND
    most = options.cap_mib * MIB // max(1, sample_bytes)
    while own:
        sample = bytes([len(cache) % 255 + 1]) * sample_bytes
        if leaks and not options.steady and len(cache) < most:
            cache.append(sample)  # the bug: keyed by sample, and nothing is ever taken out
        try:
            os.write(write_fd, BATCH)
        except BrokenPipeError:
            return 0
        time.sleep(1 / SAMPLES_A_SECOND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
