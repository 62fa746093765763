# SPDX-License-Identifier: Apache-2.0
"""What a real PyTorch writes when memory is refused: of a DataLoader worker, of its shared memory, of a tensor."""

import pytest

from tests.kernel.conftest import can_trace  # noqa: F401 - a fixture
from tests.kernel.running import oomtrace  # noqa: F401 - a fixture
from tests.torch.conftest import JOB_S, TORCHRUN

LOG = ("--log", "train.log")
LOADER = """
import resource, sys, torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return {sample}

def limit(worker):
    {limit}

if __name__ == "__main__":
    kept = []
    for batch in DataLoader(Samples(), batch_size=2, num_workers=2, worker_init_fn=limit):
        kept.append(batch)
"""
LIMITED = "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))"
SMALL_SHM = 'mount -t tmpfs -o size=32m tmpfs /dev/shm && exec "$@"'

pytestmark = pytest.mark.timeout(2 * JOB_S)


@pytest.fixture
def trained(oomtrace, tmp_path):  # noqa: F811 - a fixture
    """Runs a program with the Python that has PyTorch."""
    if not TORCHRUN.exists():
        pytest.skip("there is no PyTorch for jobs here: scripts/test --torch makes one")

    def run(program, *within):
        (tmp_path / "job.py").write_text(program)
        return oomtrace(*within, TORCHRUN.with_name("python"), "job.py", options=LOG)

    return run


@pytest.mark.parametrize(
    ("sample", "size"),
    [("torch.empty(1 << 34, dtype=torch.uint8)", "16 GiB"), ("bytearray(1 << 34)", "memory")],
    ids=["tensor", "object"],
)
def test_a_worker_beyond_its_address_space_is_named_and_its_rank_ended_of_it(trained, sample, size):
    run = trained(LOADER.format(sample=sample, limit=LIMITED))

    assert (run.primary["cause"], run.primary["strength"], run.code) == ("host_allocation_failed", "likely", 1)
    assert (run.primary["victim"]["role"], run.primary["victim"]["worker"]) == ("dataloader_worker", 0)
    assert f"DataLoader worker 0 (pid {run.primary['victim']['pid']}) was refused {size}" in run.err.replace(
        "\n  ", " "
    )


def test_batches_that_did_not_fit_into_dev_shm(trained):
    sample = "torch.zeros(3 << 20, dtype=torch.uint8)"
    within = ("unshare", "-m", "--propagation", "private", "sh", "-c", SMALL_SHM, "sh")
    run = trained(LOADER.format(sample=sample, limit="pass"), *within)

    assert (run.primary["cause"], run.primary["strength"], run.code) == ("shm_exhausted", "likely", 1)
    assert "num_workers=1 instead of 2" in run.err.replace("\n     ", " ")


def test_more_than_the_machine_has_is_refused_to_the_trainer(trained):
    run = trained("import torch\ntorch.empty(1 << 46, dtype=torch.uint8)")

    assert (run.primary["cause"], run.primary["strength"]) == ("host_allocation_failed", "likely")
    assert run.links[2] == "present"
    assert "64 TiB at once are more than" in run.err.replace("\n  ", " ")
