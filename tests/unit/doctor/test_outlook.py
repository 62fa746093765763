# SPDX-License-Identifier: Apache-2.0
"""What a verdict would be is asked of the rules themselves: never more than they would say."""

import itertools
from dataclasses import astuple, fields, replace

import msgspec
import pytest

from tracer.doctor.model import Capability
from tracer.doctor.outlook import outlook
from tracer.doctor.specimen import Seen, recording
from tracer.verdict.judge import judge

NEEDED = (
    "bpf_programs",
    "kernel_symbols",
    "oom_decision",
    "kernel_log",
    "oom_count",
    "pid_namespace",
    "time_namespace",
    "group_kill",
)
ALL_SEEN = Seen(*[True] * len(fields(Seen)))
STRONG = ["not_seen", "possible", "likely", "proved"]


def answers(**changed):
    """All yes, unless said otherwise; a pair is the answer and that for root."""
    pairs = dict.fromkeys((*NEEDED, "own_oom_score"), "yes") | changed
    return [
        Capability(id=name, name=name, found="", meaning="", ok=ok if isinstance(ok, str) else ok[0],
                   with_root=None if isinstance(ok, str) else ok[1])
        for name, ok in pairs.items()
    ]  # fmt: skip


def replace_found(one, found):
    return msgspec.structs.replace(one, found=found)


def expected(**changed):
    found = outlook(answers(**changed), root=True, asker_is_root=True)
    return {kill.kill: kill.verdict for kill in found.kills}


@pytest.mark.parametrize(
    "missing, cgroup, machine",
    [
        ((), "proved", "proved"),
        (("oom_decision",), "proved", "proved"),
        (("kernel_log",), "proved", "proved"),
        (("oom_decision", "kernel_log"), "proved", "likely"),
        (("kernel_symbols",), "proved", "proved"),
        (("kernel_symbols", "kernel_log"), "likely", "likely"),
        (("bpf_programs", "oom_decision"), "likely", "likely"),
        (("bpf_programs", "oom_decision", "kernel_log"), "possible", "possible"),
        (("bpf_programs", "oom_decision", "kernel_log", "oom_count"), "not_seen", "not_seen"),
        (("group_kill", "own_oom_score"), "likely", "likely"),
        (("own_oom_score",), "proved", "proved"),
        (("time_namespace",), "proved", "proved"),
    ],
)
def test_each_missing_thing_costs_what_the_rules_say(missing, cgroup, machine):
    assert expected(**dict.fromkeys(missing, "no")) == {"cgroup_limit": cgroup, "machine": machine}


@pytest.mark.parametrize("missing", [(), ("kernel_log",), ("kernel_log", "oom_count"), ("kernel_symbols",)])
def test_the_bare_programs_make_it_likely_and_no_more(missing):
    changed = dict.fromkeys(("bpf_programs", "oom_decision", *missing), "no")
    found = outlook(answers(**changed, bare_programs="yes"), root=True, asker_is_root=True)

    assert (found.verdict, found.at_best) == ("likely", "likely")
    assert all(kill.links[0].rung == "bpf_scalars" for kill in found.kills)


def test_the_bare_programs_promise_nothing_in_a_pid_namespace_of_our_own():
    changed = dict.fromkeys(("bpf_programs", "oom_decision", "kernel_log", "oom_count", "pid_namespace"), "no")

    assert set(expected(**changed, bare_programs="yes").values()) == {"not_seen"}


def test_what_the_kernel_prints_tells_of_the_whole_machine_where_nothing_else_does():
    changed = {"oom_decision": "no", "kernel_log": "no", "printk_console": "yes"}
    found = outlook(answers(**changed), root=True, asker_is_root=True)

    assert {kill.kill: kill.verdict for kill in found.kills} == {"cgroup_limit": "proved", "machine": "proved"}
    assert found.kills[1].links[1].rung == "printk_console"
    assert set(expected(**changed, kernel_symbols="no").values()) == {"likely"}


@pytest.mark.parametrize("kind", ["fentry", "kprobe"])
def test_the_hook_of_the_function_is_named_as_it_was_found(kind):
    mixed = [one if one.id != "oom_decision" else replace_found(one, kind) for one in answers()]
    found = outlook(mixed, root=True, asker_is_root=True)

    assert [kill.links[1].via for kill in found.kills] == [(f"{kind}:oom_kill_process",)] * 2


