# SPDX-License-Identifier: Apache-2.0
"""What the kernel has, and what trying says; what root could expect where nobody may try."""

import pytest

from tests.unit.doctor.trees import ALL, NOBODY, by_id, places, rights
from tracer.doctor import kernel
from tracer.doctor.kernel import Tried, check, try_programs
from tracer.doctor.model import HookAnswer
from tracer.errors import LoaderFailed, PermissionDenied

GOOD = {
    "/proc/sys/kernel/osrelease": "6.8.0-41-generic\n",
    "/sys/kernel/btf/vmlinux": "x",
    "/sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
}
MARK = HookAnswer(name="raw_tracepoint:mark_victim", attached=True, required=True)
DECISION = HookAnswer(name="fentry:oom_kill_process", attached=True, required=False)
HELD = Tried((MARK, DECISION), 300_000_000)
DENIED = Tried(why_not="cannot load BPF programs", denied=True)


def checked(tmp_path, tried=HELD, mine=None, *, bcc=True, **changed):
    files = {**GOOD, **{f"/{name.replace('__', '/')}": text for name, text in changed.items()}}
    tree = places(tmp_path, {name: text for name, text in files.items() if text is not None})
    return by_id(check(tree, mine or rights(), tried, bcc_with_root=bcc))


def test_a_machine_that_has_all_is_told_so(tmp_path):
    found = checked(tmp_path)

    assert {one.ok for one in found.values()} == {"yes"}
    assert "1 of 1 hooks hold by raw tracepoint" in found["bpf_programs"].found
    assert found["oom_decision"].found == "fentry"


@pytest.mark.parametrize(
    "release, ok",
    [
        ("5.8.0", "yes"),
        ("6.18.44-x", "yes"),
        ("10.0", "yes"),
        ("5.4.0-1", "unknown"),
        ("5.3.18", "no"),
        ("4.18.0-553.el8", "no"),
        ("x", "unknown"),
    ],
)
def test_the_release_is_held_against_the_oldest_that_can_do(tmp_path, release, ok):
    failed = Tried(why_not="no such type of map", stage="compile")

    assert checked(tmp_path, failed, proc__sys__kernel__osrelease=release)["kernel_release"].ok == ok


def test_what_was_tried_counts_for_more_than_the_release(tmp_path):
    assert checked(tmp_path, HELD, proc__sys__kernel__osrelease="4.18.0-553.el8")["kernel_release"].ok == "yes"


def test_an_old_release_where_nothing_may_be_tried_is_not_known(tmp_path):
    found = checked(tmp_path, DENIED, NOBODY, proc__sys__kernel__osrelease="4.18.0-553.el8")

    assert (found["kernel_release"].ok, found["bpf_programs"].with_root) == ("unknown", "unknown")


@pytest.mark.parametrize(
    "text, ok, found",
    [
        ("none [integrity] confidentiality", "yes", "integrity"),
        ("none integrity [confidentiality]", "no", "confidentiality"),
        (None, "yes", "this kernel has none"),
        ("\x1b[2J", "yes", "\x1b[2J"),
    ],
)
def test_only_confidentiality_stands_in_the_way(tmp_path, text, ok, found):
    lockdown = checked(tmp_path, sys__kernel__security__lockdown=text)["lockdown"]

    assert (lockdown.ok, lockdown.found) == (ok, found)


@pytest.mark.parametrize(
    ("transport", "told"),
    [("ring_buffer", ", records come by ring buffer, armed"), ("perf_buffer", ", records come by perf buffer, armed")],
)
def test_how_records_come_is_told_with_the_hooks(tmp_path, transport, told):
    assert told in checked(tmp_path, Tried((MARK,), 1, transport=transport))["bpf_programs"].found


def test_missing_type_information_is_told(tmp_path):
    btf = checked(tmp_path, Tried(why_not="no BTF", stage="btf"), sys__kernel__btf__vmlinux=None)["btf"]

    assert btf.ok == "no"
    assert "CONFIG_DEBUG_INFO_BTF" in btf.remedy


