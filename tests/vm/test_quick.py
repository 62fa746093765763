# SPDX-License-Identifier: Apache-2.0
"""The main scenarios on two of Debian's kernels, in guests: a test for each cell of that part of the matrix.

Takes a quarter of an hour without KVM, most of it once: fetching kernels and making roots. So it runs only
where it is asked for, with `scripts/test --vm`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.guest import plan, tools
from tests.conftest import REQUIRED

ROOT = Path(__file__).resolve().parents[2]
CELLS = [(kernel, scenario) for kernel in plan.QUICK_KERNELS for scenario in plan.QUICK_SCENARIOS]
LIMIT_S = 45 * 60

pytestmark = pytest.mark.timeout(LIMIT_S)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What `scripts/vm --quick` wrote, by kernel and scenario; and its last lines, for what is missing there."""
    if "vm" not in REQUIRED:
        pytest.skip("boots guests, which takes some 15 minutes: scripts/test --vm")
    if missing := tools.missing_packages():
        pytest.skip(f"this host lacks {' '.join(missing)}: scripts/vm --setup installs them")
    folder = tmp_path_factory.mktemp("vm")
    with (folder / "log").open("w", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, ROOT / "scripts" / "vm", "--quick", "--json", folder / "results.json"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=LIMIT_S - 60, check=False,
        )  # fmt: skip
    words = (folder / "log").read_text(encoding="utf-8").splitlines()[-15:]
    if not (folder / "results.json").exists():
        return {}, words
    document = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {(each["kernel"], each["scenario"]): each for each in document["results"]}, words


@pytest.mark.parametrize(("kernel", "scenario"), CELLS)
def test_the_verdict_is_as_declared_on_each_kernel(ran, kernel, scenario):
    cells, words = ran
    assert (kernel, scenario) in cells, "\n".join(words)
    cell = cells[kernel, scenario]
    assert cell["outcome"] == "pass", cell["reason"]


def test_each_kernel_has_the_bcc_of_its_own_release(ran):
    cells, words = ran
    versions = {
        kernel: {each["bcc"] for (of, _), each in cells.items() if of == kernel} for kernel in plan.QUICK_KERNELS
    }
    assert all(len(found) == 1 and None not in found for found in versions.values()), "\n".join(words)
    assert len(set.union(*versions.values())) == len(plan.QUICK_KERNELS)
