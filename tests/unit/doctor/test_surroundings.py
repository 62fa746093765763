# SPDX-License-Identifier: Apache-2.0
"""Namespaces, /proc as it is mounted, containers and kernels that are none, from small trees."""

import pytest

from tests.unit.doctor.trees import NOBODY, by_id, link_namespace, places, rights
from tracer.doctor.surroundings import check

MOUNT = "22 1 0:21 / /proc rw,nosuid{options} - proc proc rw{super}\n"


def checked(tmp_path, files=None, mine=None):
    return by_id(check(places(tmp_path, files or {}), mine or rights()))


@pytest.mark.parametrize("kind", ["pid", "cgroup"])
def test_a_namespace_of_our_own_is_told(tmp_path, kind):
    found = checked(tmp_path, {f"/proc/self/ns/{kind}": ""})[f"{kind}_namespace"]

    assert (found.ok, found.found) == ("no", "one of our own")
    assert "docker run" in found.remedy


@pytest.mark.parametrize("kind", ["pid", "cgroup"])
def test_one_that_cannot_be_seen_is_not_known(tmp_path, kind):
    found = checked(tmp_path)[f"{kind}_namespace"]

    assert (found.ok, found.remedy) == ("unknown", None)


def test_own_pids_weigh_more_than_own_paths_of_cgroups(tmp_path):
    found = checked(tmp_path)

    assert (found["pid_namespace"].weight, found["cgroup_namespace"].weight) == ("help", "note")


@pytest.mark.parametrize(
    "offsets, ok",
    [
        (None, "yes"),
        ("monotonic           0         0\nboottime            0         0\n", "yes"),
        ("monotonic           0         0\nboottime         3600         0\n", "no"),
        ("monotonic          -5         0\nboottime            0         0\n", "no"),
        ("nonsense", "yes"),
    ],
)
def test_only_shifted_clocks_are_in_the_way(tmp_path, offsets, ok):
    assert (
        checked(tmp_path, {} if offsets is None else {"/proc/self/timens_offsets": offsets})["time_namespace"].ok == ok
    )


def test_offsets_for_children_do_not_shift_our_own_clocks(tmp_path):
    tree = places(tmp_path, {"/proc/self/timens_offsets": "boottime 3600 0\n"})
    link_namespace(tree, "time")

    assert by_id(check(tree, rights()))["time_namespace"].ok == "yes"


@pytest.mark.parametrize(
    "options, more, mine, ok",
    [
        ("", "", NOBODY, "yes"),
        (",hidepid=invisible", "", NOBODY, "no"),
        ("", ",hidepid=2", NOBODY, "no"),
        ("", ",hidepid=2", rights(), "yes"),
        ("", ",hidepid=0", NOBODY, "yes"),
        ("", ",subset=pid", rights(), "no"),
    ],
)
def test_a_proc_that_hides_processes_is_told(tmp_path, options, more, mine, ok):
    text = MOUNT.format(options=options, super=more)

    assert checked(tmp_path, {"/proc/self/mountinfo": text}, mine)["proc"].ok == ok


def test_the_last_mount_is_the_one_that_counts(tmp_path):
    text = MOUNT.format(options="", super=",hidepid=2") + MOUNT.format(options="", super="")

    assert checked(tmp_path, {"/proc/self/mountinfo": text}, NOBODY)["proc"].ok == "yes"


def test_yama_is_mentioned_where_it_is_and_in_no_ones_way(tmp_path):
    assert checked(tmp_path, {"/proc/sys/kernel/yama/ptrace_scope": "3"})["yama"].ok == "yes"
    assert "yama" not in checked(tmp_path / "other")


@pytest.mark.parametrize(
    "files", [{"/.dockerenv": ""}, {"/run/.containerenv": ""}, {"/proc/self/cgroup": "0::/kubepods/burstable/pod1\n"}]
)
def test_a_container_is_only_a_hint(tmp_path, files):
    found = checked(tmp_path, files)["container"]

    assert (found.ok, found.weight) == ("unknown", "note")


def test_without_a_hint_there_is_no_row(tmp_path):
    assert "container" not in checked(tmp_path, {"/proc/self/cgroup": "0::/user.slice\n"})


@pytest.mark.parametrize(
    "version, release, name, ok",
    [
        ("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016", "4.4.0", "gVisor", "no"),
        ("Linux version 4.4.0-19041-Microsoft", "4.4.0-19041-Microsoft", "WSL 1", "no"),
        ("Linux version 5.15.90.1-microsoft-standard-WSL2", "5.15.90.1-microsoft-standard-WSL2", "WSL 2", "yes"),
    ],
)
def test_what_only_looks_like_a_linux_machine_is_told(tmp_path, version, release, name, ok):
    found = checked(tmp_path, {"/proc/version": version, "/proc/sys/kernel/osrelease": release})["other_kernel"]

    assert (found.name, found.ok) == (name, ok)


def test_a_plain_kernel_is_no_other(tmp_path):
    assert "other_kernel" not in checked(
        tmp_path, {"/proc/version": "Linux version 6.1.0", "/proc/sys/kernel/osrelease": "6.1.0"}
    )


@pytest.mark.parametrize(
    "text, found",
    [
        (None, "no driver"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22", "driver 550.54.14"),
        ("\x1b[2J", "a driver"),
    ],
)
def test_a_gpus_driver_is_named_and_none_is_no_fault(tmp_path, text, found):
    gpu = checked(tmp_path, {} if text is None else {"/proc/driver/nvidia/version": text})["gpu"]

    assert gpu.found == found
    assert (gpu.ok, gpu.links, gpu.weight) == ("no" if text is None else "yes", (5,), "note")
