# SPDX-License-Identifier: Apache-2.0
"""What a process may do, read from its own /proc: capabilities count only where the kernel asks for them."""

import pytest

from tests.unit.doctor.trees import ALL, NOBODY, WHOLE_UID_MAP, by_id, places, rights, status
from tracer.doctor.rights import check, read_rights

CAP_SYSLOG, CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON = 34, 21, 39, 38


def read(tmp_path, *, uid_map=WHOLE_UID_MAP, **of_status):
    return read_rights(places(tmp_path, {"/proc/self/status": status(**of_status), "/proc/self/uid_map": uid_map}))


def test_root_with_everything_lacks_nothing(tmp_path):
    found = by_id(check(read(tmp_path)))

    assert {one.ok for one in found.values()} == {"yes"}
    assert all(one.remedy is None for one in found.values())


def test_nobody_is_told_to_use_sudo(tmp_path):
    found = by_id(check(read(tmp_path, uid=65534, effective=0)))

    assert {one.ok for one in found.values()} == {"no"}
    assert {one.with_root for one in found.values()} == {"yes"}
    assert {one.remedy for one in found.values()} == {'sudo "$(command -v oomtrace)" doctor'}


def test_where_sudo_cannot_work_it_is_not_recommended(tmp_path):
    found = by_id(check(read(tmp_path, uid=1000, effective=0, nnp=1)))

    assert {one.with_root for one in found.values()} == {"no"}
    assert all(not one.remedy.startswith("sudo") and "no_new_privs" in one.remedy for one in found.values())


def test_what_is_outside_of_the_bounding_set_even_root_cannot_get(tmp_path):
    mine = read(tmp_path, uid=1000, effective=0, bounding=ALL & ~(1 << CAP_SYSLOG))

    assert by_id(check(mine))["cap_syslog"].with_root == "no"
    assert mine.root_would_have("CAP_BPF")
    assert not mine.root_would_have("CAP_SYSLOG", "CAP_BPF")


def test_cap_sys_admin_stands_in_for_the_two_of_bpf(tmp_path):
    found = by_id(check(read(tmp_path, effective=1 << CAP_SYS_ADMIN)))

    assert (found["cap_bpf"].ok, found["cap_perfmon"].ok) == ("yes", "yes")
    assert found["cap_syslog"].ok == "no"


def test_the_two_of_bpf_are_enough_without_cap_sys_admin(tmp_path):
    mine = read(tmp_path, uid=1000, effective=1 << CAP_BPF | 1 << CAP_PERFMON)

    assert mine.has("CAP_BPF", "CAP_PERFMON")
    assert not mine.has("CAP_BPF", "CAP_SYS_ADMIN")


def test_in_a_user_namespace_no_capability_counts(tmp_path):
    mine = read(tmp_path, uid_map="         0       1000          1\n")
    found = by_id(check(mine))

    assert found["user_namespace"].ok == "no"
    assert {one.ok for name, one in found.items() if name.startswith("cap_")} == {"no"}
    assert not mine.root_would_have("CAP_BPF")


def test_root_in_a_container_is_told_which_capability_to_add(tmp_path):
    found = by_id(check(read(tmp_path, effective=ALL & ~(1 << CAP_SYSLOG))))

    assert "--cap-add SYSLOG" in found["cap_syslog"].remedy
    assert "sudo" not in found["cap_syslog"].remedy


def test_a_filter_of_system_calls_is_said(tmp_path):
    assert by_id(check(read(tmp_path, seccomp=2)))["seccomp"].ok == "unknown"
    assert "seccomp" not in by_id(check(rights()))


@pytest.mark.parametrize("text", ["", "Uid:\nCapEff:\nCapBnd:\n", "Uid:\tx\nCapEff:\tzz\n", "\0\xff", "CapEff:" * 1000])
def test_a_status_that_makes_no_sense_gives_no_rights(tmp_path, text):
    mine = read_rights(places(tmp_path, {"/proc/self/status": text}))

    assert not mine.root
    assert not mine.has("CAP_BPF")
    assert mine.initial_user_namespace is None


def test_each_capability_says_what_it_is_for():
    assert all(one.meaning for one in check(NOBODY))
    assert {"cap_bpf", "cap_perfmon", "cap_sys_admin", "cap_syslog", "cap_sys_ptrace", "cap_sys_resource"} <= set(
        by_id(check(NOBODY))
    )
