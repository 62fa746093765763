# SPDX-License-Identifier: Apache-2.0
"""What names say: the kernel's 15 bytes that a process gave itself or exec took from the file, and the command line.

PyTorch: torch/utils/data/_utils/worker.py, torch/distributed/run.py and c10/util/thread_name.cpp (2.5 to 2.14
`pt_data_worker`, later `pt_multiprocess_data_worker` cut to 15). `pt_main_thread` (2.3, 2.4) is every process that
imported torch, and so says nothing.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from tracer.attribution.roles.model import LauncherKind

WORKER_COMMS = frozenset({"pt_data_worker", "pt_multiprocess"})

STEP_DAEMON = "slurmstepd"
"""Starts the tasks of one step of a Slurm job on its node."""
LAUNCHER_COMMS: dict[str, LauncherKind] = {
    "pt_elastic": "torch_elastic",
    "torchrun": "torch_elastic",
    "accelerate": "accelerate",
    "accelerate-laun": "accelerate",
    "deepspeed": "deepspeed",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "mpiexec.hydra": "mpi",
    "orterun": "mpi",
    "prterun": "mpi",
    "orted": "mpi",
    "prted": "mpi",
    "hydra_pmi_proxy": "mpi",
    "horovodrun": "horovod",
    "srun": "slurm",
    STEP_DAEMON: "slurm",
    "raylet": "ray",
}
OWN_NAMES = {name: name for name in (STEP_DAEMON, "raylet", "hydra_pmi_proxy", "orted", "prted")} | {
    "deepspeed.launcher.launch": "DeepSpeed's launcher",
}
"""Launchers that are called by their names, since another one stands above them or somebody else had started them."""
_LAUNCHER_MODULES: dict[str, LauncherKind] = {
    "torch.distributed.run": "torch_elastic",
    "torch.distributed.launch": "torch_elastic",
    "accelerate.commands.launch": "accelerate",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed.launcher.launch": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
    "horovod.runner": "horovod",
    "horovod.runner.launch": "horovod",
}

_SERVICES = {
    "tensorboard": "TensorBoard",
    "wandb-core": "W&B service",
    "wandb-service": "W&B service",
    "gpu_stats": "W&B's GPU statistics",
    "wandb": "W&B",
    "mlflow": "MLflow",
    "aim": "Aim",
    "nvidia-smi": "nvidia-smi",
    "nv-hostengine": "DCGM",
    "dcgm-exporter": "DCGM exporter",
    "node_exporter": "Prometheus node exporter",
    "nvidia-cuda-mps-server": "CUDA MPS server",
    "nvidia-cuda-mps-control": "CUDA MPS control",
    "gcs_server": "Ray's control store",
    "redis-server": "Redis",
    "uvicorn": "uvicorn server",
    "gunicorn": "gunicorn server",
}
"""By the program's name. A logger or server has its own memory, whoever started it."""
_SERVICE_MODULES = {
    "tensorboard.main": "TensorBoard",
    "wandb": "W&B",
    "torch._inductor.compile_worker": "torch.compile",
}
_SERVICE_PATHS = (
    ("torch/_inductor/compile_worker/__main__.py", "torch.compile"),
    ("ray/dashboard/dashboard.py", "Ray's dashboard"),
    ("ray/dashboard/agent.py", "Ray's agent"),
    ("ray/_private/runtime_env/agent/main.py", "Ray's agent"),
    ("ray/_private/log_monitor.py", "Ray's log monitor"),
    ("ray/autoscaler/_private/monitor.py", "Ray's monitor"),
)

WRAPPERS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "numactl", "taskset", "nice", "ionice", "timeout",
    "time", "stdbuf", "setsid", "nohup", "chrt", "nsys", "ncu",
})  # fmt: skip
"""Programs that begin another one, and do nothing else with what they were given."""

MpKind = Literal["spawn", "forkserver", "resource_tracker", "shm_manager"]
_MP = re.compile(
    r"from (?:[A-Za-z_]\w*\.){1,8}(?:(?P<tracker>resource|semaphore)_tracker|(?P<forkserver>forkserver)|spawn)"
    r" import (?:main|spawn_main)\b"
)
"""multiprocessing's own command lines, and those of its copies (torch.multiprocessing, multiprocess, loky)."""
_PYTHON = re.compile(r"python[0-9.]*(?:-dbg)?|pypy[0-9.]*")
_MAX_OPTIONS = 16


def launcher_of(comms: Iterable[str], cmdline: Sequence[str] | None) -> tuple[LauncherKind, str] | None:
    """Which launcher carries this name, and the name."""
    for comm in comms:
        if comm in LAUNCHER_COMMS:
            return LAUNCHER_COMMS[comm], comm
    for name in _programs(cmdline):
        kind = _LAUNCHER_MODULES.get(name) or LAUNCHER_COMMS.get(name)
        if kind is not None:
            return kind, name
    return None


def service_of(comms: Iterable[str], cmdline: Sequence[str] | None, exe: str | None) -> tuple[str, str] | None:
    """Which service carries this name, and the name."""
    programs = _programs(cmdline)
    names = [*programs, *([_base(exe)] if exe else []), *comms]
    cut = {name[:15]: name for name in _SERVICES}
    for name in names:
        found = _SERVICE_MODULES.get(name) or _SERVICES.get(cut.get(name, name))
        if found is not None:
            return found, name
    for argument in (cmdline or ())[1 : 1 + _MAX_OPTIONS]:
        for path, service in _SERVICE_PATHS:
            if argument.endswith("/" + path):
                return service, path
    return None


def multiprocessing_kind(cmdline: Sequence[str] | None, exe: str | None) -> MpKind | None:
    """What of Python's multiprocessing a command line begins."""
    if exe is not None and _base(exe) == "torch_shm_manager":
        return "shm_manager"
    if not cmdline:
        return None
    if _base(cmdline[0]) == "torch_shm_manager":
        return "shm_manager"
    if "-c" not in cmdline[1:_MAX_OPTIONS]:
        return None
    place = cmdline.index("-c", 1) + 1
    found = _MP.match(cmdline[place]) if place < len(cmdline) else None
    if found is None:
        return None
    if found["tracker"]:
        return "resource_tracker"
    return "forkserver" if found["forkserver"] else "spawn"


def is_python(comms: Iterable[str], cmdline: Sequence[str] | None, exe: str | None) -> bool:
    """Whether a Python interpreter runs."""
    names = (*comms, *([_base(cmdline[0])] if cmdline else []), *([_base(exe)] if exe else []))
    return any(_PYTHON.fullmatch(name) or name.startswith("pt_") for name in names)


def _programs(cmdline: Sequence[str] | None) -> list[str]:
    """Names of the program: the file, and what Python was told to run."""
    if not cmdline:
        return []
    names = [_base(cmdline[0])]
    if not _PYTHON.fullmatch(names[0]):
        return names
    for place, argument in enumerate(cmdline[1:_MAX_OPTIONS], start=1):
        if argument == "-c":
            return names
        if argument == "-m":
            return [*names, cmdline[place + 1]] if place + 1 < len(cmdline) else names
        if not argument.startswith("-") and cmdline[place - 1] not in {"-W", "-X"}:
            return [*names, _base(argument)]
    return names


def _base(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(" (deleted)")
