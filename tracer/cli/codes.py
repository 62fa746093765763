# SPDX-License-Identifier: Apache-2.0
"""Which exit code an error becomes."""

from tracer.errors import InputError, KernelUnavailable, OomtraceError, PermissionDenied, UsageError

INTERRUPTED = 128 + 2
"""By SIGINT."""

_EXIT_CODES: tuple[tuple[type[OomtraceError], int], ...] = (
    (UsageError, 2),
    (InputError, 3),
    (PermissionDenied, 4),
    (KernelUnavailable, 5),
    (OomtraceError, 5),
)


def exit_code_of(error: OomtraceError) -> int:
    """By the table in the README."""
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
