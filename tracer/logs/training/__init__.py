# SPDX-License-Identifier: Apache-2.0
"""The job's own output: of its lines those that matter, one event each. Pure, streaming, bounded work a line.

Each family of lines has a module with a table of rules. A rule that is met keeps the line, or the part of it that
was recognised: a log may hold anything, and nothing else of it goes into a recording.
"""

from tracer.logs.training.error_file import ErrorFile, parse_error_file
from tracer.logs.training.reader import TrainingReader, recognise
from tracer.logs.training.shape import TEXT_CHARS
from tracer.logs.training.thinning import Thinning

KINDS: dict[str, str] = {
    "worker_killed": "a DataLoader worker was killed by a signal",
    "worker_exited": "a DataLoader worker ended without a word",
    "worker_raised": "an exception in a DataLoader worker",
    "worker_fault": "a fault in a DataLoader worker, said by its own handler",
    "pin_thread": "the thread that pins memory failed",
    "loader_timeout": "a DataLoader waited in vain",
    "shm": "shared memory was refused",
    "rank_failed": "a launcher saw a rank fail",
    "failure_report": "a launcher's report, one failure",
    "spawn_failed": "a process of mp.spawn failed",
    "launcher_signals": "a launcher sends a process a signal",
    "launcher_kills": "a launcher kills a process",
    "launcher_stopped": "a launcher was told to stop",
    "exit_status": "how a process ended, said by whoever started it",
    "subprocess_died": "a process of a pool vanished",
    "shell_killed": "a shell says that its job was killed",
    "scheduler_oom": "a scheduler saw the limit of a job exceeded",
    "ray_memory": "Ray ended workers for want of memory",
    "device_oom": "device memory was refused",
    "device_retry": "device memory was refused, and that was survived",
    "device_budget": "a share of device memory is too small",
    "cuda_error": "CUDA said out of memory, of what kind is open",
    "host_alloc": "host memory was refused",
    "pinned_alloc": "pinned host memory was refused",
    "collective": "a collective operation failed",
    "progress": "an epoch or a step",
    "checkpoint": "a checkpoint is saved",
    "optimizer_step": "an optimizer steps",
    "exception": "what a Python traceback ends with",
}
"""What `TrainingLine.about` can be."""

__all__ = ["KINDS", "TEXT_CHARS", "ErrorFile", "Thinning", "TrainingReader", "parse_error_file", "recognise"]
