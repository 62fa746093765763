# SPDX-License-Identifier: Apache-2.0
"""Ground truth for the tests: what a guest left of a scenario that passed, made small, as it is kept and committed.

The recording is kept whole: cut, it would say something else. The kernel log is cut after `LOG_BYTES`. Both are packed:
there are hundreds, all of which is new with each capture, so that nobody would read the difference.
"""

import json
import lzma
import re
import shutil
from pathlib import Path

from scripts.guest.errors import VmError

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "kernels"
LOG, RECORDING, VERDICT = "kmsg.xz", "recording.oomtrace.xz", "verdict.json"
LOG_BYTES = 384 << 10
"""A machine without a victim repeats one report of some 5 KiB for as long as it is left alone."""
CUT = b"# cut here\n"
LEFT_OUT = {
    "selftest": "not in the catalogue; memcg-leaf is the same kill",
    "doctor": "nothing is killed, and nothing recorded",
    "storm-500": "some 400 KB a kernel when packed, of kills that storm-50 has as well",
}
"""Not captured, and why."""
_SERIES = re.compile(r"\d+\.\d+")


def series(release: str) -> str:
    """The folder of a kernel: `5.10` of `5.10.0-32-amd64`.

    Raises:
        VmError: this is no release.
    """
    found = _SERIES.match(release)
    if found is None:
        raise VmError(f"a kernel calls itself {release!r}")
    return found[0]


def packed(data: bytes) -> bytes:
    """The same data gives the same bytes."""
    return lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)


def keep(found: Path, target: Path) -> None:
    """From the files of a scenario that passed, as the guest left them."""
    new = target.with_name(f".{target.name}.new")
    for each in (new, target):
        shutil.rmtree(each, ignore_errors=True)
    new.mkdir(parents=True)
    document = json.loads((found / "stdout").read_text(encoding="utf-8", errors="replace"))
    document.pop("seconds", None)  # of this very run
    text = json.dumps(document, indent=1)
    (new / VERDICT).write_text(f"{text}\n", encoding="utf-8")
    for name, kept, most in (("kmsg", LOG, LOG_BYTES), ("recording.oomtrace", RECORDING, None)):
        if (found / name).exists():
            (new / kept).write_bytes(packed(_cut((found / name).read_bytes(), most)))
    new.rename(target)


def _cut(data: bytes, most: int | None) -> bytes:
    """No more than so many bytes, in whole lines."""
    if most is None or len(data) <= most:
        return data
    return data[: data.rindex(b"\n", 0, most) + 1] + CUT


def replace(kept: Path, target: Path) -> None:
    """A file or folder in place of another."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if kept.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(kept, target)
    else:
        shutil.copyfile(kept, target)
