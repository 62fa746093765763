# SPDX-License-Identifier: Apache-2.0
"""What the variables of launchers say: which rank, of how many, on which node. Each family is read as a whole."""

from collections.abc import Mapping

import msgspec

Variables = Mapping[str, str]

MAX_DIGITS = 10
SLURM_SPECIAL_STEPS = 0xFFFF_FFF0
"""Step ids from here on are no tasks of srun: the batch script, the external step (slurm.h)."""


class Family(msgspec.Struct, frozen=True):
    """The names that one kind of launcher uses."""

    rank: str
    local: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    world: str | None = None


TORCH = Family("RANK", ("LOCAL_RANK",), ("GROUP_RANK", "NODE_RANK", "CROSS_RANK"), "WORLD_SIZE")
FAMILIES = (
    TORCH,
    Family("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_LOCAL_RANK",), (), "OMPI_COMM_WORLD_SIZE"),
    Family("PMIX_RANK", ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    Family("PMI_RANK", ("PMI_LOCAL_RANK", "MPI_LOCALRANKID"), (), "PMI_SIZE"),
    Family("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_LOCAL_RANK",), (), "MV2_COMM_WORLD_SIZE"),
    Family("HOROVOD_RANK", ("HOROVOD_LOCAL_RANK",), ("HOROVOD_CROSS_RANK",), "HOROVOD_SIZE"),
    Family("JAX_PROCESS_ID", (), (), "JAX_NUM_PROCESSES"),
    Family("FLUX_TASK_RANK"),
)
"""The first whose rank is set wins. Slurm's is not among them: all below a batch script inherits its task's number."""
SLURM = Family("SLURM_PROCID", ("SLURM_LOCALID",), ("SLURM_NODEID",), "SLURM_NTASKS")

RANK_VARIABLES = tuple(family.rank for family in FAMILIES)
RANK_IDENTITY = (*RANK_VARIABLES, "LOCAL_RANK", "GROUP_RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
"""A process was made a rank where one of these differs from its parent's."""

Identity = tuple[str | None, ...]


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What the variables say; `None`: not said, or no number."""

    variable: str
    rank: int | None = None
    local_rank: int | None = None
    node_rank: int | None = None
    world_size: int | None = None
    restart: int | None = None


def has_rank(variables: Variables | None) -> bool:
    """Whether they are those of a rank, or of something below one."""
    return variables is not None and any(variables.get(name) for name in (*RANK_VARIABLES, "LOCAL_RANK"))


def identity(variables: Variables) -> Identity:
    """What tells two ranks apart, and a rank from what started it."""
    return tuple(variables.get(name) for name in RANK_IDENTITY)


def numbers(variables: Variables) -> Numbers:
    """Of a rank."""
    for family in FAMILIES:
        if _rank(variables.get(family.rank)) is not None:
            return _with_slurms(_numbers(family, variables), variables)
    local = _numbers(TORCH, variables)
    # Lightning sets no RANK: its global rank is NODE_RANK * devices + LOCAL_RANK, and devices are not told.
    rank = local.local_rank if number(variables.get("NODE_RANK")) == 0 else None
    return msgspec.structs.replace(local, variable="LOCAL_RANK", rank=rank)


def _with_slurms(found: Numbers, variables: Variables) -> Numbers:
    """With what Slurm says of the same task: with PMI (srun --mpi=pmi2) it gives its rank and size alone."""
    task = slurm_numbers(variables)
    if task is None or not found.variable.startswith("PMI") or (task.rank, found.local_rank) != (found.rank, None):
        return found
    return msgspec.structs.replace(
        found, local_rank=task.local_rank, node_rank=task.node_rank, world_size=found.world_size or task.world_size
    )


def slurm_numbers(variables: Variables | None) -> Numbers | None:
    """Of one of several tasks that srun started; `None`: it is none, or that cannot be told."""
    if variables is None:
        return None
    step, found = number(variables.get("SLURM_STEP_ID")), _numbers(SLURM, variables)
    if step is None or step >= SLURM_SPECIAL_STEPS or found.rank is None:
        return None
    return found if found.world_size is not None and found.world_size > max(1, found.rank) else None


def number(value: str | None) -> int | None:
    """A plain decimal number of at most ten digits, such as launchers write."""
    plain = value is not None and value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS
    return int(value) if value is not None and plain else None


def _numbers(family: Family, variables: Variables) -> Numbers:
    rank, world = _rank(variables.get(family.rank)), number(variables.get(family.world or ""))
    return Numbers(
        variable=family.rank,
        rank=rank,
        local_rank=_first(variables, family.local),
        node_rank=_first(variables, family.node),
        world_size=world if world and (rank is None or rank < world) else None,
        restart=number(variables.get("TORCHELASTIC_RESTART_COUNT")),
    )


def _rank(value: str | None) -> int | None:
    return number(value) if value is not None and len(value) < MAX_DIGITS else None


def _first(variables: Variables, names: tuple[str, ...]) -> int | None:
    return next((found for name in names if (found := _rank(variables.get(name))) is not None), None)
