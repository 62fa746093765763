# SPDX-License-Identifier: Apache-2.0
"""What this process may do: its user, its capabilities and what each is used for, its user namespace."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tracer.doctor.model import Answer, Capability
from tracer.doctor.reading import Places, fields, read
from tracer.rights import as_root

SYS_ADMIN = "CAP_SYS_ADMIN"
SYSLOG = "CAP_SYSLOG"
_WHOLE = 0xFFFFFFFF


class _Use(NamedTuple):
    name: str
    bit: int
    links: tuple[int, ...]
    meaning: str


_USES = (
    _Use("CAP_BPF", 39, (1, 2, 3, 4), "loads the BPF programs and their maps"),
    _Use("CAP_PERFMON", 38, (1, 2, 3, 4), "attaches them to the kernel's tracepoints, and lets them read"),
    _Use(
        SYS_ADMIN, 21, (1, 2, 3, 4),
        "stands in for CAP_BPF, CAP_PERFMON and CAP_SYSLOG; some distributions ask for it before they allow kprobes",
    ),
    _Use(
        SYSLOG, 34, (1, 2),
        "names of the kernel's functions (a kill is told from a mere mark by its stack), and the kernel's log",
    ),
    _Use("CAP_SYS_PTRACE", 19, (), "reads RANK and the like of other users' processes: their roles in the job"),
    _Use("CAP_SYS_RESOURCE", 24, (), "has the OOM killer pass oomtrace by (oom_score_adj below its own)"),
    _Use("CAP_DAC_OVERRIDE", 1, (), "makes and fills the job's cgroup where its folder belongs to another user"),
    _Use("CAP_DAC_READ_SEARCH", 2, (), "looks into folders of other users below /proc and /sys/fs/cgroup"),
    _Use("CAP_KILL", 5, (), "passes Ctrl-C and SIGTERM on to a job that runs as another user"),
    _Use("CAP_SETUID", 7, (), "gives the job back to the user who called sudo"),
    _Use("CAP_SETGID", 6, (), "gives the job back its groups"),
)  # fmt: skip


@dataclass(frozen=True)
class Rights:
    """What /proc/self/status says of us."""

    uid: int
    effective: int
    bounding: int
    """What root under sudo could get here."""
    initial_user_namespace: bool | None
    no_new_privileges: bool
    seccomp: bool

    @property
    def root(self) -> bool:
        return self.uid == 0

    def has(self, *names: str) -> bool:
        """Whether all of these are effective, in the user namespace that the kernel asks about."""
        return self.initial_user_namespace is not False and all(self.effective >> _bit(n) & 1 for n in names)

    def root_would_have(self, *names: str) -> bool:
        """Whether root could have all of these here."""
        return self.initial_user_namespace is not False and all(self.bounding >> _bit(n) & 1 for n in names)

    @property
    def can_become_root(self) -> bool:
        """Whether sudo can work at all."""
        return self.root or not self.no_new_privileges


def read_rights(places: Places) -> Rights:
    """Of this process."""
    status = fields(f"{places.proc}/self/status")
    return Rights(
        uid=_decimal(status.get("Uid", "").split()[1:2], otherwise=-1),
        effective=_hex(status.get("CapEff")),
        bounding=_hex(status.get("CapBnd")),
        initial_user_namespace=_initial_user_namespace(places),
        no_new_privileges=status.get("NoNewPrivs") == "1",
        seccomp=status.get("Seccomp", "0") not in {"0", ""},
    )


def check(rights: Rights) -> Iterable[Capability]:
    """The user, each capability, and what keeps them from counting."""
    yield Capability(
        id="root",
        name="root",
        ok="yes" if rights.root else "no",
        found=f"user {rights.uid}" if rights.uid >= 0 else "user unknown",
        meaning="usually has all of the capabilities below, and starts the job as the user who called sudo",
        with_root="yes" if rights.can_become_root else "no",
        remedy=None if rights.root else _how_to_be_root(rights),
    )
    if rights.initial_user_namespace is False:
        yield Capability(
            id="user_namespace",
            name="user namespace",
            ok="no",
            found="one of our own: root in it is none to the kernel",
            meaning="capabilities count only in the machine's first user namespace",
            links=(1, 2, 3, 4),
            weight="proof",
            remedy="run oomtrace outside of the rootless container (unshare -U, podman without sudo)",
        )
    for use in _USES:
        yield _capability(rights, use)
    if rights.seccomp:
        yield Capability(
            id="seccomp",
            name="seccomp",
            ok="unknown",
            found="a seccomp filter is on: it may refuse bpf()",
            meaning="a container's filter can deny what the capabilities allow",
            weight="note",
        )


def _capability(rights: Rights, use: _Use) -> Capability:
    ok: Answer = "yes" if rights.has(use.name) else "no"
    with_root: Answer = "yes" if rights.can_become_root and rights.root_would_have(use.name) else "no"
    found = "effective" if ok == "yes" else "not effective"
    if ok == "no" and use.name in {"CAP_BPF", "CAP_PERFMON"} and rights.has(SYS_ADMIN):
        ok, found = "yes", "not effective, but CAP_SYS_ADMIN stands in for it"
    remedy = None
    if ok == "no":
        added = f"give the container {use.name} (docker run --cap-add {use.name.removeprefix('CAP_')})"
        remedy = added if rights.root else _how_to_be_root(rights)
    return Capability(
        id=use.name.lower(),
        name=use.name,
        ok=ok,
        found=found,
        meaning=use.meaning,
        links=use.links,
        group="capabilities",
        remedy=remedy,
        with_root=with_root,
    )


def _how_to_be_root(rights: Rights) -> str:
    if rights.no_new_privileges:
        return "no_new_privs is set, so sudo cannot work in this session: ask from another one"
    return as_root("doctor")


def _bit(name: str) -> int:
    return next(use.bit for use in _USES if use.name == name)


def _initial_user_namespace(places: Places) -> bool | None:
    text = read(f"{places.proc}/self/uid_map")
    if text is None or not text.split():
        return None
    return text.split() == ["0", "0", str(_WHOLE)]


def _hex(text: str | None) -> int:
    try:
        return int(text or "0", 16)
    except ValueError:
        return 0


def _decimal(words: list[str], *, otherwise: int) -> int:
    return int(words[0]) if words and words[0].isdecimal() else otherwise
