# SPDX-License-Identifier: Apache-2.0
"""Containers, Slurm jobs and units are found among the cgroups of a machine; what is not clear is not chosen."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tracer.cli import targets
from tracer.cli.targets import Asked, find_target
from tracer.errors import InputError, OomtraceError, UsageError

DOCKER, CRI, LIBPOD = "3f2a91b0c1d2e4f5" * 4, "3f77aa0c31d5e9f2" * 4, "b0c1d2e3f4a59687" * 4
UID = "5e0b7c92_41aa_4d0f_b3e6_77c1d20f9a48"
PATHS = {
    f"/docker/{DOCKER}": (11, 12),
    f"/docker/{DOCKER}/init": (13,),
    f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID}.slice/cri-containerd-{CRI}.scope": (21,),
    f"/user.slice/user-7.slice/user@7.service/user.slice/libpod-{LIBPOD}.scope/container": (31,),
    "/lxc.payload.web-1/system.slice/ssh.service": (41,),
    "/slurm/uid_5/job_51723/step_batch/task_0": (51,),
    "/slurm/uid_5/job_51723/step_0/task_0": (52,),
    "/slurm/uid_5/job_9": (),
    "/system.slice/ssh.service": (61,),
    "/system.slice/sshd.socket": (),
    "/system.slice/_memory.service": (62,),
    r"/system.slice/system-systemd\x2dfsck.slice/systemd-fsck@dev-a\x2db.service": (63,),
    "/user.slice/user-7.slice/user@7.service/app.slice/ssh.service": (72,),
    "/user.slice/user-7.slice/user@7.service/app.slice/jupyter.service": (71,),
    "/user.slice/user-8.slice/user@8.service/app.slice/jupyter.service": (81,),
    "/user.slice/user-7.slice/user@7.service/app.slice/once.service": (),
    "/user.slice/user-8.slice/user@8.service/app.slice/once.service": (82,),
}


class Machine:
    """A hierarchy in a folder; version 1 with the memory controller apart, or version 2."""

    def __init__(self, root: Path, version: int, top: str = "/") -> None:
        self.proc, self.cgroup = root / "proc", root / "cgroup"
        self.mount = self.cgroup / "memory" if version == 1 else self.cgroup
        (self.proc / "self").mkdir(parents=True)
        self.mount.mkdir(parents=True)
        kind, options = ("cgroup", "rw,memory") if version == 1 else ("cgroup2", "rw")
        mounts = f"30 25 0:30 {top} {self.mount} rw - {kind} {kind} {options}\n"
        (self.proc / "self" / "mountinfo").write_text(mounts)
        (self.mount / "cgroup.controllers").write_text("memory\n")

    def make(self, path: str, pids: tuple[int, ...] = ()) -> None:
        folder = self.mount / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def process(self, pid: int, *inside: int) -> None:
        """As its status shows it; `inside`: its pids in namespaces below ours."""
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "status").write_text(f"Name:\tx\nTgid:\t{pid}\nNSpid:\t{chr(9).join(map(str, (pid, *inside)))}\n")

    def find(self, **asked: str) -> str | None:
        return find_target(Asked(**asked), proc_root=str(self.proc), cgroup_root=str(self.cgroup)).cgroup

    def refused(self, kind: type[OomtraceError] = InputError, **asked: str) -> str:
        with pytest.raises(kind) as raised:
            self.find(**asked)
        return str(raised.value)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    made = Machine(tmp_path, request.param)
    for path, pids in PATHS.items():
        made.make(path, pids)
    return made


def path_of(part: str) -> str:
    return next(path for path in PATHS if part in path)


@pytest.mark.parametrize("text", [DOCKER, DOCKER[:12], "3f2", f"docker://{DOCKER}", DOCKER[:8].upper()])
def test_a_container_is_found_by_its_id_or_the_beginning_of_that(machine: Machine, text: str) -> None:
    assert machine.find(container=text) == f"/docker/{DOCKER}"


def test_a_container_of_a_pod_and_a_rootless_one_are_found(machine: Machine) -> None:
    assert machine.find(container=f"containerd://{CRI}") == path_of(CRI)
    # Its own cgroup, and not the one below it that its processes are in.
    assert machine.find(container=LIBPOD[:6]) == path_of(LIBPOD).removesuffix("/container")


def test_a_container_that_has_a_name_and_no_id_is_found_by_the_whole_of_it(machine: Machine) -> None:
    assert machine.find(container="web-1") == "/lxc.payload.web-1"
    assert "no container web" in machine.refused(container="web")


def test_the_beginning_of_several_ids_is_refused_with_all_that_it_may_be(machine: Machine) -> None:
    said = machine.refused(container="3f")

    assert said.startswith("container 3f may be any of ")
    assert f"{DOCKER[:12]} (docker)" in said
    assert f"{CRI[:12]} (containerd)" in said
    assert LIBPOD[:12] not in said


def test_nested_containers_whose_ids_begin_alike_are_not_taken_for_one(machine: Machine) -> None:
    machine.make(f"/docker/{LIBPOD[:4]}{DOCKER[4:]}/docker/{LIBPOD[:4]}{CRI[4:]}", (5,))

    assert "may be any of" in machine.refused(container=LIBPOD[:4])


def test_an_id_that_nothing_has_is_told_with_those_that_are_there(machine: Machine) -> None:
    said = machine.refused(container="dead")

    assert said.startswith("no container dead runs here: there is ")
    assert {f"{DOCKER[:12]} (docker)", f"{LIBPOD[:12]} (podman)", "web-1 (lxc)"} <= set(re.split(", | is ", said))


def test_a_name_is_the_runtimes_to_know(machine: Machine) -> None:
    assert "a name is known to its runtime alone, and that is not asked: give the id" in machine.refused(
        container="my_trainer"
    )


@pytest.mark.parametrize(
    "path",
    [
        # As made on Linux 6.12 by
        "/default/my_trainer",  # ctr of containerd 1.7.24, in its namespace `default`
        "/system.slice/my_trainer",  # runc 1.1.15, called by a unit
        "/system.slice/runc-my_trainer.scope",  # runc --systemd-cgroup
        "/my_trainer",  # crun 1.21
        "/system.slice/crun-my_trainer.scope",  # crun --systemd-cgroup; its processes are in `container` below
        "/machine.slice/my_trainer.scope",  # systemd-nspawn 257 --register=no; in `payload`
    ],
)
def test_a_container_whose_id_is_any_name_is_found_where_pids_are_its_own(machine: Machine, path: str) -> None:
    below = "/container" if "crun-" in path else "/payload" if "machine" in path else ""
    machine.make(path + below, (91, 92))
    machine.process(91)
    assert "no container my_trainer" in machine.refused(container="my_trainer")

    machine.process(92, 7)
    assert machine.find(container="my_trainer") == path
    assert "no container my_train" in machine.refused(container="my_train")  # never by the beginning of a name


def test_a_container_by_id_goes_before_a_cgroup_that_is_merely_called_so(machine: Machine) -> None:
    machine.make(f"/x/{LIBPOD[:6]}", (93,))
    machine.process(93, 7)

    assert machine.find(container=LIBPOD[:6]) == path_of(LIBPOD).removesuffix("/container")


def test_of_two_containers_of_one_name_none_is_chosen(machine: Machine) -> None:
    for pid, path in ((94, "/default/my_trainer"), (95, "/k8s.io/my_trainer")):
        machine.make(path, (pid,))
        machine.process(pid, 1)

    assert machine.refused(container="my_trainer") == (
        "there are 2 of container my_trainer: give --cgroup with one of /default/my_trainer, /k8s.io/my_trainer"
    )


@pytest.mark.parametrize(
    ("made", "asks"),
    [
        (["/docker/{}"], "docker inspect --format '{{.Id}}' my_trainer"),
        (["/machine.slice/libpod-{}.scope/container"], "podman inspect --format '{{.Id}}' my_trainer"),
        (["/kubepods.slice/cri-containerd-{}.scope"], "crictl ps --quiet --name my_trainer"),
        (["/kubepods.slice/crio-{}.scope"], "crictl ps --quiet --name my_trainer"),
        (["/docker/{}", "/machine.slice/libpod-{}.scope"], None),  # which one knows it cannot be told
        (["/lxc.payload.web-1", "/training/{}"], None),
        ([], None),
    ],
)
def test_who_knows_a_name_is_told_where_one_runtime_alone_has_containers(
    tmp_path: Path, made: list[str], asks: str | None
) -> None:
    empty = Machine(tmp_path, 2)
    for path in made:
        empty.make(path.format(DOCKER))

    with pytest.raises(InputError) as raised:
        empty.find(container="my_trainer")
    assert raised.value.next_command == asks


@pytest.mark.parametrize("text", ["a b", "a;b", "-x", "a'b", "\x1b[31m", "dead"])
def test_nothing_is_told_to_type_of_what_can_be_no_name_or_is_an_id(machine: Machine, text: str) -> None:
    with pytest.raises(InputError) as raised:
        machine.find(container=text)
    assert raised.value.next_command is None


def test_of_many_containers_only_some_are_listed(machine: Machine) -> None:
    for number in range(30):
        machine.make(f"/docker/{number:02x}{number:062x}")

    assert machine.refused(container="dead").endswith(" and 28 more")


def test_where_there_are_none_that_is_said(tmp_path: Path) -> None:
    empty = Machine(tmp_path, 2)

    assert empty.refused(container="abc").startswith("no container abc runs here: there is no container here")
    assert "there is no Slurm job here" in empty.refused(slurm_job="5")
    assert "attach --pid PID (PID from `scontrol listpids 5`)" in empty.refused(slurm_job="5")
    assert "no memory cgroup of unit a.service" in empty.refused(unit="a")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("51723", "/slurm/uid_5/job_51723"),
        ("051723", "/slurm/uid_5/job_51723"),
        ("51723.batch", "/slurm/uid_5/job_51723/step_batch"),
        ("51723.0", "/slurm/uid_5/job_51723/step_0"),
        ("9", "/slurm/uid_5/job_9"),
    ],
)
def test_a_slurm_job_and_its_steps_are_found(machine: Machine, text: str, path: str) -> None:
    assert machine.find(slurm_job=text) == path


def test_a_job_or_step_that_is_not_here_is_told_with_those_that_are(machine: Machine) -> None:
    said = machine.refused(slurm_job="5172")

    assert said == "no Slurm job 5172 with a memory cgroup here: there is job 51723, job 9"
    assert "no step 1 of Slurm job 51723 here: there is step 0, step batch" in machine.refused(slurm_job="51723.1")
    assert "no step 0 of Slurm job 9 here: there is no step here" in machine.refused(slurm_job="9.0")


def test_a_job_of_version_2_is_found_below_its_scope(tmp_path: Path) -> None:
    node = Machine(tmp_path, 2)
    node.make("/system.slice/n1_slurmstepd.scope/job_88/step_0/user/task_0", (5,))

    assert node.find(slurm_job="88") == "/system.slice/n1_slurmstepd.scope/job_88"
    assert node.find(slurm_job="88.0") == "/system.slice/n1_slurmstepd.scope/job_88/step_0"


def test_one_job_on_several_nodes_of_one_host_is_refused_unless_one_alone_has_processes(tmp_path: Path) -> None:
    node = Machine(tmp_path, 1)
    node.make("/slurm_n1/uid_5/job_88", (1,))
    node.make("/slurm_n2/uid_5/job_88")
    assert node.find(slurm_job="88") == "/slurm_n1/uid_5/job_88"
    node.make("/slurm_n2/uid_5/job_88", (2,))

    said = node.refused(slurm_job="88")
    assert "there are 2 of Slurm job 88: give --cgroup with one of" in said
    assert "/slurm_n2/uid_5/job_88" in said


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("ssh", "/system.slice/ssh.service"),
        ("ssh.service", "/system.slice/ssh.service"),
        ("sshd.socket", "/system.slice/sshd.socket"),
        ("memory", "/system.slice/_memory.service"),
        (r"systemd-fsck@dev-a\x2db",
         r"/system.slice/system-systemd\x2dfsck.slice/systemd-fsck@dev-a\x2db.service"),
        ("user-7.slice", "/user.slice/user-7.slice"),
        ("user@8", "/user.slice/user-8.slice/user@8.service"),
        ("once", "/user.slice/user-8.slice/user@8.service/app.slice/once.service"),
        (f"libpod-{LIBPOD}.scope", f"/user.slice/user-7.slice/user@7.service/user.slice/libpod-{LIBPOD}.scope"),
    ],
)  # fmt: skip
def test_a_unit_is_found_as_systemctl_would_have_it(machine: Machine, text: str, path: str) -> None:
    assert machine.find(unit=text) == path


def test_units_of_several_users_are_not_chosen_among(machine: Machine) -> None:
    said = machine.refused(unit="jupyter")

    assert "there are 2 of unit jupyter.service: give --cgroup with one of /user.slice/user-7.slice/" in said


def test_a_unit_that_is_not_there_is_told_with_what_it_may_have_meant(machine: Machine) -> None:
    said = machine.refused(unit="jupiter")

    assert "no memory cgroup of unit jupiter.service: it does not run, or systemd makes none for it" in said
    assert "there is jupyter.service" in said


def test_that_both_are_services_makes_no_unit_like_another(machine: Machine) -> None:
    assert machine.refused(unit="nope").endswith("(MemoryAccounting=no)")
    assert machine.refused(unit="shh").endswith("; there is ssh.service")


@pytest.mark.parametrize("text", ["train.timer", "multi-user.target", "dev-sda.device", "x.path", "a.automount"])
def test_a_unit_that_can_have_no_processes_is_wrong_usage(machine: Machine, text: str) -> None:
    said = machine.refused(UsageError, unit=text)

    assert said == f"{text} is of a kind that has no processes: give a service, a scope or a slice"


def test_a_name_of_no_unit_is_not_found_by_a_folder_of_that_name(machine: Machine) -> None:
    machine.make("/docker/x/train.service")
    machine.make("/system.slice/ssh.service/worker.service")

    assert "no memory cgroup of unit train.service" in machine.refused(unit="train")
    assert "no memory cgroup of unit worker.service" in machine.refused(unit="worker")


def test_where_the_mount_shows_a_part_alone_paths_are_those_of_the_root(tmp_path: Path) -> None:
    part = Machine(tmp_path, 1, top=f"/docker/{DOCKER}")
    part.make("/inner", (4,))

    assert part.find(container=DOCKER[:5]) == f"/docker/{DOCKER}"


def test_what_is_meant_is_described_by_what_it_is(machine: Machine) -> None:
    found = find_target(Asked(slurm_job="51723.0"), proc_root=str(machine.proc), cgroup_root=str(machine.cgroup))

    assert targets.describe(found) == "step 0 of Slurm job 51723, cgroup /slurm/uid_5/job_51723/step_0"


def test_hostile_names_of_cgroups_are_shown_harmlessly(machine: Machine) -> None:
    machine.make("/docker/\x1b[2J\n", (1,))
    machine.make("/lxc/\x1b]0;x\x07", (1,))

    for said in (machine.refused(container="dead"), machine.refused(unit="\x1b[2J"), machine.refused(container="\n")):
        assert said.isprintable()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(text=st.text(max_size=20), option=st.sampled_from(["container", "slurm_job", "unit"]))
def test_whatever_is_typed_that_is_nothing_is_refused_in_one_line(machine: Machine, text: str, option: str) -> None:
    with pytest.raises((InputError, UsageError)) as raised:
        machine.find(**{option: f"?{text}"})

    assert str(raised.value).isprintable()
