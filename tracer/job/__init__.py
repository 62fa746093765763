# SPDX-License-Identifier: Apache-2.0
"""The job's side: who called, its first process, its cgroup, its terminal, its signals."""