def test_a_hook_that_is_needed_and_refused_is_named(tmp_path):
    refused = HookAnswer(name="raw_tracepoint:mark_victim", attached=False, required=True, why_not="EPERM")
    programs = checked(tmp_path, Tried((refused, DECISION)))["bpf_programs"]

    assert programs.ok == "no"
    assert "raw_tracepoint:mark_victim (EPERM)" in programs.found


def test_the_bare_programs_are_named_where_only_they_load(tmp_path):
    mark = HookAnswer(name="raw_tracepoint:mark_victim/scalars", attached=True, required=True)
    found = checked(tmp_path, Tried(why_not="lockdown=confidentiality", stage="attach", bare=(mark,)))

    assert (found["bpf_programs"].ok, found["bare_programs"].ok) == ("no", "yes")
    assert found["bare_programs"].found == "1 of 1 hooks hold"
    assert "printk_console" not in found


def test_where_they_are_not_needed_or_do_not_load_either_they_are_not_told_of(tmp_path):
    assert "bare_programs" not in checked(tmp_path / "none", Tried(why_not="no bcc", stage="import"))
    assert "bare_programs" not in checked(tmp_path / "whole")
    assert "bare_programs" not in checked(tmp_path / "denied", DENIED)


@pytest.mark.parametrize(("attached", "ok"), [(True, "yes"), (False, "no")])
def test_the_hook_on_printk_is_named(tmp_path, attached, ok):
    console = HookAnswer(name="raw_tracepoint:console", attached=attached, required=False, why_not="not there")
    found = checked(tmp_path, Tried((MARK, DECISION, console), 300_000_000))

    assert (found["printk_console"].ok, found["bpf_programs"].ok) == (ok, "yes")
    assert found["printk_console"].found == ("printk:console" if attached else "not there")


def test_an_optional_hook_that_is_refused_keeps_nothing_from_holding(tmp_path):
    refused = HookAnswer(name="kprobe:oom_kill_process", attached=False, required=False, why_not="no kprobes")
    found = checked(tmp_path, Tried((MARK, refused), 1))

    assert (found["bpf_programs"].ok, found["oom_decision"].ok) == ("yes", "no")
    assert found["oom_decision"].found == "no kprobes"


def test_nobody_is_told_that_root_may_be_allowed(tmp_path):
    programs = checked(tmp_path, DENIED, NOBODY)["bpf_programs"]

    assert (programs.ok, programs.with_root) == ("no", "unknown")
    assert programs.remedy.startswith("sudo ")


def test_root_who_is_refused_is_told_what_a_container_needs(tmp_path):
    programs = checked(tmp_path, DENIED, rights(effective=0))["bpf_programs"]

    assert (programs.ok, programs.with_root) == ("no", "no")
    assert "--cap-add BPF" in programs.remedy


@pytest.mark.parametrize(
    "changed",
    [
        {"sys__kernel__btf__vmlinux": None},
        {"sys__kernel__security__lockdown": "none integrity [confidentiality]"},
        {"bcc": False},
        {"mine": rights(uid=1000, effective=0, bounding=ALL & ~(1 << 39 | 1 << 21))},
        {"mine": rights(uid=1000, effective=0, initial_user_namespace=False)},
        {"mine": rights(uid=1000, effective=0, no_new_privileges=True)},
        {"tried": Tried(why_not="no bcc", stage="import")},
    ],
)
def test_what_root_would_lack_as_well_is_no_hope(tmp_path, changed):
    assert checked(tmp_path, **{"tried": DENIED, "mine": NOBODY, **changed})["bpf_programs"].with_root == "no"


@pytest.mark.parametrize(
    "error, tried",
    [
        (PermissionDenied("no", need="root"), Tried(why_not="no", denied=True)),
        (LoaderFailed("import", "no bcc"), Tried(why_not="no bcc", stage="import")),
        (RuntimeError("out of luck"), Tried(why_not="RuntimeError: out of luck")),
    ],
)
def test_whatever_loading_raises_is_an_answer(monkeypatch, error, tried):
    def fail(**_):
        raise error

    monkeypatch.setattr(kernel, "open_session", fail)

    assert try_programs() == tried
