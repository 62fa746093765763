# SPDX-License-Identifier: Apache-2.0
"""Commands whose real work is no descendant of theirs: a daemon, another node or a server starts it. Runs nothing."""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MAX_DEPTH = 8
MAX_TEXT = 100_000
"""Of a `bash -c` text, what is looked at."""


@dataclass(frozen=True)
class Wrapped:
    """A launcher, and where its processes are to be found."""

    launcher: str
    """As a person calls it: `docker run`."""
    why: str
    """Who starts its processes."""
    where: str
    """Where `instead` has to be run."""
    instead: str | None
    """The command to use instead; `None`: nothing can be watched from here."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said before the start."""
        first = f"{self.launcher}: {self.why}, so they are not below this job: what kills them is not told as its own"
        return (first,) if self.instead is None else (first, f"to watch them, {self.where}: {self.instead}")


@dataclass(frozen=True)
class _Launcher:
    why: str
    where: str = "on this machine"
    instead: str | None = None
    commands: frozenset[str] = frozenset()
    """Its subcommands that start something, with spaces where they have two words; none: always."""
    valued: frozenset[str] = frozenset()
    """Options before the subcommand that take the next word."""
    unless: frozenset[str] = frozenset()
    """With one of these options it does run its command itself."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _attach(find: str) -> str:
    return f'sudo oomtrace attach --pid "$({find})"'


def _containers(tool: str, why: str) -> _Launcher:
    verbs = "run exec start create build up restart"
    return _Launcher(
        why=why,
        instead=_attach(f"{tool} inspect -f '{{{{.State.Pid}}}}' NAME"),
        commands=_words(verbs) | {f"{noun} {verb}" for noun in ("container", "compose") for verb in verbs.split()},
        valued=_words(
            "-H --host -c --context --config -l --log-level -n --namespace -a --address -f --file -p --project-name "
            "--profile --env-file --project-directory --tlscacert --tlscert --tlskey --root --runroot --connection "
            "--cgroup-manager --storage-driver --url --identity --ansi"
        ),
    )


_DOCKER = "containerd starts the container's processes"
_SLURM = _Launcher(
    why="slurmstepd starts the tasks",
    where="on their node",
    instead="sudo oomtrace attach --slurm-job ID",
)
_CLUSTER = _Launcher(
    why="the batch system starts the job", where="on its node", instead="sudo oomtrace attach --pid PID"
)
_KUBERNETES = _Launcher(
    why="the kubelet's runtime starts the pod's processes",
    where="on the pod's node",
    instead=_attach("crictl inspect -o go-template --template '{{.info.pid}}' CONTAINER"),
    commands=_words("run exec apply create debug replace scale attach") | {"rollout restart"},
    valued=_words(
        "-n --namespace --context --cluster --kubeconfig -s --server --user --token --as --as-group --request-timeout "
        "-v --v --cache-dir --certificate-authority --client-certificate --client-key --tls-server-name"
    ),
)
_REMOTE = _Launcher(why="another machine runs the processes", where="there", instead="sudo oomtrace attach --pid PID")

_LAUNCHERS: Mapping[str, _Launcher] = {
    "docker": _containers("docker", _DOCKER),
    "docker-compose": _containers("docker", _DOCKER),
    "podman": _containers("podman", "conmon, which leaves this tree, starts the container's processes"),
    "podman-compose": _containers("podman", "conmon, which leaves this tree, starts the container's processes"),
    "nerdctl": _containers("nerdctl", _DOCKER),
    "ctr": _Launcher(
        why=_DOCKER,
        instead="sudo oomtrace attach --pid PID (PID from `ctr task ls`)",
        commands=_words("run") | {"task exec", "task start", "tasks exec", "tasks start", "t exec", "t start"},
        valued=_words("-n --namespace -a --address --timeout --connect-timeout"),
    ),
    "crictl": _Launcher(
        why="the container runtime starts the container's processes",
        instead=_KUBERNETES.instead,
        commands=_words("run exec start"),
        valued=_words("-r --runtime-endpoint -i --image-endpoint -c --config -t --timeout"),
    ),
    "srun": _SLURM,
    "sbatch": _SLURM,
    "salloc": _SLURM,
    "qsub": _CLUSTER,
    "bsub": _CLUSTER,
    "condor_submit": _CLUSTER,
    "ray": _Launcher(
        why="Ray's workers run the job",
        where="on the node that runs them",
        instead=_attach("pgrep -o raylet"),
        commands=_words("submit exec up attach") | {"job submit"},
    ),
    "kubectl": _KUBERNETES,
    "oc": _KUBERNETES,
    "helm": _Launcher(
        why=_KUBERNETES.why,
        where=_KUBERNETES.where,
        instead=_KUBERNETES.instead,
        commands=_words("install upgrade rollback test"),
        valued=_KUBERNETES.valued | {"--kube-context"},
    ),
    "ssh": _REMOTE,
    "mosh": _REMOTE,
    "pdsh": _REMOTE,
    "clush": _REMOTE,
    "sky": _Launcher(
        why=_REMOTE.why,
        where="there (ssh CLUSTER)",
        instead=_REMOTE.instead,
        commands=_words("launch exec") | {"jobs launch", "serve up"},
    ),
    "modal": _Launcher(why="Modal's machines run the processes", commands=_words("run serve deploy shell")),
    "systemd-run": _Launcher(
        why="systemd starts the unit's processes",
        instead=_attach("systemctl show -p MainPID --value UNIT"),
        unless=_words("--scope"),
    ),
    "run0": _Launcher(
        why="systemd starts the unit's processes", instead=_attach("systemctl show -p MainPID --value UNIT")
    ),
    "tmux": _Launcher(
        why="the tmux server, which may run already, starts the processes",
        instead="sudo oomtrace attach --pid PID (PID from `tmux list-panes -a -F '#{pane_pid}'`)",
        commands=_words("new new-session neww new-window splitw split-window respawn-pane respawn-window send-keys"),
        valued=_words("-L -S -f -c -T"),
    ),
    "screen": _Launcher(
        why="the screen server, which may run already, starts the processes",
        instead="sudo oomtrace attach --pid PID (PID from `screen -ls`)",
    ),
}

_SHELLS = _words("sh bash dash zsh ksh ash busybox")
# Programs that run the words after their options; and those of their options that take a word of their own.
_PREFIXES: Mapping[str, tuple[frozenset[str], int]] = {
    "env": (_words("-u --unset -C --chdir -S --split-string"), 0),
    "nohup": (frozenset(), 0),
    "nice": (_words("-n --adjustment"), 0),
    "ionice": (_words("-c --class -n --classdata"), 0),
    "chrt": (_words("-T -P -D"), 1),
    "taskset": (frozenset(), 1),
    "numactl": (_words("-i -p -P -N -m -C -l"), 0),
    "timeout": (_words("-s --signal -k --kill-after"), 1),
    "stdbuf": (_words("-i --input -o --output -e --error"), 0),
    "setsid": (frozenset(), 0),
    "time": (_words("-f --format -o --output"), 0),
    "exec": (_words("-a"), 0),
    "command": (frozenset(), 0),
    "sudo": (_words("-u --user -g --group -h --host -p --prompt -C -D --chdir -R -T -U -r -t"), 0),
    "doas": (_words("-u -C"), 0),
    "unbuffer": (frozenset(), 0),
    "xvfb-run": (_words("-n -s -e -f -p -w"), 0),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_BETWEEN_COMMANDS = re.compile(r"[;&|()\n]+")
_KEYWORDS = _words("! { } if then elif else fi while until do done time coproc")


def recognise(argv: Sequence[str]) -> Wrapped | None:
    """Whether a job's command starts its work elsewhere, also behind `env`, `timeout`, `bash -c` and the like."""
    return _look(list(argv), MAX_DEPTH)


