# SPDX-License-Identifier: Apache-2.0
"""`oomtrace doctor` on this machine, and with one thing after the other really taken away: it says what then holds.

What it promises is held against what `oomtrace run` gives in the very same environment.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER
from tracer.doctor.kernel import try_programs
from tracer.events import HookStatus
from tracer.kernel.session import PYTHON

NOBODY = 65534
EATER = "x = []\nwhile len(x) < 256: x.append(bytes([1]) * (1 << 20))"
FROM_WEAK_TO_STRONG = ("not_seen", "possible", "likely", "proved")
ENVIRON = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80"}


def packages_of_bcc() -> Path:
    ask = "import bcc, os; print(os.path.dirname(os.path.dirname(bcc.__file__)))"
    done = subprocess.run([PYTHON, "-I", "-c", ask], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def within(mounts: str, *flags: str) -> tuple[str, ...]:
    """The start of a command that runs in namespaces of its own, after these mounts."""
    return ("unshare", "--mount", "--propagation", "private", *flags, "sh", "-ec", f'{mounts}\nexec "$@"', "sh")


HIDDEN = {
    "nothing": ("", ()),
    "the log": ("mount --bind /dev/null /dev/kmsg", ()),
    "bcc": ("mount -t tmpfs none BCC", ()),
    "type information": ("mount -t tmpfs none /sys/kernel/btf", ()),
    "the names": ("mount --bind /dev/null /proc/kallsyms", ()),
    "the pids": ("", ("--pid", "--fork", "--mount-proc")),
}


@pytest.fixture
def taken_away(can_trace):
    def prefix(what):
        mounts, flags = HIDDEN[what]
        return within(mounts.replace("BCC", str(packages_of_bcc())), *flags)

    return prefix


def oomtrace(*arguments, prefix=(), cwd="/", **kwargs):
    command = [*prefix, sys.executable, "-m", "tracer", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=ENVIRON, capture_output=True, text=True, timeout=60 * SLOWER, check=False, **kwargs
    )


def doctor(prefix=(), **kwargs):
    done = oomtrace("doctor", "--json", prefix=prefix, **kwargs)
    assert "Traceback" not in done.stderr, done.stderr
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["here"]["verdict"] == "proved" else 1), done.stderr
    return document


def answers(document) -> dict[str, str]:
    return {one["id"]: one["ok"] for one in document["capabilities"]}


def promised(document) -> str:
    return next(kill["verdict"] for kill in document["here"]["kills"] if kill["kill"] == "cgroup_limit")


def given(folder: Path, prefix) -> str:
    """The strength of a verdict on a real kill at a cgroup's limit."""
    path = folder / "run.oomtrace"
    options = ("--memory-max", "64M", "--record", path)
    oomtrace("run", *options, "--", sys.executable, "-S", "-c", EATER, prefix=prefix, cwd=folder)
    verdict = json.loads(oomtrace("report", "--json", path).stdout)
    ooms = [one["strength"] for one in verdict["incidents"] if one["cause"].startswith("host_oom")]
    return ooms[0] if ooms else "not_seen"


def test_root_is_told_the_hooks_that_a_run_really_has(untouched, oomtrace_run):
    told = {hook["name"]: hook["attached"] for hook in untouched["hooks"]}
    had = {event.hook: event.attached for event in oomtrace_run("true").events(HookStatus) if event.hook != "kmsg"}

    # A run takes that one where the log cannot be read.
    told.pop("raw_tracepoint:console")
    assert told == had


@pytest.fixture
def oomtrace_run(request):
    return request.getfixturevalue("oomtrace")


@pytest.fixture(scope="module")
def untouched(can_trace):
    return doctor()


@pytest.mark.parametrize(
    "what, missing",
    [
        ("nothing", set()),
        ("the log", {"kernel_log"}),
        ("bcc", {"bcc", "bpf_programs"}),
        ("type information", {"btf", "bpf_programs"}),
        ("the names", {"kernel_symbols"}),
    ],
)
def test_what_is_taken_away_is_named_and_what_is_promised_is_what_a_run_gives(
    untouched, taken_away, tmp_path, what, missing
):
    prefix = taken_away(what)
    document = doctor(prefix)
    before, after = answers(untouched), answers(document)

    # What is optional is not tried where the programs do not load.
    lost = {name for name, ok in after.items() if ok == "no" and before[name] == "yes"}
    assert lost - {"oom_decision", "cuda_calls"} == missing
    assert (after.get("bare_programs") == "yes") == (what == "type information")
    assert promised(document) == given(tmp_path, prefix)


def test_in_a_pid_namespace_no_more_is_promised_than_a_run_gives(taken_away, tmp_path):
    prefix = taken_away("the pids")
    document = doctor(prefix)

    assert answers(document)["pid_namespace"] == "no"
    assert FROM_WEAK_TO_STRONG.index(promised(document)) <= FROM_WEAK_TO_STRONG.index(given(tmp_path, prefix))


def test_a_missing_bcc_is_told_with_what_to_type(taken_away, does_not_apply):
    if "debian" not in Path("/etc/os-release").read_text():
        does_not_apply("this is no Debian or Ubuntu")
    done = oomtrace("doctor", prefix=taken_away("bcc"))

    assert done.returncode == 1
    assert "apt install python3-bpfcc" in done.stdout.split("Proof")[0]


def test_nobody_is_told_how_to_ask_as_root(can_trace):
    done = oomtrace("doctor", user=NOBODY, group=NOBODY, extra_groups=())

    assert (done.returncode, done.stderr) == (1, "")
    assert '▸ sudo "$(command -v oomtrace)" doctor' in done.stdout
    assert '"sudo oomtrace run" would give:' in " ".join(done.stdout.split())
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


def test_nobody_is_promised_what_a_count_alone_can_tell(can_trace):
    nobody = doctor(user=NOBODY, group=NOBODY, extra_groups=())
    log, count = answers(nobody)["kernel_log"], answers(nobody)["oom_count"]

    assert promised(nobody) == ("likely" if log == "yes" else "possible" if count == "yes" else "not_seen")


def test_for_nobody_root_is_promised_no_more_than_root_is(untouched):
    nobody, root = doctor(user=NOBODY, group=NOBODY, extra_groups=()), untouched
    rank = FROM_WEAK_TO_STRONG.index

    assert answers(nobody)["root"] == "no"
    assert rank(nobody["with_root"]["verdict"]) <= rank(root["here"]["verdict"]) <= rank(nobody["with_root"]["at_best"])


def bpf_descriptors() -> list[str]:
    found = []
    for path in Path("/proc/self/fdinfo").iterdir():
        try:
            text = path.read_text()
        except OSError:  # the descriptor of this very listing
            continue
        found += [line for line in text.splitlines() if line.startswith(("prog_id", "map_id", "link_id"))]
    return sorted(found)


def test_nothing_stays_attached(can_trace):
    before = bpf_descriptors()
    tried = try_programs()

    assert tried.holds
    assert bpf_descriptors() == before


def test_attached_programs_would_be_seen(open_traced):
    before = bpf_descriptors()
    open_traced()

    assert len(bpf_descriptors()) > len(before)
