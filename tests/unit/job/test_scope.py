# SPDX-License-Identifier: Apache-2.0
"""A scope made by systemd, whose place a small program takes that answers as `busctl` does."""

import os
import shlex

import pytest

from tests.unit.job.trees import GIB, found, roots  # noqa: F401 - a fixture is among them
from tracer.errors import CgroupUnavailable
from tracer.job import scope as module
from tracer.job.cgroup import Hierarchy, Limits
from tracer.job.scope import Place, ScopeCgroup, place_by_system, place_by_user
from tracer.job.systemd import Manager, Unit

# ruff: noqa: F811

JOB = 4711
SESSION = "/user.slice/user-1000.slice/session-3.scope"
LIMITS = Limits(memory_bytes=GIB + 1, swap_bytes=0)
OLD = """\
case "$*" in *OOMPolicy*) echo "Call failed: Cannot set property OOMPolicy, or unknown property." >&2; exit 1;; esac
"""


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", 0)


@pytest.fixture
def systemd(roots, tmp_path):
    """Makes a systemd that puts processes where it is asked to, unless lines before that say otherwise."""
    proc, cg = roots
    log = tmp_path / "asked"

    def start(before="", *, parent="/user.slice/user-1000.slice", memory_max=GIB, swap_max=0, line="0::"):
        program = tmp_path / "busctl"
        (proc / str(JOB)).mkdir(exist_ok=True)
        below = cg / "memory" if line != "0::" else cg
        program.write_text(f"""#!/bin/sh
echo "$*" >> {log}
{before}
for word; do case $word in oomtrace-run-*) name=$word;; esac; done
mkdir -p {below}{parent}/$name
echo {memory_max} > {below}{parent}/$name/memory.{"max" if line == "0::" else "limit_in_bytes"}
echo {swap_max} > {below}{parent}/$name/memory.swap.max
echo "{line}{parent}/$name" > {proc}/{JOB}/cgroup
echo 'o "/org/freedesktop/systemd1/job/1"'
""")
        program.chmod(0o755)
        return Manager(str(program))

    start.asked = lambda: log.read_text().splitlines()
    return start


def scope_of(roots, manager, limits=LIMITS, *, place=None, version=2):
    line = f"0::{SESSION}\n"
    (roots[1] / "cgroup.controllers").write_text("memory\n")
    if version == 1:
        (roots[1] / "memory").mkdir()
        (roots[1] / "memory" / "memory.limit_in_bytes").write_text("1")
        line = f"4:memory:{SESSION}\n0::/\n"
    place = place or Place(manager, "user-1000.slice", "session-3.scope")
    return ScopeCgroup(found(roots, line), place, "t1", limits, proc_root=str(roots[0]))


def test_the_job_is_put_into_a_scope_that_goes_on_after_a_kill(roots, systemd):
    scope = scope_of(roots, systemd())
    assert scope.path is None

    scope.add(JOB)

    [asked] = systemd.asked()
    assert asked.startswith("--no-pager --system call org.freedesktop.systemd1 /org/freedesktop/systemd1 ")
    assert "StartTransientUnit ssa(sv)a(sa(sv)) oomtrace-run-t1.scope fail 9 PIDs au 1 4711 " in asked
    assert " Slice s user-1000.slice PartOf as 1 session-3.scope " in asked
    assert f" MemoryMax t {GIB + 1} MemorySwapMax t 0 MemoryAccounting b true OOMPolicy s continue 0" in asked
    assert scope.path == "/user.slice/user-1000.slice/oomtrace-run-t1.scope"


def test_before_253_it_is_kept_from_looking_at_kills_at_all(roots, systemd):
    scope_of(roots, systemd(OLD)).add(JOB)

    first, second = systemd.asked()
    assert "OOMPolicy s continue" in first
    assert "OOMPolicy" not in second
    assert second.endswith("MemoryAccounting b false 0")
    assert "scope fail 8 PIDs" in second