def _look(words: list[str], depth: int) -> Wrapped | None:
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _KEYWORDS):
        words = words[1:]
    if not words or depth <= 0:
        return None
    name, rest = os.path.basename(words[0]), words[1:]
    launcher = _LAUNCHERS.get(name)
    if launcher is not None:
        return _wrapped(name, launcher, rest)
    if name in _PREFIXES:
        return _look(_after_options(rest, *_PREFIXES[name]), depth - 1)
    if name in _SHELLS:
        text = _given_text(rest)
        found = (_look(command, depth - 1) for command in _commands(text))
        return next((wrapped for wrapped in found if wrapped is not None), None)
    return None


def _wrapped(name: str, launcher: _Launcher, rest: list[str]) -> Wrapped | None:
    if any(word in launcher.unless for word in rest):
        return None
    called = name
    if launcher.commands:
        given = _after_options(rest, launcher.valued, 0)
        first, after = (given[0], given[1:]) if given else ("", [])
        second = next(iter(_after_options(after, launcher.valued, 0)), "")
        one, two = first, f"{first} {second}"
        if one not in launcher.commands and two not in launcher.commands:
            return None
        called = f"{name} {one if one in launcher.commands else two}"
    return Wrapped(called, launcher.why, launcher.where, launcher.instead)


def _after_options(words: list[str], valued: frozenset[str], operands: int) -> list[str]:
    """The words after the options and so many words that are no command."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word.startswith("-") and word != "-":
            at += 2 if word in valued else 1
        else:
            break
    return words[at + operands :]


def _given_text(words: list[str]) -> str:
    """What stands after `-c` (also `-lc`, `-e -c`)."""
    for at, word in enumerate(words):
        if not word.startswith(("-", "+")):
            before = words[at - 1] if at else ""
            if word not in _SHELLS and not (before[:1] in ("-", "+") and before[-1:] in ("o", "O")):
                return ""  # a script's file: what is in it is not known (`busybox sh -c` and `-euo pipefail -c` go on)
        elif word.startswith("-") and not word.startswith("--") and "c" in word:
            return next((later for later in words[at + 1 :] if not later.startswith("-")), "")
    return ""


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a shell text: roughly, since no shell is asked."""
    lexer = shlex.shlex(text[:MAX_TEXT].replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        for word in lexer:
            if _BETWEEN_COMMANDS.fullmatch(word):
                yield command
                command = []
            else:
                command.append(word)
    except ValueError:  # a quote that is never closed: what was there before counts
        pass
    yield command
