# SPDX-License-Identifier: Apache-2.0
"""What a job keeps secret, in its environment or on a command line, is in nothing that oomtrace writes."""

import json
import subprocess
import sys

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER
from tracer.events import JobStarted, ProcessSeen
from tracer.masking import MASK

ENVIRON = {
    "HF_TOKEN": "hf_envSecretOfTheHub0123456789",
    "WANDB_API_KEY": "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
    "AWS_SECRET_ACCESS_KEY": "envSecretOfAws/wJalrXUtnFEMI+K7MDENG",
    "AWS_ACCESS_KEY_ID": "AKIAENVSECRET0123456",
    "MY_PASSWORD": "envSecretOfMine-42",
    "UNHEARD_OF": "envSecretOfNoName-43",
    "TORCHELASTIC_RUN_ID": "run-hf_envSecretInAnAllowedName01",
}
ARGUMENTS = {
    "--token": "argSecretBehindAFlag",
    "--api-key=": "argSecretInAFlag",
    "--hub": "https://me:argSecretInAUrl@example.org/x",
    "--header": "Authorization: Bearer argSecretInAHeader",
    "--env=MY_PASSWORD=": "argSecretInAnAssignment",
    "OPENAI_API_KEY=": "argSecretOfAName",
    "--github": "ghp_argSecretOfAShape0123456789",
    "--openai": "sk-argSecretOfAShape0123456789",
    "--aws": "AKIAARGSECRET0123456",
}
WORDS = [
    word for flag, value in ARGUMENTS.items() for word in ([flag + value] if flag.endswith("=") else [flag, value])
]
SECRETS = [
    *ENVIRON.values(), "envSecretInAnAllowedName", "envSecretOfAws",
    *(value for value in ARGUMENTS.values() if " " not in value and "/" not in value),
    "argSecretInAUrl", "argSecretInAHeader", "shSecretExported", "shSecretAssigned",
]  # fmt: skip
# It grows once it has been looked at.
WORKER = """
import os, sys, time
while not os.path.exists('go'): time.sleep(0.02)
hold = []
while True: hold.append(bytes([1]) * (1 << 20))
"""
JOB = """
n=0; export MY_TOKEN=shSecretExported; OTHER_API_KEY='shSecretAssigned' "$0" -S -c "$1" "$@" &
until grep -F '"kind":"ProcessSeen"' run.oomtrace | grep -qF "\\"cmdline\\":[\\"$0\\""; do
  n=$((n + 1)); [ $n -lt 1500 ] || exit 9
  sleep 0.02
done
: > go; wait $!
"""


def test_no_secret_is_in_anything_that_is_written(oomtrace, tmp_path):
    run = oomtrace(
        "sh", "-c", JOB, sys.executable, WORKER, *WORDS,
        options=("--memory-max", "64M", "--swap-max", "0"), more_environ=ENVIRON,
    )  # fmt: skip

    again = [sys.executable, "-m", "tracer", "report", str(run.path)]
    text = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, timeout=60 * SLOWER, check=True).stdout
    assert run.code == 137
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert MASK in " ".join(run.events(JobStarted)[0].argv)
    [worker] = [seen for seen in run.events(ProcessSeen) if seen.tgid == run.primary["victim"]["pid"] and seen.cmdline]
    assert worker.cmdline[worker.cmdline.index("--token") + 1] == MASK
    assert worker.environ == {"TORCHELASTIC_RUN_ID": f"run-{MASK}"}
    for what, content in {
        "the recording": run.path.read_bytes().decode("utf-8", "backslashreplace"),
        "the report": run.out + run.err,
        "the report, again": text,
        "the document": json.dumps(run.verdict, ensure_ascii=False),
    }.items():
        assert [secret for secret in SECRETS if secret in content] == [], what


def test_a_command_that_is_none_is_not_told_with_its_secret(oomtrace):
    process = oomtrace.start("HF_TOKEN=argSecretOfAName", "python", "train.py")
    _, err = process.communicate(timeout=60 * SLOWER)

    assert err == f"oomtrace: HF_TOKEN={MASK}: command not found\ntry: oomtrace run -- env NAME=VALUE COMMAND\n"
