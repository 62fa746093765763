# SPDX-License-Identifier: Apache-2.0
"""What each process of the tree is in a training job: launcher, rank, DataLoader worker, helper; and how that is known.

Evidence, strongest first: the environment given to exec (a launcher sets the rank there), names and command
lines, variables that a process set later, signal handlers, open GPUs, the session. Each in a file of its own. What
was inherited says nothing: a child has its parent's name, variables, handlers and descriptors.
"""

from tracer.attribution.roles.assign import assign
from tracer.attribution.roles.model import Role, RoleName, describe, short

__all__ = ["Role", "RoleName", "assign", "describe", "short"]
