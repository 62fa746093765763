# SPDX-License-Identifier: Apache-2.0
"""What a machine has is looked up in its own files."""

import pytest

from tracer.errors import KernelUnavailable
from tracer.job.cgroup import Hierarchy
from tracer.repro.needs import PROBES, Machine, is_guest, missing
from tracer.repro.place import changed

GUEST = "root=/dev/vda quiet oomtrace.guest=1 panic=-1\n"


@pytest.fixture
def machine(tmp_path):
    """Writes small files below one folder; the machine that has them."""

    def make(files, version=2):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in ("proc", "sys", "cgroup"):
            (tmp_path / name).mkdir(exist_ok=True)
        mount = str(tmp_path / "cgroup")
        return Machine(Hierarchy(version, mount, "/", "/"), str(tmp_path / "proc"), str(tmp_path / "sys"))

    return make


@pytest.mark.parametrize(
    "need, version, files",
    [
        ("cgroup_v2", 2, {}),
        ("cgroup_v1", 1, {}),
        ("swap", 2, {"proc/meminfo": "MemTotal: 100 kB\nSwapTotal: 5 kB\n"}),
        ("memsw", 1, {"cgroup/memory.memsw.limit_in_bytes": "1"}),
        ("memsw", 2, {"cgroup/some/memory.swap.max": "max"}),
        ("group_kill", 2, {"cgroup/some/below/memory.oom.group": "0"}),
        ("numa", 2, {f"sys/devices/system/node/node{n}/meminfo": "" for n in range(2)}),
        ("psi", 2, {"proc/pressure/memory": "some avg10=0.00"}),
        ("kprobes", 2, {"sys/bus/event_source/devices/kprobe/type": "6"}),
        ("freezer_v1", 1, {"sys/fs/cgroup/freezer/cgroup.procs": ""}),
        ("cpuset_v2", 2, {"cgroup/cgroup.controllers": "cpuset memory"}),
        ("sys_resource", 2, {"proc/self/status": "CapEff:\t0000000001000000\n"}),
        ("ns_last_pid", 2, {"proc/sys/kernel/ns_last_pid": "1"}),
        ("sysrq", 2, {"proc/sysrq-trigger": ""}),
    ],
)
def test_each_is_found_where_it_is_and_missed_with_a_reason_where_it_is_not(machine, need, version, files):
    other = machine({"cgroup/some/cgroup.procs": "", "proc/self/status": "CapEff: 0\n"}, 3 - version)
    assert missing((need,), other) == PROBES[need][1]

    assert missing((need,), machine(files, version)) is None


def test_the_first_that_is_missing_is_the_reason(machine):
    assert missing(("cgroup_v2", "cgroup_v1", "swap"), machine({})) == PROBES["cgroup_v1"][1]


@pytest.mark.parametrize(
    "line, guest",
    [
        (GUEST, True),
        ("quiet\n", False),
        ("oomtrace.guest=0\n", False),
        ("x.oomtrace.guest=1\n", False),
        ("oomtrace.guest=10\n", False),
        ("init=/sbin/oomtrace.guest=1\n", False),
    ],
)
def test_only_the_whole_word_on_the_kernels_command_line_makes_a_guest(tmp_path, line, guest):
    (tmp_path / "cmdline").write_text(line)

    assert is_guest(str(tmp_path)) == guest


def test_a_machine_that_shows_no_command_line_is_no_guest(tmp_path):
    assert not is_guest(str(tmp_path))


def test_settings_are_changed_for_as_long_as_it_takes_and_then_are_as_before(tmp_path):
    for name in ("vm/a", "vm/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n")

    with changed({"vm.a": "2", "vm.b": "3"}, root=str(tmp_path)):
        assert [(tmp_path / "vm" / name).read_text() for name in "ab"] == ["2", "3"]
    assert [(tmp_path / "vm" / name).read_text() for name in "ab"] == ["1\n", "1\n"]


def test_a_setting_that_is_not_there_is_a_reason_and_those_before_it_are_set_back(tmp_path):
    (tmp_path / "a").write_text("1\n")

    with (
        pytest.raises(KernelUnavailable, match=r"vm\.none cannot be set to 2"),
        changed({"a": "2", "vm.none": "2"}, root=str(tmp_path)),
    ):
        pytest.fail("went on")
    assert (tmp_path / "a").read_text() == "1\n"
