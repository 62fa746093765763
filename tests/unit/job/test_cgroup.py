# SPDX-License-Identifier: Apache-2.0
"""Where we stand among the memory cgroups, in small trees of files that stand for cgroupfs."""

import pytest

from tests.unit.job.trees import found, roots, v1, v2  # noqa: F401 - a fixture is among them
from tracer.errors import CgroupUnavailable
from tracer.job.cgroup import memory_path, own_limit, shares_group_kill

# ruff: noqa: F811


def test_no_memory_controller_is_said(roots):
    with pytest.raises(CgroupUnavailable, match="no memory controller"):
        found(roots, "0::/\n")


def test_a_group_kill_round_us_is_found_however_far_up(roots):
    hierarchy = v2(roots, "/pod/c1")
    (roots[1] / "pod" / "memory.oom.group").write_text("1\n")

    assert shares_group_kill(hierarchy) == "/pod"


@pytest.mark.parametrize(
    "name, value, limit",
    [
        ("memory.max", "max\n", None),
        ("memory.max", "1048576\n", "memory.max"),
        ("memory.high", "0\n", "memory.high"),
        ("memory.swap.max", "0\n", "memory.swap.max"),
        ("memory.zswap.max", "4096\n", "memory.zswap.max"),
    ],
)
def test_a_limit_of_one_level_is_found_on_v2(roots, name, value, limit):
    assert own_limit(v2(roots, own={name: value}), "/user/s1") == limit


@pytest.mark.parametrize("value, limit", [("9223372036854771712\n", None), ("4096\n", "memory.limit_in_bytes")])
def test_a_limit_of_one_level_is_found_on_v1_where_none_is_a_huge_number(roots, value, limit):
    hierarchy = v1(roots)
    (roots[1] / "memory" / "user" / "s1" / "memory.limit_in_bytes").write_text(value)

    assert own_limit(hierarchy, "/user/s1") == limit


def test_a_process_that_is_gone_is_in_no_cgroup(roots):
    assert memory_path(v2(roots), 4711, proc_root=str(roots[0])) is None
