# SPDX-License-Identifier: Apache-2.0
"""A job of a real Slurm, attached to: its tasks are ranks, its own cgroup is whose limit it is, scancel is told."""

import pytest

from tests.launchers.conftest import WORKLOADS
from tests.waiting import SLOWER, wait_for
from tracer.verdict.story import Story

pytestmark = pytest.mark.timeout(120 * SLOWER)

SCRIPT = """#!/bin/bash
until [ -e {folder}/go ]; do sleep 0.05; done
touch {folder}/began
srun -n 2 --mem=200M {options} /usr/bin/python3 {training} --workers 2 --dataset-mib 8 --worker-mib 4 {more}
"""


@pytest.fixture
def job(slurm, attach, tmp_path):
    """A batch job under watch, whose step begins after that; and what was said at its end."""

    def run(*more, options="", then=None):
        script = tmp_path / "job.sh"
        training = WORKLOADS / "dataloader.py"
        script.write_text(
            SCRIPT.format(folder=tmp_path, training=training, options=options, more=" ".join(map(str, more)))
        )
        number = slurm.submit(script, "--mem=400M", "-n", 2, "-o", tmp_path / "out")
        process = attach.start("--slurm-job", number)
        (tmp_path / "go").touch()
        if then is not None:
            then(number)
        return attach.finish(process)

    return run


def roles_of(run, name):
    return [role for role in Story(run.events(object)).roles.values() if role.name == name]


def test_a_kill_by_the_limit_of_a_step_is_told_with_task_and_rank(job):
    run = job("--leaking-rank", 1, "--leaking-worker", 1, "--seconds", 6, options="--kill-on-bad-exit")
    victim, primary = run.primary["victim"], run.primary
    ranks = sorted(roles_of(run, "rank"), key=lambda role: role.rank)

    assert (primary["cause"], primary["strength"]) == ("host_oom_cgroup", "proved")
    assert (victim["role"], victim["rank"], victim["place"]["slurm_task"]) == ("dataloader_worker", 1, "1")
    assert primary["limit"]["cgroup"].endswith("/step_0")
    assert [(rank.rank, rank.local_rank, rank.node_rank, rank.world_size) for rank in ranks] == [
        (0, 0, 0, 2),
        (1, 1, 0, 2),
    ]
    assert {rank.known_by for rank in ranks} == {"SLURM_PROCID of a step with several tasks"}
    told = [one["how"] for one in primary["collateral"]]
    assert told[0].startswith("rank 1: exit 1")
    assert any(how.startswith("rank 0: signal 15 (SIGTERM) from slurmstepd") for how in told)


def test_a_job_that_somebody_cancels_is_not_said_to_have_ended_well(job, slurm, tmp_path):
    def cancel(number):
        wait_for((tmp_path / "began").exists, "the script to have come to its step")
        wait_for(lambda: f"{number}.0" in slurm.run("squeue", "-h", "-s", "-o", "%i"), "the step to run")
        slurm.run("scancel", number)

    run = job("--steady", "--seconds", 60, then=cancel)

    assert run.primary["cause"] == "sigterm"
    assert run.primary["headline"].startswith("Ended by SIGTERM from slurmstepd")
    assert run.verdict["job"]["status"] == "signal 15 (SIGTERM)"