def test_any_other_refusal_is_told_and_not_tried_again(roots, systemd):
    scope = scope_of(roots, systemd("echo 'Call failed: Access denied' >&2; exit 1"))

    with pytest.raises(CgroupUnavailable, match="systemd makes no scope: Access denied"):
        scope.add(JOB)
    assert len(systemd.asked()) == 1
    assert scope.processes() == scope.remove(patience_s=0) == ()


def test_a_scope_that_the_job_does_not_get_into_is_told(roots, systemd):
    scope = scope_of(roots, systemd("exit 0"))
    (roots[0] / str(JOB) / "cgroup").write_text(f"0::{SESSION}\n")

    with pytest.raises(CgroupUnavailable, match="still not in it"):
        scope.add(JOB)
    assert scope.path is None


@pytest.mark.parametrize(
    "values, says",
    [({"memory_max": "max"}, r"memory\.max is max"), ({"swap_max": "max"}, r"memory\.swap\.max is max")],
)
def test_a_limit_that_is_not_really_there_is_told(roots, systemd, values, says):
    scope = scope_of(roots, systemd(**values))

    with pytest.raises(CgroupUnavailable, match=says):
        scope.add(JOB)
    assert scope.path is not None, "that is where its processes are"


def test_on_v1_swap_is_limited_by_hand_for_systemd_has_no_setting(roots, systemd):
    scope = scope_of(roots, systemd(line="4:memory:"), Limits(memory_bytes=GIB, swap_bytes=0), version=1)
    scope.add(JOB)

    folder = roots[1] / "memory" / "user.slice" / "user-1000.slice" / "oomtrace-run-t1.scope"
    assert (folder / "memory.memsw.limit_in_bytes").read_text() == str(GIB)
    assert "MemorySwapMax" not in systemd.asked()[0]


def test_what_is_left_in_it_is_named_and_it_stays(roots, systemd):
    scope = scope_of(roots, systemd())
    scope.add(JOB)
    folder = roots[1] / scope.path.lstrip("/")
    (folder / "cgroup.procs").write_text("12\n13\n")

    assert scope.remove(patience_s=0) == (12, 13)
    assert folder.is_dir()
    (folder / "cgroup.procs").unlink()
    assert scope.remove(patience_s=0) == (), "systemd collects it"


class Asked:
    """A manager that knows one unit."""

    def __init__(self, unit=None, top="/"):
        self.unit, self.top = unit, top

    def unit_of(self, pid):
        assert pid == JOB
        return self.unit

    def control_group(self):
        return self.top


def session():
    return Unit("session-3.scope", SESSION, "user-1000.slice")


def below(roots, own, files=()):
    """A v2 tree in which we stand at `own`; files and what they hold."""
    for path, value in files:
        file = roots[1] / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value)
    return Hierarchy(2, str(roots[1]), own, "/")


def test_the_scope_stands_in_the_slice_of_the_caller(roots):
    manager = Asked(session())

    place = place_by_system(below(roots, SESSION), manager, JOB)

    assert place == Place(manager, "user-1000.slice", "session-3.scope")


def test_stopping_a_slice_that_we_stand_in_ourselves_is_left_to_systemd(roots):
    place = place_by_system(below(roots, "/"), Asked(Unit("-.slice", "/", "-.slice")), JOB)

    assert (place.slice, place.part_of) == ("-.slice", None)


@pytest.mark.parametrize("name", ["memory.max", "memory.high", "memory.swap.max"])
def test_a_limit_that_the_job_would_escape_is_refused(roots, name):
    hierarchy = below(roots, SESSION, [(f"{SESSION}/{name}", "4096\n")])

    with pytest.raises(CgroupUnavailable, match=rf"session-3\.scope, and {name} of that would not hold"):
        place_by_system(hierarchy, Asked(session()), JOB)


def test_a_limit_of_the_slice_holds_and_is_no_obstacle(roots):
    hierarchy = below(roots, SESSION, [("/user.slice/user-1000.slice/memory.max", "4096\n"), ("/memory.max", "1\n")])

    assert place_by_system(hierarchy, Asked(session()), JOB) is not None


