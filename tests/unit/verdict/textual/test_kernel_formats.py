# SPDX-License-Identifier: Apache-2.0
"""Kernel logs of all formats and kernels (tests/data/logs/kernel), explained alone: their victims, no others."""

import pytest

from tests.explained import explained
from tests.kernel_logs import cases

ALL = [case for case in cases() if "victims" in case.truth]
NOT_THE_KERNELS = {"odd-user-journal", "odd-user-kmsg", "odd-user-syslog"}
"""Written by somebody else, as the log itself knows."""


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_a_kernel_log_of_any_format_names_its_victims_and_nobody_else(case):
    verdict = explained([(f"{case.name}.log", "mixed", case.raw)])
    oom = [one for one in verdict.incidents if one.cause.startswith(("host_oom_", "operator_oom"))]
    told = {(victim.pid, victim.comm) for one in oom if one.strength == "likely" for victim in one.victims}
    expected = set() if case.name in NOT_THE_KERNELS else {(pid, comm) for pid, comm in case.truth["victims"]}

    assert told == expected
    if len(expected) == 1 and oom[0].limit is not None and oom[0].victim is not None:
        seen = {
            "oom_memcg": oom[0].limit.cgroup,
            "limit_bytes": oom[0].limit.limit_bytes,
            "task_memcg": oom[0].victim.cgroup,
            "anon_rss_bytes": oom[0].victim.rss_anon_bytes,
            "constraint": oom[0].limit.constraint,
        }
        assert {name: value for name, value in seen.items() if name in case.truth} == {
            name: value for name, value in case.truth.items() if name in seen
        }
