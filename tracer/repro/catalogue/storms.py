# SPDX-License-Identifier: Apache-2.0
"""Many kills: each is seen or counted as lost, to the unit."""

from tracer.repro.scenario import Expected, Scenario

WHY = (
    "the kernel's report is limited to ten in five seconds (oom_rs in mm/oom_kill.c), its line of each kill and the "
    "counter oom_kill are not"
)

SCENARIOS = (
    Scenario(
        name="storm-50",
        what="fifty kills, one after the other",
        why=WHY,
        act=("storm", "--kills", "50"),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(50, 50), limit=".", status="exit 0"
        ),
        seconds=120,
    ),
    Scenario(
        name="storm-500",
        what="five hundred kills, four at a time",
        why=WHY,
        act=("storm", "--kills", "500", "--at-once", "4"),
        # What was lost must be counted: then that is said, and the verdict says less.
        expected=Expected(
            cause=("host_oom_cgroup",), at_least="likely", killed=(1, 500), limit=".", status="exit 0"
        ),
        seconds=300,
    ),
)  # fmt: skip
