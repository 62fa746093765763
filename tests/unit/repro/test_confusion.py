# SPDX-License-Identifier: Apache-2.0
"""What is named against what it was: counted, and nothing made better than it is."""

from tracer.repro.confusion import CONTROL, Run, run_of, table
from tracer.repro.scenario import Truth

CACHE = Truth(mechanism="worker_cache", among=("allocator_retention",))


def run(named, *, truth=CACHE, outcome="pass", strength="likely"):
    return Run(truth, outcome, named, strength=None if named is None else strength)


def cells(text, row):
    line = next(line for line in text.splitlines() if line.startswith(f"| `{row}`"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_each_name_that_was_given_is_a_column_and_none_is_one_too():
    runs = [run("worker_cache"), run("cow_refcount"), run(None), run("worker_cache")]
    text = table(runs, ["worker_cache"])

    assert text.splitlines()[0].startswith("| what it was | `cow_refcount` | `worker_cache` | `none` |")
    assert cells(text, "worker_cache") == ["1", "2", "1", "2/4", "2/4", "4/4", ""]


def test_a_name_of_the_class_is_right_for_the_class_alone():
    text = table([run("allocator_retention")], ["worker_cache"])

    assert cells(text, "worker_cache") == ["1", "", "0/1", "1/1", "1/1", ""]


def test_a_control_is_right_when_nothing_is_named():
    control = Truth(mechanism=None)
    text = table([run(None, truth=control), run("worker_cache", truth=control)], [CONTROL])

    assert cells(text, CONTROL)[-4:] == ["1/2", "1/2", "2/2", ""]
    assert "a wrong one as `likely` in 1;" in text


def test_a_wrong_name_that_is_only_possible_misleads_nobody():
    assert run("cow_refcount").misled
    assert not run("cow_refcount", strength="possible").misled
    assert not run("worker_cache").misled
    assert not run("allocator_retention").misled
    assert not run(None).misled


def test_a_twin_counts_for_its_life_and_not_for_what_is_named_of_it():
    twin = Truth(mechanism="worker_cache", fixed=True)
    ends = ({"status": "exit 0", "killed": 0}, {"status": "exit 0", "killed": 1}, {"status": "exit 1", "killed": 0})
    runs = [run_of(twin, "fail", end) for end in ends]

    assert [each.right for each in runs] == [True, False, False]
    assert cells(table(runs, ["worker_cache"]), "worker_cache") == ["", "", "", "", "1/3"]
    assert "0 runs and 3 of fixed twins" in table(runs, ["worker_cache"])


def test_what_could_not_be_played_is_not_counted():
    assert "0 runs and 0" in table([run(None, outcome="not_applicable")], ["worker_cache"])


def test_the_document_of_a_run_is_read_as_far_as_it_goes():
    found = {"mechanism": "worker_cache", "mechanism_or": ["x"], "mechanism_strength": "possible"}

    assert run_of(CACHE, "pass", found) == Run(CACHE, "pass", "worker_cache", ("x",), "possible")
    assert run_of(CACHE, "pass", {}) == Run(CACHE, "pass", None)
    assert run_of(CACHE, "fail", {"mechanism": None, "mechanism_or": []}) == Run(CACHE, "fail", None)
