# SPDX-License-Identifier: Apache-2.0
"""The names of environment variables that may leave a process: the allow-list, and nothing else ever does.

A name is here because a rule needs it to tell ranks, launchers or jobs apart, and because what launchers put
there is a number or an identifier; one path is, of a file that is read. Addresses, other paths, commands and
whatever a user may fill freely are not here.
"""

from tracer.masking import mask_marked

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
_WHY: dict[str, tuple[str, ...]] = {
    "torchrun, and what most launchers copy: which rank of how many, on which node": (
        "RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "ROLE_NAME",
    ),
    "tells two jobs on one machine apart where there is no run id; a port number": ("MASTER_PORT",),
    "torch elastic: which run, and which attempt of it": (
        "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
    ),
    "torch elastic: where a rank leaves its last exception, which is read once it has ended": (ERROR_FILE,),
    "torchrun's own arguments in a Kubeflow pod": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"),
    "DeepSpeed's launcher": ("LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"),
    "Open MPI and PMIx": (
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_RANK", "PMIX_NAMESPACE",
    ),
    "MPICH, Intel MPI, MVAPICH2": (
        "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
        "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    "Horovod": (
        "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE",
        "HOROVOD_CROSS_SIZE",
    ),
    "Slurm: task, node and job; inherited by all below a task": (
        "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NNODES", "SLURM_JOB_ID",
        "SLURM_STEP_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT",
    ),
    "other schedulers' job ids": ("PBS_JOBID", "LSB_JOBID", "LSB_JOBINDEX", "FLUX_JOB_ID", "FLUX_TASK_RANK"),
    "accelerate: which kind of launch; switches and counts": (
        "ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_MEGATRON_LM", "ACCELERATE_MIXED_PRECISION",
        "ACCELERATE_PROCESS_INDEX", "ACCELERATE_NUM_PROCESSES", "ACCELERATE_DEEPSPEED_ZERO_STAGE",
        "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
    ),
    "Ray: job and actor ids; its workers overwrite their titles": (
        "RAY_JOB_ID", "RAY_ACTOR_ID", "RAY_WORKER_ID", "RAY_NODE_ID", "RAY_RAYLET_PID",
    ),
    "JAX, TPU and SageMaker: process index": ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "TPU_WORKER_ID"),
    "job set and index in Kubernetes": ("JOB_COMPLETION_INDEX",),
}  # fmt: skip

ALLOWED_NAMES: frozenset[str] = frozenset(name for names in _WHY.values() for name in names)
"""Exact names: no pattern, so that a new variable of some launcher is never read by accident."""

VALUE_CHARS = 256
"""A longer value is cut."""


def allowed(environ: dict[str, str]) -> dict[str, str]:
    """What of an environment may be kept, in the order of its names.

    Some hold what a user chose (a run's name): a token is masked there as well.
    """
    return {name: mask_marked(environ[name])[:VALUE_CHARS] for name in sorted(ALLOWED_NAMES & environ.keys())}
