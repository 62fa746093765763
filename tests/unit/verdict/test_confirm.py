# SPDX-License-Identifier: Apache-2.0
"""The checklist of a host OOM kill: each known sign present, absent or not seen, and never guessed."""

from typing import Any

import pytest

from tests.unit.verdict.comparison.growing import Growing
from tests.unit.verdict.cuda.cuda_scenes import CudaScene
from tests.unit.verdict.scenes import RANK, WORKERS, Scene, worker_killed
from tracer.events import OutputWatched, TrainingLine
from tracer.units import NS_PER_S
from tracer.verdict.confirm.model import Checklist, Sign
from tracer.verdict.judge import judge
from tracer.verdict.model import Report


class Said(Scene):
    """A job whose worker is killed, with a log."""

    def says(self, about: str, **more: Any) -> None:
        self.add(TrainingLine(ts_ns=self.now_ns, source="text", about=about, text="x", stream="stderr", **more))

    def read(self) -> None:
        self.add(OutputWatched(ts_ns=self.now_ns, source="tracer"))


def kill_of(scene: Scene, pid: int = WORKERS[2], *, logged: bool = True) -> None:
    scene.grow()
    scene.pass_time(NS_PER_S)
    scene.kill(pid)
    if logged:
        scene.log_decision(pid)
        scene.log_kill(pid)
    scene.pass_time(NS_PER_S)


def ended(scene: Scene) -> Report:
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8)
    return judge(scene.finish(), recording="run 1.oomtrace")


def checklist(report: Report) -> Checklist:
    assert report.verdict.confirm is not None
    return report.verdict.confirm


def sign(report: Report, name: str) -> Sign:
    [found] = [one for one in checklist(report).signs if one.name == name]
    return found


def killed(*lines: dict[str, Any], read: bool = True, logged: bool = True) -> Report:
    scene = Said()
    scene.job()
    if read:
        scene.read()
    kill_of(scene, logged=logged)
    for line in lines:
        scene.says(**line)
    return ended(scene)


def test_all_signs_are_there_once_in_a_fixed_order_and_add_up() -> None:
    found = checklist(judge(worker_killed()))

    assert [one.name for one in found.signs] == [
        "worker_killed_said", "kernel_record", "gpu_had_room", "launcher_reported", "staircase", "no_cuda_oom",
    ]  # fmt: skip
    assert found.statement == "1 of 6 known signs of such a kill are there, 5 not seen"


def test_the_log_that_names_the_victim() -> None:
    found = sign(killed({"about": "worker_killed", "signal": 9, "pids": (WORKERS[2],)}), "worker_killed_said")

    assert (found.status, found.statement) == ("present", f"the log names pid {WORKERS[2]}, the victim")


def test_the_log_that_names_another_one_is_told_so() -> None:
    scene = Said()
    scene.job()
    kill_of(scene)
    scene.exit(WORKERS[0], 9, comm="pt_data_worker")
    scene.says("worker_killed", signal=9, pids=(WORKERS[0],))
    found = sign(ended(scene), "worker_killed_said")

    assert "present" == found.status
    assert "which is not whom the kernel killed first" in found.statement


@pytest.mark.parametrize(("read", "status"), [(True, "absent"), (False, "not_observed")])
def test_a_line_that_is_not_there_is_absent_only_where_the_log_was_read(read: bool, status: str) -> None:
    report = killed(read=read)

    assert status == sign(report, "worker_killed_said").status
    assert status == sign(report, "launcher_reported").status
    assert ("present" if read else "not_observed") == sign(report, "no_cuda_oom").status


def test_a_worker_killed_by_another_signal_is_not_the_sign() -> None:
    report = killed({"about": "worker_killed", "signal": 15, "pids": (WORKERS[2],)})

    assert "absent" == sign(report, "worker_killed_said").status


@pytest.mark.parametrize(("logged", "by"), [(True, "its log and BPF agree: "), (False, "by BPF: ")])
def test_the_kernels_record_has_the_victims_memory(logged: bool, by: str) -> None:
    found = sign(killed(logged=logged), "kernel_record")

    assert ("present", f"{by}anon-rss of worker 2 402 MiB, 79% of the limit") == (found.status, found.statement)


def test_a_victim_that_had_hardly_anything_is_told_as_such() -> None:
    scene = Said()
    scene.job()
    scene.kill(anon_rss_bytes=3 << 20)

    assert sign(ended(scene), "kernel_record").statement.endswith(": small, it was not what filled it")


