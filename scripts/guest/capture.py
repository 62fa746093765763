# SPDX-License-Identifier: Apache-2.0
"""Copies what was kept of scenarios that passed into the tests' data."""

from collections.abc import Callable, Iterable
from pathlib import Path

from scripts.guest import truth
from scripts.guest.results import PASS, Result, Store


def capture(results: Iterable[Result], store: Callable[[str], Store], target: Path) -> list[str]:
    """Put what was kept into the tests' data, each in place of an older capture; what is to be said of it."""
    said, kernels, copied = [], {}, 0
    for result in results:
        if not result.release:
            continue
        folder = target / truth.series(result.release)
        kernels[result.kernel] = folder
        if result.outcome == PASS and result.scenario not in truth.LEFT_OUT:
            # The two hierarchies say different things of one scenario.
            name = result.scenario + ("-v1" if result.profile.startswith("v1") else "")
            truth.replace(store(result.kernel).left(result.kernel, result.profile, result.scenario), folder / name)
            copied += 1
    for kernel, folder in kernels.items():
        kept = store(kernel).layouts(kernel)
        if not kept.exists():
            said.append(f"{kernel}: no layouts were kept, those of {folder.name} stay as they are")
            continue
        for path in kept.iterdir():
            truth.replace(path, folder / path.name)
    size_bytes = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    return [*said, f"{copied} captured; {target.name} now has {size_bytes / (1 << 20):.1f} MiB"]