def test_a_kernel_that_is_none_is_promised_nothing_even_for_root():
    sandbox = answers(bpf_programs=("no", "unknown"), kernel_log="no")
    other = Capability(id="other_kernel", name="gVisor", ok="no", found="", meaning="")

    assert outlook(sandbox, root=True, asker_is_root=False).at_best == "proved"
    assert outlook([*sandbox, other], root=True, asker_is_root=False).at_best == "not_seen"


@pytest.mark.parametrize("namespace", ["pid_namespace", "time_namespace"])
def test_a_namespace_of_our_own_costs_nothing_where_the_programs_tell_both_sides(namespace):
    assert expected(**{namespace: "no"}) == expected()


def test_in_a_pid_namespace_of_our_own_the_log_alone_promises_nothing():
    assert set(expected(pid_namespace="no", bpf_programs="no", oom_count="no").values()) == {"not_seen"}
    assert set(expected(pid_namespace="no", bpf_programs="no").values()) == {"possible"}
    assert set(expected(bpf_programs="no").values()) != {"not_seen"}

    found = outlook(answers(pid_namespace="no", bpf_programs="no"), root=True, asker_is_root=True)
    assert all("other pids" in kill.links[0].why for kill in found.kills)


def test_the_weakest_kind_of_kill_is_the_whole_answer():
    found = outlook(answers(oom_decision="no", kernel_log="no"), root=True, asker_is_root=True)

    assert (found.verdict, found.at_best) == ("likely", "likely")


def test_what_is_not_known_spans_from_the_worst_to_the_best():
    little = answers(bpf_programs="unknown", kernel_log="no", oom_decision="no", oom_count="no")
    found = outlook(little, root=True, asker_is_root=True)
    kills = {kill.kill: (kill.verdict, kill.at_best) for kill in found.kills}

    assert kills == {"cgroup_limit": ("not_seen", "proved"), "machine": ("not_seen", "likely")}


def test_for_root_the_answers_for_root_count():
    mixed = answers(bpf_programs=("no", "unknown"), kernel_symbols=("no", "yes"))
    here, with_root = (outlook(mixed, root=root, asker_is_root=False) for root in (False, True))

    assert (here.verdict, here.at_best) == ("likely", "likely")
    assert (with_root.verdict, with_root.at_best) == ("likely", "proved")


def test_an_answer_that_was_never_given_is_not_known():
    found = outlook([], root=True, asker_is_root=True)

    assert (found.verdict, found.at_best) == ("not_seen", "proved")


def test_the_links_are_those_of_the_rules():
    found = outlook(answers(kernel_symbols="no", kernel_log="no"), root=True, asker_is_root=True)

    for kill in found.kills:
        assert [link.status for link in kill.links] == ["not_observed", "present", "present", "present", "present"]
        assert all(link.why for link in kill.links)


def test_without_programs_nothing_is_expected_to_be_said_of_cuda():
    found = outlook(answers(bpf_programs="no"), root=True, asker_is_root=True)

    assert {("not_observed", "who calls CUDA is not known")} == {
        (link.status, link.why.rpartition(", ")[2]) for kill in found.kills for link in kill.links[4:]
    }


@pytest.mark.parametrize("kill", ["cgroup_limit", "machine"])
def test_seeing_less_never_makes_a_verdict_stronger(kill):
    def strength(seen):
        first = [i for i in judge(recording(kill, seen)).verdict.incidents if i.cause.startswith("host_oom")]
        return STRONG.index(first[0].strength) if first else 0

    for flags in itertools.product((False, True), repeat=len(fields(Seen))):
        seen = Seen(*flags)
        for field in fields(Seen):
            # With other clocks or pids the programs speak of strangers, and while they do nothing else is listened to.
            strangers = not (seen.same_clocks and seen.same_pids)
            if getattr(seen, field.name) and not (strangers and field.name == "programs"):
                assert strength(replace(seen, **{field.name: False})) <= strength(seen), (astuple(seen), field.name)


@pytest.mark.parametrize("kill, cause", [("cgroup_limit", "host_oom_cgroup"), ("machine", "host_oom_global")])
def test_the_specimen_is_a_kill_of_its_kind_with_no_caveat(kill, cause):
    verdict = judge(recording(kill, ALL_SEEN)).verdict

    assert [incident.cause for incident in verdict.incidents] == [cause]
    assert verdict.caveats == verdict.incidents[0].caveats == ()
