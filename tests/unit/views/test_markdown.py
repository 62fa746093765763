# SPDX-License-Identifier: Apache-2.0
"""The report as Markdown: as a tracker renders it, it is what we meant, whatever names are in it."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, strategies as st
from markdown_it import MarkdownIt

from tests.strategies_model import HOSTILE, hostile_text
from tests.unit.verdict.scenes import primary, worker_killed
from tests.unit.views.samples import SAMPLES
from tracer.verdict.dossier.model import KernelLine
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Remedy, Report, Verdict
from tracer.views import markdown

DATA = Path(__file__).parents[2] / "data" / "views"
GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
BLOCKS = {
    "heading", "paragraph", "bullet_list", "ordered_list", "list_item", "table", "thead", "tbody", "tr", "th", "td",
    "fence", "inline",
}  # fmt: skip
INLINE = {"text", "code_inline", "strong_open", "strong_close", "em_open", "em_close"}
OUTSIDE = {
    "comm", "cgroup", "statement", "headline", "summary", "why", "who", "how", "do", "costs", "verify", "text", "what",
    "growth", "name", "parent_comm", "program", "exe", "role_known_by", "service", "at", "known_by",
}  # fmt: skip
LINKED = re.compile(r"@|#\d|://|www\.|(?<![\w.])[0-9a-f]{7,40}(?![\w.])|\bGH-\d|<|\$")
TRICKS = (
    *HOSTILE,
    "@torvalds", "a@b", "#1", "GH-1", "o/r#1", "http://e.example/", "www.e.example", "[a](http://e)", "![a](http://e)",
    "<script>alert(1)</script>", "<!--", "</details>", "`", "```", "``` \n# x", "~~~", "|", "| a | b |", "\\", "\\|",
    "*a*", "_a_", "**a**", "~~a~~", "$x$", "&lt;b&gt;", "&#64;me", "- x", "1. x", "# x", "> x", "---", "===", "    x",
    "deadbeefdeadbeefdeadbeefdeadbeefdeadbeef", "[x]: http://e", "[^1]: x", "a\\", "`a|b`", "((((", "))))",
)  # fmt: skip


def blocks(text: str) -> list[str]:
    return [token.type for token in GITHUB.parse(text)]


def texts(text: str) -> list[tuple[str, str]]:
    """What is shown outside of fences: kind and content."""
    return [(child.type, child.content) for token in GITHUB.parse(text) for child in token.children or ()]


def lines(*said: str) -> tuple[KernelLine, ...]:
    return tuple(KernelLine(seq=1, at_ns=1, stamp_usec=1_000_001, text=text, trusted=True) for text in said)


def filled(value, text: str):
    """The same with this text in place of all that comes from outside."""
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return type(value)(**{
            name: text if name in OUTSIDE and isinstance(field, str) else filled(field, text)
            for name, field in fields.items()
        })  # fmt: skip
    return tuple(filled(item, text) for item in value) if isinstance(value, tuple) else value


def is_meant(text: str) -> None:
    kinds = {kind.removesuffix("_open").removesuffix("_close") for kind in blocks(text)}
    assert kinds <= BLOCKS
    assert {kind for kind, _ in texts(text)} <= INLINE
    assert [content for kind, content in texts(text) if kind == "text" and LINKED.search(content)] == []


def test_the_whole_text_is_as_it_should_be():
    judged = judge(worker_killed())
    kernel = lines("Memory cgroup out of memory: Killed process 41233 (pt_data_worker)")

    assert markdown.render(judged, kernel) == (DATA / "worker_killed.md").read_text()


@pytest.mark.parametrize("name", SAMPLES)
def test_each_sample_renders_as_what_it_is_meant_to_be(name):
    text = markdown.render(SAMPLES[name])

    is_meant(text)
    assert blocks(text)[0] == "heading_open"


@given(hostile_text | st.sampled_from(TRICKS))
@example("\n".join(TRICKS))
@example(" ".join(TRICKS))
def test_no_text_however_hostile_is_more_than_text(text):
    for name in ("worker_killed", "group_kill", "sigkill_self"):
        is_meant(markdown.render(filled(SAMPLES[name], text), lines(text)))


@pytest.mark.parametrize("trick", TRICKS, ids=map(str, range(len(TRICKS))))
def test_a_name_changes_nothing_but_itself(trick):
    def with_name(name: str) -> str:
        judged = judge(worker_killed())
        incident = primary(judged)
        victim = msgspec.structs.replace(incident.victim, comm=name, cgroup=name)
        link = msgspec.structs.replace(incident.proof[0], statement=f"it was {name} here")
        changed = msgspec.structs.replace(
            incident, summary=f"It was {name}.", victims=(victim,), proof=(link, *incident.proof[1:])
        )
        verdict = msgspec.structs.replace(judged.verdict, incidents=(changed,), primary=0, caveats=(name, "x"))
        return markdown.render(msgspec.structs.replace(judged, verdict=verdict), lines(name, "x"))

    known = blocks(with_name("python3"))
    assert blocks(with_name(trick)) == known or not trick.strip()


@pytest.mark.parametrize("run", range(1, 9))
def test_a_fence_is_longer_than_any_within_it(run):
    text = markdown.render(SAMPLES["worker_killed"], lines("`" * run, "after"))

    [fence] = [token for token in GITHUB.parse(text) if token.type == "fence"]
    assert fence.content.splitlines()[-1].endswith("after")


def test_what_anyone_may_have_written_is_marked():
    forged = KernelLine(seq=1, at_ns=1, stamp_usec=None, text="Killed process 1", trusted=False)
    text = markdown.render(SAMPLES["worker_killed"], (forged,))

    assert "? Killed process 1" in text
    assert "may be anyone's" in text


def test_it_fits_into_an_issue_whatever_there_is_to_say():
    judged = judge(worker_killed())
    caveats = tuple(f"caveat {number} {'x ' * 500}" for number in range(300))
    verdict = msgspec.structs.replace(judged.verdict, caveats=caveats)
    text = markdown.render(msgspec.structs.replace(judged, verdict=verdict), lines(*["y" * 1000] * 200))

    assert len(text) < 65_536
    assert text.startswith("## Killed by the kernel")
    assert "left out" in text


@pytest.mark.parametrize(
    "said, shown",
    [
        ("cgroup /a_b reached 512 MiB.", "cgroup `/a_b` reached 512 MiB."),
        ("rank 0 > worker 2", "rank 0 \\> worker 2"),
        ("(worker_cache, likely)", "(`worker_cache`, likely)"),
        ("use f(x=1), then", "use `f(x=1)`, then"),
        ("15 MiB/s at 12:30:01.5", "15 MiB/s at 12:30:01.5"),
        ("1. not a list", "1\\. not a list"),
        ("1234567 events", "`1234567` events"),
    ],
)
def test_words_of_a_sentence_stay_words(said, shown):
    assert markdown.prose(said) == shown


@pytest.mark.parametrize("same", [True, False])
def test_a_command_is_one_piece_that_can_be_copied_and_is_told_once(same):
    typed = "sudo oomtrace run --until epochs=1 -- python train.py; oomtrace compare a b"
    remedies = (Remedy(do="Do this.", verify=typed), Remedy(do="Or that.", verify=typed if same else "true"))
    incident = Incident(cause="exited", strength="likely", headline="x", remedies=remedies)
    page = markdown.render(Report(verdict=Verdict(primary=0, incidents=(incident,)), timeline=()))

    assert [content for kind, content in texts(page) if kind == "code_inline"].count(typed) == 1
    assert page.count(typed) == 1
