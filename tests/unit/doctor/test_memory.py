# SPDX-License-Identifier: Apache-2.0
"""Memory cgroups of both versions in small trees: what can be limited, what is counted, whom a kill would take."""

import os

import pytest

from tests.unit.doctor.trees import NOBODY, by_id, places, rights
from tracer.doctor import memory
from tracer.doctor.memory import check

V2 = {
    "/proc/self/cgroup": "0::/user.slice/job\n",
    "/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "/sys/fs/cgroup/user.slice/job/memory.swap.max": "max\n",
    "/sys/fs/cgroup/user.slice/job/cgroup.subtree_control": "memory\n",
    "/proc/meminfo": "MemTotal: 1 kB\nSwapTotal:       0 kB\n",
    "/proc/pressure/memory": "some avg10=0.00\nfull avg10=0.00\n",
    "/proc/self/oom_score_adj": "0\n",
}
V1 = {
    "/proc/self/cgroup": "4:memory:/job\n",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9\n",
    "/sys/fs/cgroup/memory/job/memory.memsw.limit_in_bytes": "9\n",
}


def checked(tmp_path, files, mine=None, **changed):
    return by_id(check(places(tmp_path, {**files, **changed}), mine or rights()))


@pytest.mark.parametrize("version, files", [(1, V1), (2, V2)])
def test_both_versions_are_known(tmp_path, version, files):
    found = checked(tmp_path, files)

    assert found["memory_cgroup"].found.startswith(f"version {version} ")
    assert [found[name].ok for name in ("memory_cgroup", "limited_cgroup", "swap_accounting", "group_kill")] == [
        "yes"
    ] * 4


@pytest.mark.parametrize(
    ("files", "name"),
    [(V1, "/sys/fs/cgroup/memory/job/memory.oom_control"), (V2, "/sys/fs/cgroup/user.slice/job/memory.events")],
)
def test_a_count_of_kills_is_there_where_it_can_be_read(tmp_path, files, name):
    assert checked(tmp_path / "none", files)["oom_count"].ok == "no"
    assert checked(tmp_path / "old", {**files, name: "under_oom 0\n"})["oom_count"].ok == "no"
    assert checked(tmp_path / "there", {**files, name: "under_oom 0\noom_kill 3\n"})["oom_count"].ok == "yes"


def test_without_a_memory_controller_only_that_is_said(tmp_path):
    found = checked(tmp_path, {"/proc/self/cgroup": "0::/\n"})

    assert found["memory_cgroup"].ok == "no"
    assert "limited_cgroup" not in found


def test_a_folder_that_cannot_be_written_makes_no_cgroup(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    root, nobody = checked(tmp_path, V1), checked(tmp_path, V1, NOBODY)

    assert (root["limited_cgroup"].ok, nobody["limited_cgroup"].ok) == ("no", "no")
    assert "systemd-run --user --scope" in nobody["limited_cgroup"].remedy
    assert (root["limited_cgroup"].with_root, nobody["limited_cgroup"].with_root) == ("no", "unknown")


def test_a_cgroup_outside_of_the_namespace_is_not_below_anything(tmp_path):
    assert checked(tmp_path, {**V2, "/proc/self/cgroup": "0::/../other\n"})["limited_cgroup"].ok == "no"


def test_what_only_the_kernel_can_decide_is_left_open(tmp_path):
    files = {name: text for name, text in V2.items() if "subtree" not in name}

    assert checked(tmp_path, files)["limited_cgroup"].ok == "unknown"


def test_where_systemd_owns_the_tree_it_has_to_be_asked(tmp_path, monkeypatch):
    owned = {**V2, "/run/systemd/system/x": ""}
    monkeypatch.setattr(memory, "find_busctl", lambda: "/usr/bin/busctl")
    root, nobody = checked(tmp_path / "a", owned), checked(tmp_path / "b", owned, NOBODY)
    monkeypatch.setattr(memory, "find_busctl", lambda: None)
    without = checked(tmp_path / "c", owned)["limited_cgroup"]

    assert [found["limited_cgroup"].ok for found in (root, nobody)] == ["unknown", "unknown"]
    assert "--user" in nobody["limited_cgroup"].found
    assert (without.ok, "busctl" in without.remedy) == ("no", True)
    assert "scope" not in checked(tmp_path / "other", V2)["limited_cgroup"].found


@pytest.mark.parametrize("version, name", [(1, "memory.memsw.limit_in_bytes"), (2, "memory.swap.max")])
def test_swap_that_is_not_counted_is_told(tmp_path, version, name):
    files = {path: text for path, text in (V1 if version == 1 else V2).items() if name not in path}
    found = checked(tmp_path, {**files, "/sys/fs/cgroup/memory/job/x" if version == 1 else "/x": ""})["swap_accounting"]

    assert (found.ok, found.remedy) == ("no", "boot with swapaccount=1")


def test_at_the_root_of_version_2_swap_is_not_to_be_seen(tmp_path):
    assert checked(tmp_path, {**V2, "/proc/self/cgroup": "0::/\n"})["swap_accounting"].ok == "unknown"


def test_a_kill_that_would_take_oomtrace_as_well_is_told(tmp_path):
    found = checked(tmp_path, {**V2, "/sys/fs/cgroup/user.slice/memory.oom.group": "1\n"})["group_kill"]

    assert (found.ok, found.weight) == ("no", "proof")
    assert "/user.slice" in found.found


def test_a_kernel_without_pressure_figures_is_told(tmp_path):
    assert checked(tmp_path, V2)["psi"].ok == "yes"
    assert checked(tmp_path / "other", V1)["psi"].remedy == "boot with psi=1"


@pytest.mark.parametrize(
    "text, mine, ok",
    [
        ("0", rights(), "yes"),
        ("-1000", NOBODY, "yes"),
        ("0", NOBODY, "unknown"),
        ("500", NOBODY, "no"),
        ("\0", NOBODY, "unknown"),
        ("500", rights(), "yes"),
    ],
)
def test_whether_the_oom_killer_would_pass_us_by(tmp_path, text, mine, ok):
    assert checked(tmp_path, {**V2, "/proc/self/oom_score_adj": text}, mine)["own_oom_score"].ok == ok


@pytest.mark.parametrize("mine, meaning", [(rights(), "chooses others first"), (NOBODY, "may choose oomtrace")])
def test_whoever_is_passed_by_is_not_told_that_it_may_be_chosen(tmp_path, mine, meaning):
    assert meaning in checked(tmp_path, {**V2, "/proc/self/oom_score_adj": "0"}, mine)["own_oom_score"].meaning


def test_a_hostile_path_is_passed_on_for_the_view_to_tame(tmp_path):
    found = checked(tmp_path, {**V2, "/proc/self/cgroup": "0::/a\x1b[2J\u202eb\n"})

    assert "\x1b[2J" in found["memory_cgroup"].found
