# SPDX-License-Identifier: Apache-2.0
"""The page as a browser shows it: on three screens, dark, printed, for a screen reader, and against an attacker."""

import json

import pytest

from tests.unit.views.webpage.pages import clean, cut_off, killed, many_processes, real, rendered

pytestmark = pytest.mark.timeout(400)  # a browser on a busy machine

REAL = dict(real())
PAGES = {
    "killed": killed,
    "clean": clean,
    "cut-off": cut_off,
    "many": lambda: many_processes(300),
    "hostile": lambda: killed(comm="<b onload=x>\u202e\x00" + "W" * 3000, line="</pre><script>1</script>" + "x" * 3000),
    **{name: REAL[name] for name in ("worker_cache-killed", "6.12-storm-50", "6.12-hostile-names", "6.12-lockdown")},
}
SCREENS = [(360, False), (800, True), (1400, False)]
OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true })"
RUN_AXE = """axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(
    found.violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 160))])))"""
OVERFLOWING = """[...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll, .hidden')
    && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(one => one.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("name", PAGES)
def test_nothing_runs_over_the_edge_and_the_browser_has_nothing_to_say(browser, page, name):
    path = page(name, rendered(PAGES[name]()))
    for width, dark in SCREENS:
        browser.look(path, width=width, dark=dark)
        browser.ask(OPEN_ALL)

        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(OVERFLOWING) == []
        assert browser.said == []


@pytest.mark.parametrize("name", ["killed", "clean", "hostile", "worker_cache-killed", "6.12-lockdown"])
def test_axe_finds_nothing(browser, axe, page, name):
    path = page(name, rendered(PAGES[name]()))
    for width, dark in ((360, True), (1400, False)):
        browser.look(path, width=width, dark=dark)
        browser.ask(OPEN_ALL)
        browser.ask(axe)

        assert json.loads(browser.ask(RUN_AXE)) == []


def test_axe_would_find_something(browser, axe, page):
    broken = rendered(killed()).replace('<html lang="en">', "<html>").replace("--soft: #545b64", "--soft: #aab")
    # Without its policy: the style sheet is another one now.
    browser.look(page("broken", broken.replace('http-equiv="Content-Security-Policy"', 'name="policy"')))
    browser.ask(axe)

    assert {"html-has-lang", "color-contrast"} <= {name for name, _ in json.loads(browser.ask(RUN_AXE))}


def test_what_somebody_put_into_the_file_does_not_run(browser, page):
    evil = (
        "<script>document.title = 'mine'</script><img src=x onerror=\"document.title = 'mine'\">"
        "<style>body { display: none }</style><p style='color: red' id=p>x</p>"
        "<iframe src='https://example.org/'></iframe></body>"
    )
    browser.look(page("evil", rendered(killed()).replace("</body>", evil)))

    assert "oomtrace" in browser.ask("document.title")
    assert browser.ask("getComputedStyle(document.body).display") == "block"
    assert browser.ask("getComputedStyle(document.getElementById('p')).color") != "rgb(255, 0, 0)"
    assert any("Content Security Policy" in text for text in browser.said)
    assert not any(text.startswith("requested https") for text in browser.said)


def test_on_paper_all_evidence_is_there_and_the_ink_is_dark(browser, page):
    browser.look(page("printed", rendered(killed())), printed=True, dark=True)

    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert browser.ask("document.querySelector('.proof details .exhibit').getBoundingClientRect().height") > 20
    assert browser.pdf().startswith(b"%PDF-")


def test_on_a_small_screen_the_chart_is_drawn_for_it(browser, page):
    path = page("small", rendered(killed()))
    drawn = "[...document.querySelectorAll('svg.plot')].filter(one => one.getClientRects().length)"
    shown = f"{drawn}.map(one => one.classList[1])"
    browser.look(path, width=360)
    narrow = browser.ask(shown)
    browser.look(path, width=1400)

    assert set(narrow) == {"narrow"}
    assert set(browser.ask(shown)) == {"wide"}
