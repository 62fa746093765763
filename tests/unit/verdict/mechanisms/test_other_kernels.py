# SPDX-License-Identifier: Apache-2.0
"""Kills on other kernels, most of them over within a second: less is said then, and nothing wrong without doubt."""

import pytest

from tests.captured import Capture, captures, recording_of
from tracer.verdict.judge import judge

TRUE = {
    "copy-on-write": {"cow_refcount"},
    "group-kill": {"worker_cache"},
    "kernel-inodes": {"kernel_memory"},
    "kernel-page-tables": {"kernel_memory"},
    "kernel-pipes": {"kernel_memory"},
    "mlocked": {"main_process_growth", "pinned_memory"},
    "shmem": {"shm_held"},
    "tmpfs-dataset": {"tmpfs_data"},
    "worker-cache": {"worker_cache"},
}
"""What those grew by that were made to show a way; all others: private memory of one process."""
WHOLE_MACHINE = ("global", "global-bystander", "global-swap", "allocating-task")


def primary(capture: Capture):
    report = judge(recording_of(capture)).verdict
    return report.incidents[report.primary]


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_nothing_wrong_is_named_without_doubt(capture):
    incident = primary(capture)
    mechanism = incident.mechanism

    assert mechanism is None or incident.cause.startswith("host_oom")
    if mechanism is not None and mechanism.strength != "possible":
        assert mechanism.name in TRUE.get(capture.name.removesuffix("-v1"), {"main_process_growth"})


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_the_parts_add_up_wherever_there_is_a_picture(capture):
    picture = primary(capture).picture

    if picture is not None:
        total = picture.usage_bytes if picture.limit_bytes is None else picture.limit_bytes
        assert sum(part.size_bytes for part in picture.parts) == total


@pytest.mark.parametrize("capture", [c for c in captures() if c.name in WHOLE_MACHINE], ids=str)
def test_a_machine_that_is_full_is_no_limit_that_is_too_tight(capture):
    mechanism = primary(capture).mechanism

    assert mechanism is None or mechanism.name != "limit_too_tight"


@pytest.mark.parametrize("capture", [c for c in captures() if c.name in {"cpuset", "memory-policy"}], ids=str)
def test_of_some_nodes_of_a_machine_nothing_is_said(capture):
    incident = primary(capture)

    assert incident.mechanism is None
    assert incident.picture is None


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_processes_of_the_job_in_cgroups_of_their_own_are_no_neighbours(capture):
    mechanism = primary(capture).mechanism

    # In none of these did anybody grow who was not the job's, but for what runs on a machine.
    if mechanism is not None and capture.name not in WHOLE_MACHINE:
        assert "neighbour" not in (mechanism.name, *mechanism.or_)
