# SPDX-License-Identifier: Apache-2.0
"""The programs that show why memory grows: each is there, has a twin, and says truly what it shows."""

import ast
import importlib.util

import pytest

from tests.architecture.checkout import ROOT
from tracer.repro.catalogue.mechanisms import SCENARIOS
from tracer.repro.corpus import stem

NAMES = {
    "worker_cache", "cow_refcount", "rank_asymmetry", "prefetch_queue", "pinned_memory", "shm_held",
    "main_process_growth", "optimizer_state", "checkpoint_spike", "model_duplication", "dataset_in_ram",
    "preprocessing_in_process", "tmpfs_data", "allocator_retention", "kernel_memory", "limit_too_tight", "neighbour",
}  # fmt: skip
"""Of the verdict's document, without `unknown`."""
FOLDER = ROOT / "tracer" / "repro" / "workloads" / "mechanisms"
HELPERS = {"__init__", "programs", "training"}
KILLED = [each for each in SCENARIOS if each.truth.mechanism and not each.truth.fixed]
FIXED = {each.act[1]: each for each in SCENARIOS if each.truth.fixed}


def test_every_mechanism_that_can_be_named_has_a_program_and_a_twin():
    assert {each.truth.mechanism for each in KILLED} == NAMES
    assert sorted(each.act[1] for each in KILLED) == sorted(FIXED)
    assert {each.truth.mechanism for each in FIXED.values()} == NAMES


def test_every_program_is_in_the_catalogue():
    assert {path.stem for path in FOLDER.glob("*.py")} - HELPERS == {each.act[1] for each in SCENARIOS}


@pytest.mark.parametrize("scenario", KILLED, ids=lambda each: each.name)
def test_a_twin_differs_in_what_is_fixed_and_in_nothing_else(scenario):
    twin = FIXED[scenario.act[1]]

    assert twin.act == (*scenario.act, "--fixed")
    assert (twin.needs, twin.stage.below) == (scenario.needs, scenario.stage.below)
    same_limit = twin.stage.memory_mib == scenario.stage.memory_mib
    assert same_limit or scenario.truth.mechanism == "limit_too_tight"


def test_what_cannot_be_told_apart_is_something_else_that_has_a_name():
    among = {each.truth.mechanism: set(each.truth.among) for each in KILLED}

    assert all(name not in others <= NAMES for name, others in among.items())


def test_files_of_runs_are_named_by_what_they_show():
    assert len({stem(each) for each in SCENARIOS}) == len(SCENARIOS)
    assert "worker_cache-killed" in {stem(each) for each in SCENARIOS}
    assert "page_cache-control" in {stem(each) for each in SCENARIOS}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_a_program_takes_pytorch_and_its_own_folder_alone(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    ours = {name for name in names if name.startswith("tracer")}

    assert all(name.startswith("tracer.repro.workloads") for name in ours)
    # The Python that has PyTorch has nothing else for certain, numpy included.
    others = {name.partition(".")[0] for name in names - ours} - {"torch"}
    assert all(importlib.util.find_spec(name).origin.find("site-packages") < 0 for name in others - {"sys", "time"})
