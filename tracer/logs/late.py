# SPDX-License-Identifier: Apache-2.0
"""Of hundreds of patterns a log needs few: each is compiled when it is first searched for, and few are looked at."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property


class LatePattern:
    """As `re.compile` would make it, of text.

    Args:
        pattern: the expression.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @cached_property
    def search(self) -> Callable[[str], "re.Match[str] | None"]:
        """That of the compiled pattern."""
        return re.compile(self.pattern).search


ByRoot = tuple[tuple[str, tuple[int, ...]], ...]
"""Parts of needles, and the places of the needles that have one."""


def by_root(roots: Sequence[str], needles: Iterable[str]) -> ByRoot:
    """Each needle under the first root that it has."""
    places: dict[str, list[int]] = {root: [] for root in roots}
    for place, needle in enumerate(needles):
        places[next(root for root in roots if root in needle)].append(place)
    return tuple((root, tuple(found)) for root, found in places.items())


def candidates(roots: ByRoot, text: str) -> list[int]:
    """Places, in order, of all needles that a text may have."""
    found = [place for root, places in roots if root in text for place in places]
    found.sort()
    return found
