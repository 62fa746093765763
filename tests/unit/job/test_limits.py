# SPDX-License-Identifier: Apache-2.0
"""Which kind of cgroup holds the limits, and limits that make no sense."""

import pytest

from tests.unit.job.trees import GIB, roots, v1, v2  # noqa: F401 - a fixture is among them
from tracer.errors import CgroupUnavailable, PermissionDenied, UsageError
from tracer.job import limits as module
from tracer.job.cgroup import Limits
from tracer.job.cgroupfs import PlainCgroup
from tracer.job.limits import check_limits, make_cgroup, never_hit
from tracer.job.scope import Place, ScopeCgroup

# ruff: noqa: F811

LIMITS = Limits(memory_bytes=GIB)


@pytest.fixture
def machine(monkeypatch):
    """Says what the machine is like, and who asks."""

    def say(*, booted=True, root=True, busctl="/usr/bin/busctl", place=None):
        def placed(*_):
            if isinstance(place, Exception):
                raise place
            return place

        monkeypatch.setattr(module, "is_booted", lambda: booted)
        monkeypatch.setattr(module, "find_busctl", lambda _: busctl)
        monkeypatch.setattr(module.os, "geteuid", lambda: 0 if root else 1000)
        monkeypatch.setattr(module, "place_by_system", placed if root else None)
        monkeypatch.setattr(module, "place_by_user", None if root else placed)

    return say


def made(hierarchy, limits=LIMITS):
    return make_cgroup(hierarchy, "t1", limits, environ={})


def test_without_systemd_the_cgroup_is_made_by_hand(roots, machine):
    machine(booted=False)

    assert isinstance(made(v1(roots)), PlainCgroup)


@pytest.mark.parametrize("root", [True, False])
def test_where_systemd_owns_the_tree_it_is_a_scope(roots, machine, root):
    machine(root=root, place=Place(None, "user-1000.slice", None, ("a note",)))
    cgroup = made(v2(roots))

    assert isinstance(cgroup, ScopeCgroup)
    assert (cgroup.name, cgroup.notes) == ("oomtrace-run-t1.scope", ("a note",))


def test_in_a_part_of_the_tree_that_is_another_managers_it_is_made_by_hand(roots, machine):
    machine(place=None)

    assert isinstance(made(v2(roots, here="memory")), PlainCgroup)


def test_a_limit_that_would_be_escaped_is_refused_with_or_without_root(roots, machine):
    hierarchy = v2(roots, here="memory")
    machine(place=CgroupUnavailable("memory.max would not hold"))
    with pytest.raises(CgroupUnavailable, match="would not hold"):
        made(hierarchy)
    machine(root=False, place=CgroupUnavailable("memory.max would not hold"))
    with pytest.raises(PermissionDenied, match=r"without root: memory\.max would not hold"):
        made(hierarchy)


def test_a_systemd_without_its_busctl_is_said(roots, machine):
    machine(busctl=None)

    with pytest.raises(CgroupUnavailable, match="busctl is not installed: leave out --memory-max"):
        made(v2(roots))


def test_on_v1_swap_alone_cannot_be_limited_and_nothing_is_made(roots, machine):
    machine(booted=False)
    hierarchy = v1(roots)

    with pytest.raises(UsageError, match="--memory-max as well as --swap-max"):
        made(hierarchy, Limits(swap_bytes=0))
    assert not (roots[1] / "memory" / "user" / "s1" / "oomtrace-run-t1").exists()


def test_on_v1_swap_that_is_not_counted_cannot_be_limited(roots):
    hierarchy = v1(roots)

    with pytest.raises(CgroupUnavailable, match="swapaccount=1"):
        check_limits(hierarchy, Limits(memory_bytes=GIB, swap_bytes=0))
    (roots[1] / "memory" / "memory.memsw.limit_in_bytes").write_text("1")
    check_limits(hierarchy, Limits(memory_bytes=GIB, swap_bytes=0))


def test_on_v2_swap_alone_can_be_limited(roots):
    check_limits(v2(roots), Limits(swap_bytes=0))


@pytest.mark.parametrize(
    "limit_bytes, meminfo, said",
    [
        (GIB, "MemTotal:        1048576 kB\n", None),
        (GIB + 1, "MemFree: 1 kB\nMemTotal:        1048576 kB\n", "more than the RAM of this machine (1 GiB)"),
        (None, "MemTotal:        1048576 kB\n", None),
        (GIB, "", None),
        (GIB, "MemTotal: many\n", None),
    ],
)
def test_a_limit_above_the_ram_is_said_to_be_vain(tmp_path, limit_bytes, meminfo, said):
    (tmp_path / "meminfo").write_text(meminfo)
    text = never_hit(Limits(memory_bytes=limit_bytes), proc_root=str(tmp_path))

    assert text is None if said is None else said in text
