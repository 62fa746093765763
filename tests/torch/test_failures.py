# SPDX-License-Identifier: Apache-2.0
"""torchrun with gloo ranks and DataLoader workers: who was killed, what came first, and what only followed."""

import os
import signal

import pytest

from tests.torch.conftest import ATTEMPTS, JOB_S
from tests.waiting import wait_for
from tracer.verdict.story import Story

pytestmark = pytest.mark.timeout(ATTEMPTS * 2 * JOB_S)
LONG = ("--steps", 2000)


def leak(rank, worker=None, mib=64):
    return ("--leaking-rank", rank, *(() if worker is None else ("--leaking-worker", worker)), "--leak-mib", mib)


def victim(run):
    found = run.primary["victim"]
    return found["role"], found["rank"], found["worker"]


def ranks_of(run):
    return sorted({role.rank for role in Story(run.events(object)).roles.values() if role.name == "rank"})


def collateral(run):
    return [one["how"] for one in run.primary["collateral"]]


def of_rank(rank, process, path, *, comm="", program=""):
    """The pid of a process of that rank, once it is there, by what it was given to exec.

    Args:
        path: which this job alone was given as an argument; another one may run on this machine.
    """
    found = []

    def look():
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            try:
                texts = [_text(f"/proc/{pid}/{name}") for name in ("environ", "comm", "cmdline")]
            except OSError:
                continue
            environ, name, words = (text.split("\0") for text in texts)
            ours = f"RANK={rank}" in environ and str(path) in words
            if ours and comm in name[0] and any(word.endswith(program) for word in words):
                found.append(int(pid))
                return True
        assert process.poll() is None, "it ended too early"
        return False

    wait_for(look, f"a process of rank {rank}", patience_s=JOB_S)
    return found[0]


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def trains(process, path):
    # Four ranks import PyTorch before that: 10 s where nobody else needs the two CPUs.
    wait_for(lambda: path.exists() or process.poll() is not None, "the first step", patience_s=JOB_S)


def test_a_leaking_worker_is_the_first_failure_and_all_else_is_its_collateral(trained):
    run = trained(*leak(2, 1))

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert victim(run) == ("dataloader_worker", 2, 1)
    assert "DataLoader worker 1 of rank 2" in run.err
    assert len(run.verdict["incidents"]) == 1
    told = collateral(run)
    # Its rank raises and exits 1; the others lose their connection to it, or the agent ends them; it fails then.
    ranks = [how for how in told if how.startswith("rank")]
    assert ranks[0].startswith("rank 2: exit 1")
    assert sorted(how[:6] for how in ranks) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert all("exit 1" in how or "signal 15 (SIGTERM) from launcher" in how for how in ranks)
    assert told[-1].startswith("launcher: exit 1")
    assert ranks_of(run) == [0, 1, 2, 3]
    assert run.code == 1


def test_a_leaking_rank_is_killed_itself(trained):
    run = trained(*leak(1), *LONG)

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert victim(run) == ("rank", 1, None)
    assert any(how.startswith("launcher: exit 1") for how in collateral(run))


def test_a_rank_that_is_killed_for_what_a_logger_of_rank_0_took_is_not_the_culprit(trained):
    def prefer_rank_3(process, ready, path):
        # The kernel takes whom it is told to take first, though that one did not grow.
        pid = of_rank(3, process, path, program="train.py")
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="utf-8") as file:
            file.write("1000")

    run = trained("--auxiliary", "--leak-mib", 64, *LONG, limit="4G", then=prefer_rank_3)

    assert victim(run) == ("rank", 3, None)
    assert "metric_logger" in run.primary["culprit"]["who"]
    assert "metric_logger" in run.err


def test_a_worker_that_somebody_kills_was_killed_by_that_one(trained):
    killed = []

    def kill(process, ready, path):
        trains(process, path)
        killed.append(of_rank(2, process, path, comm="pt_data_worker"))
        os.kill(killed[-1], signal.SIGKILL)

    run = trained(*LONG, then=kill)

    assert (run.primary["cause"], run.primary["strength"]) == ("sigkill", "proved")
    assert run.primary["victim"]["pid"] == killed[-1]
    assert victim(run)[:2] == ("dataloader_worker", 2)
    assert (run.primary["sender"]["pid"], run.primary["sender"]["kind"]) == (os.getpid(), "outside")


def test_sigterm_to_the_agent_is_what_ended_the_job(trained):
    def stop(process, ready, path):
        trains(process, path)
        os.kill(int(ready.read_text()), signal.SIGTERM)

    run = trained(*LONG, then=stop)

    assert run.primary["cause"] == "sigterm"
    assert victim(run)[0] == "launcher"
    assert run.primary["sender"]["pid"] == os.getpid()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_are_known_however_they_are_started(trained, method):
    run = trained("--start-method", method, *leak(1, 0), *LONG, ranks=2, limit="3G")

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert victim(run)[:2] == ("dataloader_worker", 1)
    assert ranks_of(run) == [0, 1]


def test_persistent_workers_keep_their_numbers_over_epochs(trained):
    epochs = ("--persistent-workers", "--epochs", 50, "--steps", 20, "--step-ms", 10)
    run = trained(*epochs, *leak(0, 1, mib=16), ranks=2)

    assert victim(run) == ("dataloader_worker", 0, 1)


def test_an_agent_that_starts_again_is_told_and_the_first_kill_stays_first(trained):
    run = trained(*leak(1, 0), *LONG, ranks=2, launcher=("--max-restarts=1",))
    kills = [one for one in run.verdict["incidents"] if one["cause"] == "host_oom_cgroup"]

    assert (run.primary["cause"], victim(run)) == ("host_oom_cgroup", ("dataloader_worker", 1, 0))
    # What was started again may be killed, too, or be ended by the agent before that: it saw the other rank fail late.
    assert len(kills) in {1, 2}
    assert kills[0] == run.primary
    ranks = [identity for identity, role in Story(run.events(object)).roles.items() if role.name == "rank"]
    assert len(ranks) > 2
