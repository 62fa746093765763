# SPDX-License-Identifier: Apache-2.0
"""What is known of running processes that end in the moment that `oomtrace attach` is ready."""

import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tracer.attribution.tree import Tree
from tracer.events import ProcessSample, ProcessSeen
from tracer.recording import read_recording
from tracer.verdict.story import Story

NO_BPF = str(ROOT / "tests" / "kernel" / "no_bpf.py")
GONE_WHEN_READY = """
import os, sys, time
for _ in range(8):
    if os.fork() == 0:
        break
else:
    print("all", flush=True)
while not (os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1])):
    time.sleep(0.001)
os._exit(7)
"""


@pytest.mark.parametrize("under", [(), (sys.executable, NO_BPF)], ids=["bpf", "no-bpf"])
def test_of_those_who_end_in_the_moment_that_it_is_ready_it_is_known_what_they_were(attach, under):
    job = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", GONE_WHEN_READY, attach.ready],
        env={"RANK": "3"}, text=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    with job:
        assert job.stdout.readline() == "all\n"
        run = attach.finish(attach.start("--pid", job.pid, under=under))

    seen = [event for event in run.events(ProcessSeen) if event.cmdline is not None]
    assert {event.tgid for event in seen} == {
        identity.tgid for identity in Tree.of(Story(read_recording(run.path)).events).members
    }
    assert len(seen) == 9
    assert {event.environ["RANK"] for event in seen} == {"3"}
    assert {event.tgid for event in run.events(ProcessSample)} >= {event.tgid for event in seen}
    assert run.verdict["job"]["argv"][-1] == str(attach.ready)
    if not under:
        assert run.verdict["job"]["status"] == "exit 7"
