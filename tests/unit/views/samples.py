# SPDX-License-Identifier: Apache-2.0
"""One report for each kind of ending: what the views are looked at with."""

from tests.unit.views.contained import CONTAINED, TERMINATED
from tests.unit.views.endings import CRASH, EXITED_0, EXITED_1, INCONCLUSIVE, SIGKILL_SELF
from tests.unit.views.kills import GLOBAL_OOM, GRANDPARENT, GROUP_KILL, WORKER_KILLED
from tracer.verdict.model import Report

SAMPLES: dict[str, Report] = {
    "worker_killed": WORKER_KILLED,
    "group_kill": GROUP_KILL,
    "grandparent": GRANDPARENT,
    "sigkill_self": SIGKILL_SELF,
    "crash": CRASH,
    "exited_0": EXITED_0,
    "exited_1": EXITED_1,
    "inconclusive": INCONCLUSIVE,
    "global_oom": GLOBAL_OOM,
    "contained": CONTAINED,
    "terminated": TERMINATED,
}
