# SPDX-License-Identifier: Apache-2.0
"""The exception tree. Each error carries facts; `tracer.cli` alone turns one into an exit code.

OomtraceError
├── UsageError              what was asked for makes no sense                exit 2
│   └── NameTaken           a file that is to be made is there already
├── InputError              a file or text cannot be read or understood      exit 3
│   └── RecordingError      a recording is not one, or is damaged
├── PermissionDenied        the kernel or the system said no                 exit 4
├── PackageMissing          a library that this one thing needs is missing   exit 5
└── KernelUnavailable       this kernel or machine cannot do what is needed  exit 5
    ├── LoaderFailed        the loader child could not compile, load or attach
    └── CgroupUnavailable   no memory cgroup can be made here
"""


class OomtraceError(Exception):
    """Base of every error that this program raises on purpose; its text is one line for a person."""

    next_command: str | None = None
    """What to type now, where that is known."""


class UsageError(OomtraceError):
    """What was asked for makes no sense.

    Args:
        what: what is wrong, one line.
        next_command: what to type now.
    """

    def __init__(self, what: str, *, next_command: str | None = None) -> None:
        super().__init__(what)
        self.next_command = next_command


class NameTaken(UsageError):
    """A file that is to be made is there already, and what is there is never written over.

    Args:
        what: what it was to be.
        path: the file.
    """

    def __init__(self, what: str, *, path: str) -> None:
        super().__init__(f"{path}: exists already, and {what}")
        self.path = path


class InputError(OomtraceError):
    """A file or text cannot be read or understood.

    Args:
        what: what is wrong, one line.
        path: the file, where there is one.
        line: its line, counted from 1.
        next_command: what to type now.
    """

    def __init__(
        self, what: str, *, path: str | None = None, line: int | None = None, next_command: str | None = None
    ) -> None:
        where = "" if path is None else f"{path}: " if line is None else f"{path}:{line}: "
        super().__init__(where + what)
        self.what, self.path, self.line, self.next_command = what, path, line, next_command


class RecordingError(InputError):
    """A recording is not one, or is damaged beyond its torn tail."""


class PackageMissing(OomtraceError):
    """A library that this one thing needs, and all others do not, is not installed.

    Args:
        package: its name.
        what: what needs it.
        next_command: what installs it.
    """

    def __init__(self, package: str, what: str, *, next_command: str) -> None:
        super().__init__(f"{what} needs the Python package {package}, which is not installed")
        self.package, self.next_command = package, next_command


class PermissionDenied(OomtraceError):
    """The kernel or the system said no.

    Args:
        what: the action that was refused.
        need: what would allow it.
    """

    def __init__(self, what: str, *, need: str | None = None) -> None:
        super().__init__(what if need is None else f"{what}; needs {need}")
        self.what, self.need = what, need


class KernelUnavailable(OomtraceError):
    """This kernel or machine cannot do what is needed."""


class LoaderFailed(KernelUnavailable):
    """The loader child could not compile, load or attach.

    Args:
        stage: what it was doing: `start`, `import`, `btf`, `compile`, `attach`, `handover`.
        why: its own words, one line.
    """

    def __init__(self, stage: str, why: str) -> None:
        super().__init__(f"BPF loader failed at {stage}: {why}")
        self.stage, self.why = stage, why


class CgroupUnavailable(KernelUnavailable):
    """No memory cgroup can be made here."""
