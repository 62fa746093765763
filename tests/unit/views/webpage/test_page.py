# SPDX-License-Identifier: Apache-2.0
"""The page is valid, complete, closed against everything outside, and bounded."""

import base64
import hashlib
import re

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.views.webpage.pages import (
    by_hand,
    clean,
    cut_off,
    killed,
    many_processes,
    parsed,
    real,
    rendered,
    text_of,
)

REAL = dict(real())
SVG = "{http://www.w3.org/2000/svg}"
SECTIONS = [
    "happened", "proof", "memory", "timeline", "family", "why", "remedies", "caveats", "kernel", "recording",
]  # fmt: skip
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'/><style>*{display:none}</style>",
    "</style></title><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#x202e;&amp;",
    "a\x00b\x1b[31m\x07\x7f\x9b",
    "abc\u202egnp.exe\u2066",
    "line\nbreak\rand\ttab\u2028\u2029",
    "שלום עולם 123",
    "z\u0300\u0301\u0302\u0303\u0304\u0305",
    "\udc80\ud800\ufffe\U0010ffff",
    "x" * 20_000,
    "https://example.org/?a=b&c=d javascript:alert(1)",
)


@pytest.mark.parametrize("name", REAL)
def test_the_page_of_every_real_recording_is_valid_and_its_ids_are_unique(name):
    tree = parsed(rendered(REAL[name]()))
    ids = [element.get("id") for element in tree.iter() if element.get("id")]

    assert len(ids) == len(set(ids))
    for element in tree.iter():
        for named in (element.get("aria-labelledby") or "").split():
            assert named in ids


def test_sections_stand_in_the_order_in_which_a_stranger_asks():
    tree = parsed(rendered(REAL["worker_cache-killed"]()))

    assert [element.get("aria-labelledby") for element in tree.iter("section")] == SECTIONS


def test_the_first_words_are_what_happened_and_how_sure_that_is():
    tree = parsed(rendered(killed()))
    header = text_of(tree.find(".//header"))

    assert "Killed by the kernel: host RAM ran out at a cgroup limit" in header
    assert "proved" in header
    assert "host_oom_cgroup" in header


def test_each_link_has_its_state_in_words_and_as_a_shape_and_opens_its_evidence():
    tree = parsed(rendered(killed()))
    links = tree.findall(".//ol[@class='proof']/li")

    assert len(links) == 5
    for link in links[:4]:
        assert "present" in text_of(link)
        assert link.find(".//span[@class='sign']").text == "✓"
        assert "of the recording" in text_of(link.find(".//details"))
    assert "not observed" in text_of(links[4])
    assert links[4].find(".//span[@class='sign']").text == "?"


def test_the_chart_says_in_words_what_it_shows():
    tree = parsed(rendered(killed()))
    plot = tree.find(f".//{SVG}svg[@class='plot wide']")

    assert "Memory of cgroup /run-7f3" in plot.find(f"{SVG}title").text
    assert "The limit is 512 MiB." in plot.find(f"{SVG}desc").text
    assert any("together" in text_of(head) for head in tree.iter("th"))


def test_who_was_killed_and_who_grew_is_said_in_the_table_of_processes():
    tree = parsed(rendered(killed()))
    rows = [text_of(row) for row in tree.find(".//table[@class='family']").iter("tr")]

    assert any("victim" in row and "killed by the kernel" in row for row in rows)
    assert any("rank 0" in row and "collateral" in row for row in rows)


@pytest.mark.parametrize(
    "events, told",
    [(clean, "nothing was killed"), (cut_off, "not known"), (by_hand, "slurmstepd")],
    ids=["clean", "cut off", "by hand"],
)
def test_what_is_no_oom_kill_has_a_page_as_well(events, told):
    page = rendered(events())

    assert told in text_of(parsed(page))


def test_the_policy_allows_this_style_sheet_and_nothing_else():
    page = rendered(killed())
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = parsed(page).find(".//meta[@http-equiv='Content-Security-Policy']").get("content")

    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def assert_closed(page: str) -> None:
    tree = parsed(page)
    for element in tree.iter():
        if not isinstance(element.tag, str):
            continue
        assert element.tag.rpartition("}")[2] not in {
            "script",
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "form",
            "base",
            "use",
            "image",
        }
        for name, value in element.attrib.items():
            assert not str(name).lower().startswith("on")
            assert str(name).rpartition("}")[2] not in {
                "style",
                "src",
                "srcset",
                "action",
                "data",
                "formaction",
                "ping",
                "poster",
            }
            assert name != "href" or value.startswith("#")
            assert "url(" not in value
    assert len(tree.findall(".//style")) == 1
    assert "url(" not in tree.find(".//style").text
    assert "@import" not in tree.find(".//style").text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_and_lines_are_text_and_nothing_else(text):
    page = rendered(killed(comm=text, line=text))

    assert_closed(page)
    assert "alert(1)" not in re.sub(r">[^<]*<", "><", page)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066\u2067\u2028\u2029]", page)
    assert page.encode()
    assert len(page) < 400_000


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=80), st.text(max_size=400))
def test_whatever_a_name_or_a_line_is_the_page_stays_closed(comm, line):
    page = rendered(killed(comm=comm, line=line))

    assert_closed(page)
    page.encode()


def test_addresses_in_texts_are_no_links():
    page = rendered(killed(line="see https://example.org/x"))

    assert "see https://example.org/x" in text_of(parsed(page))
    assert not parsed(page).findall(".//a")


def test_of_a_thousand_processes_and_a_hundred_kills_the_page_says_what_it_leaves_out():
    page = rendered(many_processes(1000))
    told = text_of(parsed(page))

    assert len(page.encode()) < 1_500_000
    assert "of no part in this, are left out" in told
    assert "more below it" in told


def test_the_same_recording_gives_the_same_page():
    assert rendered(killed()) == rendered(list(reversed(killed())))
