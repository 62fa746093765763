# SPDX-License-Identifier: Apache-2.0
"""What ends `scripts/vm` with one line instead of a traceback."""


class VmError(Exception):
    """One line for a person, with what to do next."""
