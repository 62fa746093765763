# SPDX-License-Identifier: Apache-2.0
"""Secrets and names that stand in logs: the first are in nothing that is shown, the second in nothing to be shared."""

import string

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.explained import cases, passages_of
from tracer.logs.training import TrainingReader
from tracer.masking import MASK
from tracer.verdict.textual.judge import explain
from tracer.verdict.textual.redact import redacted
from tracer.views import document
from tracer.views.explained import render, render_brief, render_editor

LINES = sorted(
    {line for case in cases() for _, _, raw in case.texts() for line in raw.decode("utf-8", "replace").split("\n")}
)
PART = 10
"""So many characters of a secret are as bad as all of it."""

values = st.text(string.ascii_letters + string.digits, min_size=24, max_size=40).map("q7Z".__add__)
hexes = st.text("0123456789abcdef", min_size=40, max_size=40)
SPELLED = (
    "AWS_SECRET_ACCESS_KEY={}", "HF_TOKEN='{}'", "export WANDB_API_KEY={};", "--api-key {}", "--password={}",
    "password: {}", '"api_key": "{}"', "https://mia:{}@git.example.org/x.git", "https://{}@git.example.org/x.git",
    "postgres://me:{}@db:5432/x", "https://example.org/x?a=1&access_token={}", "Authorization: Bearer {}",
    "curl -s -u me:{} https://example.org", "mysql -u me -p{} db", "hf_{}", "ghp_{}", "sk-{}", "glpat-{}",
    "wandb: api_key={}", "os.environ['OPENAI_API_KEY'] = '{}'", "X-Api-Key: {}", "s3://{}@bucket/x",
)  # fmt: skip
secrets = st.one_of(
    st.tuples(st.sampled_from(SPELLED), values), st.tuples(st.sampled_from(["wandb login {}", "key {}"]), hexes)
)


@st.composite
def planted(draw, what):
    """Some lines of the cases with that in one or more of them, as a word of its own or as a line."""
    lines = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=12))
    # Each line once: a second one could come between a name and its value, which is of nothing then.
    for at in draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=3, unique=True)):
        blanks = [place for place, character in enumerate(lines[at]) if character == " "]
        place = draw(st.sampled_from([0, len(lines[at]), *blanks]))
        lines[at] = f"{lines[at][:place]} {what} {lines[at][place:]}"
    return "\n".join(lines).encode()


def all_forms(verdict) -> str:
    """All that can be shown of it, and the page as it is without the ends of its rows."""
    page = render(verdict, width=100)
    forms = [page, "".join(page.split()), render_brief(verdict), render_editor(verdict)]
    return "\n".join([*forms, document.render_document(verdict)])


def parts(secret: str) -> set[str]:
    return {secret[at : at + PART] for at in range(len(secret) - PART + 1)}


def leaks(secret: str, shown: str) -> list[str]:
    return sorted(part for part in parts(secret) if part in shown)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), secrets, st.sampled_from(["mixed", "kernel", "training"]))
def test_a_secret_in_a_log_is_in_nothing_that_is_shown(data, spelled, kind):
    spelling, secret = spelled
    raw = data.draw(planted(spelling.format(secret)))
    passages, texts = passages_of([("a.log", kind, raw)], lambda raw: [raw])
    verdict = explain(passages, texts)

    assert leaks(secret, all_forms(verdict)) == []
    assert leaks(secret, all_forms(redacted(verdict, passages, texts))) == []


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), secrets)
def test_a_secret_in_a_job_s_output_is_in_no_recording(data, spelled):
    spelling, secret = spelled
    reader = TrainingReader("both")
    lines = reader.feed(data.draw(planted(spelling.format(secret))) + b"\n", 0) + reader.end()

    assert leaks(secret, msgspec.json.encode(lines).decode()) == []


@pytest.mark.parametrize("spelling", SPELLED)
def test_a_secret_is_masked_where_a_line_is_quoted_and_what_the_line_says_is_kept(spelling):
    line = (
        f"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. {spelling.format('q7Z' + 'aB3' * 9)}"
    )
    passages, _ = passages_of([("a.log", "mixed", line.encode())], lambda raw: [raw])
    told = passages[0].event

    assert MASK in told.text
    assert (told.about, told.pids, told.signal) == ("worker_killed", (4711,), 9)