def test_a_limit_between_the_unit_and_our_own_cgroup_is_refused_as_well(roots):
    own = "/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope"
    unit = Unit("user@1000.service", "/user.slice/user-1000.slice/user@1000.service", "user-1000.slice")

    assert place_by_system(below(roots, own), Asked(unit), JOB).part_of == "user@1000.service"
    hierarchy = below(roots, own, [(f"{os.path.dirname(own)}/memory.high", "4096\n")])
    with pytest.raises(CgroupUnavailable, match=r"app\.slice, and memory\.high"):
        place_by_system(hierarchy, Asked(unit), JOB)


def test_what_else_the_job_leaves_is_said(roots):
    files = [
        (f"{SESSION}/cpuset.mems", "1\n"),
        (f"{SESSION}/cpu.max", "max 100000\n"),
        (f"{SESSION}/cpuset.cpus", "\n"),
    ]
    place = place_by_system(below(roots, SESSION, files), Asked(session()), JOB)

    assert [note for note in place.notes if "cpuset.mems" in note] == list(place.notes)


@pytest.mark.parametrize(
    "unit, below_it",
    [
        (Unit("slurmstepd.scope", "/system.slice/slurmstepd.scope", "system.slice"), "/job_1/step_0/user/task_0"),
        (Unit("-.slice", "/", "-.slice"), "docker/0123abcd"),
    ],
)
def test_below_a_unit_where_somebody_else_makes_cgroups_systemd_is_not_asked(roots, unit, below_it):
    top = unit.control_group

    assert place_by_system(below(roots, f"{top}{below_it}"), Asked(unit), JOB) is None
    assert place_by_system(below(roots, top), Asked(unit), JOB) is not None, "there is nobody below it to ask"


def test_a_systemd_that_does_not_know_us_is_not_asked(roots):
    assert place_by_system(below(roots, SESSION), Asked(), JOB) is None
    elsewhere = Unit("x.service", "/system.slice/x.service", "system.slice")
    assert place_by_system(below(roots, SESSION), Asked(elsewhere), JOB) is None


def test_on_v1_our_memory_cgroup_may_be_one_above_the_unit(roots):
    hierarchy = Hierarchy(1, str(roots[1]), "/user.slice", "/")

    assert place_by_system(hierarchy, Asked(session()), JOB).slice == "user-1000.slice"


USER = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize("unit", [None, Unit("t.scope", f"{USER}/app.slice/t.scope", "app.slice")])
def test_without_root_the_scope_is_made_by_the_users_own_systemd(roots, unit):
    hierarchy = below(roots, SESSION if unit is None else unit.control_group, [
        (f"{USER}/cgroup.controllers", "memory pids\n"), (f"{USER}/memory.max", "max\n")
    ])  # fmt: skip

    place = place_by_user(hierarchy, Asked(unit, USER), JOB)

    assert (place.slice, place.part_of) == (None if unit is None else "app.slice", None)


def test_without_root_a_limit_of_the_session_must_not_be_escaped_either(roots):
    files = [(f"{USER}/cgroup.controllers", "memory\n"), (f"{SESSION}/memory.max", "1\n")]

    with pytest.raises(CgroupUnavailable, match="would not hold"):
        place_by_user(below(roots, SESSION, files), Asked(None, USER), JOB)


def test_a_users_systemd_that_may_not_limit_memory_is_said(roots):
    with pytest.raises(CgroupUnavailable, match="through sudo"):
        place_by_user(below(roots, SESSION), Asked(None, USER), JOB)


def test_the_words_of_a_property_cannot_become_options(roots, systemd):
    # Names of units come from systemd, but a slice is named by whoever made it.
    place = Place(systemd(), "-.slice", None)
    scope_of(roots, place.manager, place=place).add(JOB)

    words = shlex.split(systemd.asked()[0])
    assert words.index("-.slice") > words.index("StartTransientUnit")
