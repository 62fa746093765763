# SPDX-License-Identifier: Apache-2.0
"""Other tools beside ours: each count is its own, and one that does not run says why in its own words."""

import json
import sys
import time

import pytest

from scripts.guest import plan, results, table
from scripts.guest.inside import peers
from scripts.guest.results import PASS, Counts, Result, Tool, counts, parse_counts
from tests.waiting import SLOWER

LINE = "12:00:00 Triggered by PID 7 (x), OOM kill of PID {}, 24576 pages, loadavg: 1 1 1"
TELLER = f"""
import pathlib, sys, time
print("Attaching 2 probes...", flush=True)
print("Tracing OOM kills... Ctrl-C to stop.", flush=True)
told = pathlib.Path(sys.argv[0]).with_name("killed")
while not told.exists():
    time.sleep(0.01)
for pid in range(int(told.read_text())):
    print({LINE!r}.format(pid))
sys.stdout.flush()
time.sleep(1000)
"""
REFUSES = """
import sys
print("libbpf: map 'x': created\\n\\x1b[1mopen(/sys/kernel/tracing/kprobe_events): No such file or directory\\x1b[0m")
print("ERROR: Error attaching probe")
sys.exit(255)
"""
SAYS = """
import json, pathlib, sys
pathlib.Path(sys.argv[1]).write_text("5")
counters = {"seen": 4, "lost": 1, "kernel": 5}
found = {"cause": "host_oom_cgroup", "strength": "proved"}
print(json.dumps({"outcome": "pass", "reason": None, "counters": counters, "found": found}))
sys.exit(0)
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    def tool(name, program):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\n{program}")
        path.chmod(0o755)
        return name, (str(path),)

    tools = (tool("tells", TELLER), tool("refuses", REFUSES), ("absent", (str(tmp_path / "none"),)))
    monkeypatch.setattr(peers, "TOOLS", tools)
    monkeypatch.setattr(peers, "counted", iter((700, 709)).__next__)  # others were killed as well
    monkeypatch.setattr(peers, "QUIET_S", 0.3 * SLOWER)
    return tmp_path


def test_every_tool_is_waited_for_counted_and_ended(lab):
    command = [sys.executable, "-c", SAYS, str(lab / "killed")]
    status, document = peers.run(command, patience_s=20 * SLOWER)

    assert (status, document["outcome"], document["counted"]) == (0, "pass", 5)
    ours, tells, refuses, absent = document["tools"]
    assert (ours["seen"], ours["lost"], ours["words"]) == (4, 1, "host_oom_cgroup: proved")
    assert (tells["seen"], tells["lost"], tells["words"]) == (5, None, None)
    assert 0 < tells["ready_s"] < 20 * SLOWER
    assert tells["rss_mib"] > 0
    expected = "open(/sys/kernel/tracing/kprobe_events): No such file or directory (exit 255)"
    assert (refuses["seen"], refuses["words"]) == (None, expected)
    assert (absent["seen"], absent["words"]) == (None, "not installed")


def test_of_several_starts_the_shortest_counts_and_the_last_one_stays(lab):
    (lab / "killed").write_text("2")
    tell, refuse, absent = peers.start_tools(20 * SLOWER, starts=3)
    try:
        tell.settle()
    finally:
        tell.stop()

    assert (tell.found.seen, refuse.found.ready_s, absent.found.ready_s) == (2, None, None)
    assert tell.found.ready_s > 0


OURS_STARTS = """
import pathlib, sys
ready, record, *job = sys.argv[1:]
assert not pathlib.Path(record).exists()
pathlib.Path(record).write_text(" ".join(job))
pathlib.Path(ready).write_text("1")
import time; time.sleep(0.2)
"""


def test_starts_of_ours_are_timed_with_a_job_that_does_nothing(tmp_path):
    record = str(tmp_path / "record")
    command = [sys.executable, "-c", OURS_STARTS, peers.READY_FILE, record, "--", "storm", "500"]
    times = peers.start_ours(command, record, 2)

    assert len(times) == 2
    assert all(0 < each < 20 * SLOWER for each in times)
    assert not (tmp_path / "record").exists()
    assert peers.start_ours([sys.executable, "-c", "pass"], record, 2) == []


def test_a_tool_that_never_is_ready_is_given_up(lab, monkeypatch):
    path = lab / "tells"
    path.write_text(f"#!{sys.executable}\nimport time\nprint('compiling', flush=True)\ntime.sleep(1000)")
    monkeypatch.setattr(peers, "TOOLS", (("slow", (str(path),)),))
    began_s = time.monotonic()
    [tool] = peers.start_tools(patience_s=0.5)

    assert tool.found.seen is None
    assert tool.found.words is not None
    assert time.monotonic() - began_s < 30 * SLOWER


def test_a_command_without_a_document_counts_nothing(lab):
    (lab / "killed").write_text("0")
    status, document = peers.run([sys.executable, "-c", "print('no'); raise SystemExit(3)"], patience_s=20 * SLOWER)

    assert (status, document["outcome"]) == (3, "fail")
    assert document["tools"][0]["seen"] is None


def test_the_bench_is_run_only_when_it_is_named():
    known = [*plan.CHECKS, *plan.ASIDE]

    assert [each.name for each in plan.choose(known, [])] == ["selftest", "doctor"]
    assert [each.name for each in plan.choose(known, ["bench"])] == ["bench"]


def test_a_scenario_is_wrapped_once_and_has_more_time():
    scenario = plan.Scenario("storm-500", ("-m", "tracer", "repro", "storm-500"), seconds=300)
    wrapped = plan.beside_peers(scenario)

    assert wrapped.command == (plan.PEERS, "--", *scenario.command)
    assert wrapped.seconds > scenario.seconds
    assert plan.beside_peers(wrapped) == wrapped


OURS = Tool("oomtrace", 2.0, 20.0, 499, 1, "host_oom_cgroup: proved")
OTHER = Tool("bpftrace oomkill.bt", 19.0, 80.0, 13)
FAILED = Tool("bcc oomkill", words="Unable | to find `headers`")
FOUND = Counts(500, (OURS, OTHER, FAILED))


def result(found):
    return Result("storm-500", "6.12", "v2", PASS, None, 9.0, "6.12.1", "0.31", found)


def test_the_table_has_every_count_and_ratios_to_ours():
    rows = table.counts(result(FOUND)).splitlines()

    assert rows[0] == "Linux 6.12.1, storm-500: the kernel counted 500 kills"
    assert rows[4] == "| oomtrace | 499, 1 lost (host\\_oom\\_cgroup: proved) | 2.0 s | 20.0 MiB |"
    assert rows[5] == "| bpftrace oomkill.bt | 13 | 19.0 s (9.50 x) | 80.0 MiB (4.00 x) |"
    assert rows[6] == "| bcc oomkill | Unable \\| to find \\`headers\\` | | |"


def test_what_a_scenario_says_of_kills_stands_in_its_line():
    assert table.kills_in_words(result(FOUND)) == ", kills: 499 seen, 1 lost, 500 by the kernel"
    assert table.kills_in_words(result(None)) == ""
    assert table.kills_in_words(result(Counts(0, (Tool("oomtrace", seen=0, lost=0),)))) == ""


def test_counts_are_read_from_a_scenarios_result_and_from_that_with_peers(tmp_path):
    (tmp_path / "stdout").write_text(json.dumps({"counters": {"seen": 2, "lost": 0, "kernel": None}}))
    assert counts(tmp_path) == Counts(None, (Tool("oomtrace", seen=2, lost=0),))

    document = {"schema": "oomtrace.peers/1", "counted": 5, "tools": [{"tool": "t", "seen": 5}]}
    (tmp_path / "stdout").write_text(json.dumps(document))
    assert counts(tmp_path) == Counts(5, (Tool("t", seen=5),))

    (tmp_path / "stdout").write_text("{}")
    assert counts(tmp_path) is None


@pytest.mark.parametrize(
    "content", [None, [], {}, {"tools": 7}, {"tools": [7, "x", None]}, {"tools": [{"seen": "many", "lost": True}]}]
)
def test_what_a_guest_says_of_counts_is_not_believed(content):
    found = parse_counts(content)

    assert found is None or all(tool.seen is None and tool.lost is None for tool in found.tools)
    assert found is None or table.counts(result(found))


def test_kept_results_keep_their_counts(tmp_path):
    store = results.Store(tmp_path)
    store.keep(result(FOUND))

    assert store.settled("6.12", "v2", "storm-500") == result(FOUND)
