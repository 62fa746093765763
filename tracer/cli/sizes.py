# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them, into bytes."""

import re
from fractions import Fraction

from tracer.errors import UsageError

# Powers of 1024 for `64G` as for `64GiB`: what systemd, docker and the kernel's own files mean by it.
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SIZE = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,9})?)\s*(?P<unit>[kmgtp]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
MAX_SIZE_BYTES = 1 << 62


def parse_size(text: str) -> int:
    """`512M`, `64G`, `1.5GiB`, `1048576`: bytes.

    Raises:
        UsageError: it is none, is 0, or is more than any limit can be.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a size; write it as 512M, 64G, 1.5GiB or in bytes")
    size_bytes = int(Fraction(found["number"]) * 1024 ** _POWERS[found["unit"].lower()])
    if size_bytes >= MAX_SIZE_BYTES:
        raise UsageError(f"{text!r} is more than any limit can be")
    return size_bytes


def parse_limit(text: str) -> int | None:
    """A size, or `max` as the kernel says it: `None`, no limit.

    Raises:
        UsageError: it is neither.
    """
    return None if text.strip() == "max" else parse_size(text)
