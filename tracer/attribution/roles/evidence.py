# SPDX-License-Identifier: Apache-2.0
"""The facts about each process that roles are told from, gathered once and freed of what was its parent's."""

from collections.abc import Mapping, Sequence
from functools import cached_property

from tracer.attribution.roles.names import MpKind, is_python, multiprocessing_kind
from tracer.attribution.roles.variables import Identity, Variables, has_rank, identity
from tracer.attribution.tree import Member, Tree
from tracer.events import ProcessId, ProcessLooked, ProcessSeen


class Evidence:
    """One member of the tree."""

    def __init__(self, member: Member, parent: "Evidence | None") -> None:
        self.member = member
        self.parent = parent

    @property
    def id(self) -> ProcessId:
        return self.member.id

    @cached_property
    def last_seen(self) -> ProcessSeen | None:
        """As the program that it was in the end."""
        return self.member.seen[-1] if self.member.seen else None

    @cached_property
    def exec_environ(self) -> Variables | None:
        """What the last exec that was seen had been given."""
        return next((s.environ for s in reversed(self.member.seen) if s.environ is not None), None)

    @cached_property
    def looks(self) -> Sequence[ProcessLooked]:
        """Closer looks at the program that it was in the end."""
        begun_ns = self.member.execs[-1].ts_ns if self.member.execs else 0
        return [look for look in self.member.looks if look.ts_ns >= begun_ns]

    @cached_property
    def late_environ(self) -> Variables | None:
        """What its variables had become when that was read last."""
        return next((look.environ for look in reversed(self.looks) if look.environ is not None), None)

    @cached_property
    def late_identities(self) -> frozenset[Identity]:
        """Every rank, or part of one, that its memory ever named."""
        return frozenset(identity(look.environ) for look in self.looks if look.environ and has_rank(look.environ))

    @cached_property
    def cmdline(self) -> Sequence[str] | None:
        """Its last one that could be read, whoever gave it."""
        return next((s.cmdline for s in reversed(self.member.seen) if s.cmdline is not None), None)

    @cached_property
    def exe(self) -> str | None:
        return next((s.exe for s in reversed(self.member.seen) if s.exe is not None), None)

    @cached_property
    def is_image(self) -> bool:
        """It is its parent's program still, as after a fork: what stands in its command line was not meant for it."""
        if self.member.execs or self.parent is None:
            return False
        if self.exe is not None and self.parent.exe is not None and self.exe != self.parent.exe:
            return False  # its execs were not watched
        same = self.cmdline is None or self.cmdline == self.parent.cmdline
        # Other arguments may be a title that it gave itself, but for those of multiprocessing.
        return same or (self.member.fork is not None and multiprocessing_kind(self.cmdline, self.exe) is None)

    @cached_property
    def kind(self) -> MpKind | None:
        """What of multiprocessing it was started as."""
        return None if self.is_image else multiprocessing_kind(self.cmdline, self.exe)

    @cached_property
    def comms(self) -> Sequence[str]:
        """The names that it gave itself, or had from exec: not the one that it was forked with."""
        own, parent = self.member.comms, self.parent
        if parent is None or not own or own[0] not in parent.member.comms:
            return own
        begun = {event.comm for event in self.member.execs}
        return own if own[0] in begun else own[1:]

    @cached_property
    def own_cmdline(self) -> Sequence[str] | None:
        """The command line, where it is its own."""
        return None if self.is_image else self.cmdline

    @cached_property
    def own_exe(self) -> str | None:
        return None if self.is_image else self.exe

    @cached_property
    def is_python(self) -> bool:
        return is_python(self.comms, self.cmdline, self.exe)

    @cached_property
    def caught(self) -> frozenset[int]:
        """Every mask of caught signals that it was seen with."""
        return frozenset(look.caught for look in self.looks if look.caught is not None)

    @cached_property
    def uses_gpu(self) -> str | None:
        """A GPU that it has open. A child that was only forked has what its parent had open."""
        return next((look.devices[0] for look in self.looks if look.devices), None)

    @cached_property
    def threads(self) -> frozenset[str]:
        """PyTorch's names of its threads."""
        return frozenset(name for look in self.looks for name in look.threads or ())

    @cached_property
    def last_looked_ns(self) -> int:
        """When anything of it was last read while it lived."""
        last = (self.looks[-1:], self.member.samples[-1:], self.member.seen[-1:])
        return max((event.ts_ns for events in last for event in events), default=0)


def gather(tree: Tree) -> Mapping[ProcessId, Evidence]:
    """Of every member; parents come before their children."""
    found: dict[ProcessId, Evidence] = {}
    for member in tree.members.values():
        found[member.id] = Evidence(member, found.get(member.parent) if member.parent else None)
    return found


def mask_of(*signals: int) -> int:
    """As the kernel shows a set of signals."""
    return sum(1 << signal - 1 for signal in signals)