def test_a_token_that_would_be_cut_in_two_is_not_shown_in_part():
    secret = "aB3" * 12
    for before in range(240, 300):
        line = "DataLoader worker (pid 4711) is killed by signal: Killed. ".ljust(before, ".") + " hf_" + secret
        (told,) = passages_of([("a.log", "mixed", line.encode())], lambda raw: [raw])[0]

        assert leaks(secret, told.event.text) == []


ID = "3f2a91b0c1d2" * 5 + "abcd"
PRIVATE = (
    "10.11.12.13", "10.11.12.13:29500", "fe80::1ff:fe23:4567:890a", "2001:db8:85a3::8a2e:370:7334", "02:42:ac:11:00:fe",
    "/home/mia/secret-project/train.py", "/mnt/nfs7/mias-data", "mia@example.org", "https://wandb.example.org/mia/run",
    ID, ID[:12], "7c1e0b5a-1111-2222-3333-444455556666", "/kubepods/pod7c1e0b5a-1111-2222-3333-444455556666/x",
    "ip-10-1-2-3", "pod/trainer-7f9c4-x2x9k", "uid=1007", "user-1007.slice", "job_778899", "container_id=" + ID,
)  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.lists(st.sampled_from(PRIVATE), min_size=1, max_size=3, unique=True))
def test_what_says_where_and_whose_is_in_nothing_that_is_shared(data, private):
    raw = data.draw(planted(" ".join(private)))
    passages, texts = passages_of([("a.log", "mixed", raw)], lambda raw: [raw])
    verdict = explain(passages, texts)
    shared = redacted(verdict, passages, texts)

    assert [word for word in private if word in all_forms(shared)] == []
    assert [(one.cause, one.strength, one.signal, len(one.victims)) for one in shared.incidents] == [
        (one.cause, one.strength, one.signal, len(one.victims)) for one in verdict.incidents
    ]
    assert [link.status for one in shared.incidents for link in one.proof] == [
        link.status for one in verdict.incidents for link in one.proof
    ]


HOSTS = ("gpu-node-17", "trainer-0.svc.example")
SYSLOG = (
    "Nov 30 17:25:58 {} kernel: [ 5400.123103] Memory cgroup out of memory: Killed process 41233 (pt_data_worker) "
    "total-vm:100kB, anon-rss:90kB, file-rss:4kB, shmem-rss:0kB, UID:1001 pgtables:4kB oom_score_adj:0"
)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "line",
    [
        SYSLOG, "srun: error: {}: task 0: Out Of Memory", "2026-11-30T17:25:58.1+00:00 {} kernel: x\n" + SYSLOG,
        SYSLOG
        + "\nNov 30 17:25:58 {} systemd[1]: mias-{}.service: A process of this unit has been killed by the OOM killer.",
        "slurmstepd: error: *** JOB 778899 ON {} CANCELLED AT 2026-11-30T17:25:59 DUE TO TIME LIMIT ***",
        SYSLOG + "\nRuntimeError: DataLoader worker (pid 41233) is killed by signal: Killed. on {}",
    ],
)  # fmt: skip
def test_a_machine_that_a_log_is_of_is_not_named_in_what_is_shared(line, host):
    raw = line.replace("{}", host).encode()
    passages, texts = passages_of([("a.log", "mixed", raw)], lambda raw: [raw])
    shared = all_forms(redacted(explain(passages, texts), passages, texts))

    assert host not in shared
    assert "778899" not in shared


def test_lines_that_other_incidents_rest_on_are_not_quoted_either_in_what_is_shared():
    raw = (
        SYSLOG.format("n1")
        + "\nNov 30 17:26:58 n1 systemd[1]: mias.service: Main process exited, code=killed, status=11/SEGV mias-own"
        + "\nState: pod mias-pod Exit Code: 139 mias-project\n"
    ).encode()
    passages, texts = passages_of([("a.log", "mixed", raw)], lambda raw: [raw])
    verdict = explain(passages, texts)

    assert "mias-own" in all_forms(verdict)
    assert "mias" not in all_forms(redacted(verdict, passages, texts))
