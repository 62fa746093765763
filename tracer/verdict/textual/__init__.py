# SPDX-License-Identifier: Apache-2.0
"""A verdict from texts alone: what the kernel's log and the job's own say, joined. Never more than `likely`.

Anyone can write a line, and lines get lost: so nothing here is ever proved, and what ties a kill to a job (a pid,
a time, a cgroup) is said with what had to be assumed for that.
"""
