# SPDX-License-Identifier: Apache-2.0
"""scripts/guest/truth.py and capture.py: what is kept of a scenario that passed, and copied when that is asked."""

import json
import lzma
import runpy
from pathlib import Path

import pytest

from scripts.guest import truth
from scripts.guest.capture import capture
from scripts.guest.errors import VmError
from scripts.guest.plan import Batch, Profile, Scenario
from scripts.guest.results import FAIL, NOT_APPLICABLE, PASS, Result, Store
from tracer.repro.catalogue import by_name

VM = runpy.run_path(str(Path(truth.__file__).parents[1] / "vm"))
RELEASE = "6.1.0-50-amd64"


def cell(outcome=PASS, scenario="leaf", profile="v2", release=RELEASE):
    return Result(scenario, "6.1", profile, outcome, None, 7.5, release, "0.26.0")


@pytest.fixture
def found(tmp_path):
    """What a guest left of a scenario."""
    folder = tmp_path / "found"
    folder.mkdir()
    (folder / "kmsg").write_bytes(b"6,1,1,-;x\n")
    (folder / "recording.oomtrace").write_bytes(b"{}\n")
    (folder / "stdout").write_text('{"scenario": "leaf", "outcome": "pass", "seconds": 7.31}')
    (folder / "stderr").write_text("talk")
    return folder


@pytest.fixture
def store(tmp_path):
    kept = Store(tmp_path / "store")
    (kept.layouts("6.1") / "formats").mkdir(parents=True)
    (kept.layouts("6.1") / "layout.json").write_text("{}")
    (kept.layouts("6.1") / "formats" / "new.txt").write_text("")
    return kept


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_log_recording_and_verdict_are_kept_small(found, tmp_path):
    truth.keep(found, tmp_path / "kept")

    assert files(tmp_path / "kept") == ["kmsg.xz", "recording.oomtrace.xz", "verdict.json"]
    assert lzma.decompress((tmp_path / "kept" / "recording.oomtrace.xz").read_bytes()) == b"{}\n"
    assert json.loads((tmp_path / "kept" / "verdict.json").read_text()) == {"scenario": "leaf", "outcome": "pass"}


def test_the_same_files_give_the_same_bytes(found, tmp_path):
    truth.keep(found, tmp_path / "one")
    (found / "stdout").write_text('{"scenario": "leaf", "outcome": "pass", "seconds": 9.99}')
    truth.keep(found, tmp_path / "two")

    assert [(tmp_path / "one" / name).read_bytes() for name in files(tmp_path / "one")] == [
        (tmp_path / "two" / name).read_bytes() for name in files(tmp_path / "two")
    ]


def test_a_long_log_is_cut_between_two_records_and_says_so(found, tmp_path):
    record = b"6,1,1,-;" + b"x" * 91 + b"\n"
    (found / "kmsg").write_bytes(record * (truth.LOG_BYTES // 50))
    truth.keep(found, tmp_path / "kept")
    kept = lzma.decompress((tmp_path / "kept" / "kmsg.xz").read_bytes())

    assert kept == record * (truth.LOG_BYTES // 100) + truth.CUT


@pytest.mark.parametrize("outcome", [FAIL, NOT_APPLICABLE])
def test_of_what_did_not_pass_nothing_is_kept(found, store, outcome):
    store.keep(cell(outcome), found)

    assert not store.left("6.1", "v2", "leaf").exists()


def test_what_passed_is_settled_with_what_it_left_or_without(found, store):
    store.keep(cell())
    assert store.settled("6.1", "v2", "leaf") == cell()
    assert store.settled("6.1", "v2", "leaf", with_left=True) is None

    store.keep(cell(), found)
    assert store.settled("6.1", "v2", "leaf", with_left=True) == cell()
    store.keep(cell(NOT_APPLICABLE))
    assert store.settled("6.1", "v2", "leaf", with_left=True) == cell(NOT_APPLICABLE)


@pytest.mark.parametrize("name", truth.LEFT_OUT)
def test_what_is_left_out_is_settled_by_its_result_alone(found, store, name):
    store.keep(cell(scenario=name), found)

    assert not store.left("6.1", "v2", name).exists()
    assert store.settled("6.1", "v2", name, with_left=True) == cell(scenario=name)


def test_a_capture_runs_again_only_what_left_nothing(found, store):
    batch = Batch("6.1", Profile(), (Scenario("leaf", ()), Scenario("storm-500", ()), Scenario("other", ())))
    store.keep(cell(), found)
    store.keep(cell(scenario="storm-500"), found)
    store.keep(cell(scenario="other"))
    left, kept = VM["_without_settled"]([batch], {"6.1": store}, capture=True)

    assert [scenario.name for each in left for scenario in each.scenarios] == ["other"]
    assert kept == [cell(), cell(scenario="storm-500")]
    assert VM["_without_settled"]([batch], {"6.1": store}, capture=False)[0] == []


def test_a_capture_is_a_copy_in_place_of_an_older_one(found, store, tmp_path):
    data = tmp_path / "kernels"
    (data / "6.1" / "leaf").mkdir(parents=True)
    (data / "6.1" / "leaf" / "old").touch()
    (data / "6.1" / "formats").mkdir()
    (data / "6.1" / "formats" / "old.txt").touch()
    (data / "6.1" / "other").mkdir()
    (data / "6.1" / "other" / "old").touch()
    results = [cell(), cell(scenario="old", profile="v1+swap"), cell(scenario="selftest"), cell(FAIL, "other")]
    for each in results:
        store.keep(each, found)
    said = capture(results, lambda _: store, data)

    of_one = ["kmsg.xz", "recording.oomtrace.xz", "verdict.json"]
    assert files(data / "6.1") == sorted(
        ["formats/new.txt", "layout.json", *(f"leaf/{name}" for name in of_one), "other/old"]
        + [f"old-v1/{name}" for name in of_one]
    )
    assert said == ["2 captured; kernels now has 0.0 MiB"]


def test_a_kernel_without_layouts_keeps_those_that_it_had(found, tmp_path):
    store, data = Store(tmp_path / "store"), tmp_path / "kernels"
    store.keep(cell(), found)
    said = capture([cell(), cell(release="")], lambda _: store, data)

    assert said[0] == "6.1: no layouts were kept, those of 6.1 stay as they are"


@pytest.mark.parametrize(
    ("release", "name"), [(RELEASE, "6.1"), ("6.12.117+deb13-amd64", "6.12"), ("7.2.13+deb14-amd64", "7.2")]
)
def test_a_folder_is_called_after_the_kernels_series(release, name):
    assert truth.series(release) == name


def test_a_kernel_that_is_called_otherwise_is_an_error():
    with pytest.raises(VmError, match="'other'"):
        truth.series("other")


def test_what_is_left_out_exists():
    assert set(truth.LEFT_OUT) <= {*by_name(), "selftest", "doctor"}
