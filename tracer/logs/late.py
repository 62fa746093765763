# SPDX-License-Identifier: Apache-2.0
"""A pattern that is compiled when it is first searched for: of hundreds a log needs few, and each takes its time."""

import re
from collections.abc import Callable
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
