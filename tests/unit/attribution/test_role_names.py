# SPDX-License-Identifier: Apache-2.0
"""Helpers that multiprocessing and loggers start, by command lines and names; what only looks like one."""

import pytest

from tests.unit.attribution.jobs import PYTHON, ROOT, TRAIN, Job, torchrun
from tracer.attribution.roles import Role, describe, short
from tracer.attribution.roles.names import multiprocessing_kind, service_of


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("from multiprocessing.resource_tracker import main;main(11)", "resource_tracker"),
        ("from multiprocessing.semaphore_tracker import main;main(11)", "resource_tracker"),
        ("from joblib.externals.loky.backend.resource_tracker import main; main(5, False)", "resource_tracker"),
        ("from multiprocess.resource_tracker import main;main(11)", "resource_tracker"),
        ("from multiprocessing.forkserver import main; main(3, 4, ['__main__'], **{})", "forkserver"),
        ("from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)", "spawn"),
        ("import multiprocessing.forkserver", None),
        ("from multiprocessing.forkserver import mainly", None),
        ("from forkserver import main", None),
        ("x = 'from multiprocessing.spawn import spawn_main'", None),
        ("", None),
    ],
)
def test_multiprocessings_command_lines(code: str, kind: str | None) -> None:
    assert kind == multiprocessing_kind((PYTHON, "-B", "-c", code, "--multiprocessing-fork"), PYTHON)
    assert multiprocessing_kind((PYTHON, "train.py", code), PYTHON) is None


@pytest.mark.parametrize("cmdline", [None, (), ("",), (PYTHON, "-c")])
def test_a_command_line_that_says_nothing(cmdline: tuple[str, ...] | None) -> None:
    assert multiprocessing_kind(cmdline, None) is None
    assert service_of((), cmdline, None) is None


def test_the_shared_memory_manager_is_known_by_its_program() -> None:
    job = Job("torchrun")
    job.start(10, ROOT, TRAIN, torchrun(0))
    job.fork(11, 10, "pt_data_worker")
    job.start(12, 11, ("/site/torch/bin/torch_shm_manager",), torchrun(0))

    assert ("shared-memory manager of rank 0", "shm_manager") == (job.told[12], job.roles[12].name)


@pytest.mark.parametrize(
    ("cmdline", "comm", "service"),
    [
        ((PYTHON, "/bin/tensorboard", "--logdir", "x"), "tensorboard", "TensorBoard"),
        ((PYTHON, "-m", "tensorboard.main"), None, "TensorBoard"),
        (("/site/wandb/bin/wandb-core", "--port-filename", "x"), None, "W&B service"),
        (("/site/wandb/bin/gpu_stats",), None, "W&B's GPU statistics"),
        ((PYTHON, "-m", "wandb", "service"), None, "W&B"),
        ((PYTHON, "/site/torch/_inductor/compile_worker/__main__.py", "--workers=32"), None, "torch.compile"),
        (("nvidia-cuda-mps-server",), "nvidia-cuda-mps", "CUDA MPS server"),
    ],
)
def test_services_are_known_by_name(cmdline: tuple[str, ...], comm: str | None, service: str) -> None:
    job = Job("torchrun")
    job.start(10, ROOT, TRAIN, torchrun(0))
    job.start(11, 10, cmdline, torchrun(0), comm)
    job.fork(12, 11)

    job.start(13, 11, ("/bin/true",), torchrun(0))

    assert "a process of rank 0" == job.told[13]
    assert ("auxiliary", service, 0) == (job.roles[11].name, job.roles[11].service, job.roles[11].rank)
    assert {f"{service} of rank 0"} == {job.told[11], job.told[12]}


@pytest.mark.parametrize(
    "cmdline", [(PYTHON, "train.py", "tensorboard"), ("/bin/ls", "/site/ray/dashboard"), (PYTHON, "aim.py")]
)
def test_an_argument_that_names_a_service_makes_none(cmdline: tuple[str, ...]) -> None:
    assert "job" == Job(*cmdline).roles[ROOT].name


@pytest.mark.parametrize(
    ("role", "told", "column"),
    [
        (Role(name="forkserver", rank=1), "forkserver of rank 1", "forkserver"),
        (Role(name="resource_tracker", rank=0), "resource tracker of rank 0", "tracker"),
        (Role(name="shm_manager"), "shared-memory manager", "x"),
        (Role(name="auxiliary", service="Aim", rank=0), "Aim of rank 0", "x"),
        (Role(name="auxiliary", rank=0), "'x' of rank 0", "x"),
        (Role(name="rank", local_rank=2), "local rank 2", "local rank 2"),
        (Role(name="launcher", launcher="torch_elastic"), "launcher", "launcher"),
        (Role(name="launcher", launcher="torch_elastic", below_launcher=True), "elastic agent", "elastic agent"),
        (Role(name="launcher", launcher="mpi", below_launcher=True), "launcher", "launcher"),
    ],
)
def test_helpers_are_told_in_a_sentence_and_in_a_column(role: Role, told: str, column: str) -> None:
    assert (told, column) == (describe(role, "x"), short(role, "x"))