def test_a_launchers_minus_nine_is_collateral() -> None:
    report = killed({"about": "failure_report", "signal": 9, "exit_code": -9, "rank": 0, "pids": (RANK,)})
    found = sign(report, "launcher_reported")

    assert (found.status, found.statement) == ("present", "of rank 0: what it reports is collateral")


def test_a_launcher_that_reports_one_says_so() -> None:
    found = sign(killed({"about": "failure_report", "exit_code": 1, "rank": 0, "pids": (RANK,)}), "launcher_reported")

    assert "absent" == found.status
    assert found.statement.startswith("it reports exit code 1 of rank 0: ")


@pytest.mark.parametrize("about", ["device_oom", "cuda_error"])
def test_cuda_out_of_memory_in_the_log_speaks_against_it(about: str) -> None:
    assert "absent" == sign(killed({"about": about}), "no_cuda_oom").status


@pytest.mark.parametrize(("used_gib", "status"), [(12, "present"), (70, "present"), (74, "absent"), (79.9, "absent")])
def test_a_gpu_that_was_near_full_is_told(used_gib: float, status: str) -> None:
    scene = CudaScene()
    scene.watched_job()
    scene.gpu(used_gib)
    scene.kill_worker()
    found = sign(judge(scene.end()), "gpu_had_room")

    assert status == found.status
    assert " of 80 GiB in use at the last look" in found.statement


def test_without_a_gpu_library_no_gpu_was_full() -> None:
    scene = CudaScene()
    scene.job()
    scene.look_round()
    scene.kill_worker()
    found = sign(judge(scene.end()), "gpu_had_room")

    assert ("present", "no process of the job had a GPU's library mapped") == (found.status, found.statement)


def test_where_nothing_of_gpus_was_seen_that_is_said() -> None:
    found = sign(killed(), "gpu_had_room")

    assert "not_observed" == found.status


def growing(step: bool, epochs: int = 6) -> Report:
    scene = Growing()
    scene.alone()
    for second in range(epochs * 10 + 5):
        if second % 10 == 0:
            scene.say(second + 0.01, epoch=second // 10)
        whole, rest = divmod(second, 10)
        mib = 100 + 70 * (whole + (rest >= 9)) if step else 100 + 7 * second
        scene.holds(second + 0.02, mib * (1 << 20))
    scene.at(epochs * 10 + 5)
    scene.kill(RANK, comm="python3")
    return judge(scene.finish())


@pytest.mark.parametrize(("step", "status"), [(True, "present"), (False, "absent")])
def test_a_staircase_is_told_from_growth_all_along(step: bool, status: str) -> None:
    report = growing(step)
    found = sign(report, "staircase")

    assert status == found.status
    assert found.statement.startswith("each of 5 epochs added ")
    picture = report.verdict.incidents[report.verdict.primary].picture
    assert picture is not None
    assert picture.staircase is not None
    mechanism = report.verdict.incidents[report.verdict.primary].mechanism
    assert mechanism is None or found.statement in mechanism.because


def test_of_too_few_epochs_it_is_said_how_many_there_were() -> None:
    assert sign(growing(True, epochs=2), "staircase").statement == "2 whole epochs were told apart, and 3 are needed"


@pytest.mark.parametrize("status", [0, 1 << 8])
def test_a_job_without_a_kill_has_no_checklist(status: int) -> None:
    scene = Said()
    scene.job()
    scene.exit(RANK, status)

    assert judge(scene.finish(status)).verdict.confirm is None


def test_a_kill_by_hand_has_no_checklist() -> None:
    scene = Said()
    scene.job()
    scene.signal(WORKERS[2], 9, sender_tgid=99, sender_start_ns=5, info=0)
    scene.exit(WORKERS[2], 9)

    assert ended(scene).verdict.confirm is None


def test_the_steps_are_commands_that_can_be_typed() -> None:
    commands = [step.command for step in checklist(killed()).steps if step.command is not None]

    assert commands[0] == "sudo oomtrace run --record again.oomtrace -- torchrun train.py"
    assert commands[-1] == (
        "sudo oomtrace run --until epochs=1 --record after.oomtrace -- torchrun train.py; "
        "oomtrace compare 'run 1.oomtrace' after.oomtrace"
    )
    assert any(step.do.startswith("Change one variable at a time") for step in checklist(killed()).steps)
