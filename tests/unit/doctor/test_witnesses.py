# SPDX-License-Identifier: Apache-2.0
"""Names of kernel functions and the kernel's log: each is read, and not guessed from a setting."""

import pytest

from tests.unit.doctor.trees import ALL, NOBODY, by_id, places, rights
from tracer.doctor import witnesses
from tracer.doctor.witnesses import check

NAMED = "ffffffff81000000 T _text\nffffffff81300000 t __oom_kill_process\nffffffff81300100 T oom_kill_process\n"
HIDDEN = "0000000000000000 T _text\n0000000000000000 t __oom_kill_process\n"
NO_SYSLOG = ALL & ~(1 << 34)


def symbols(tmp_path, text, mine=None, restrict="1"):
    files = {"/proc/kallsyms": text, "/proc/sys/kernel/kptr_restrict": restrict}
    tree = places(tmp_path, {name: body for name, body in files.items() if body is not None})
    return by_id(check(tree, mine or rights()))["kernel_symbols"]


@pytest.mark.parametrize(
    "text, ok",
    [
        (NAMED, "yes"),
        (NAMED.replace("__oom_kill_process", "__oom_kill_process.constprop.0"), "yes"),
        (HIDDEN, "no"),
        (NAMED.replace("__oom_kill_process", "__oom_kill_processes"), "no"),
        (NAMED.replace("t __oom_kill_process", "d __oom_kill_process"), "no"),
        ("", "no"),
        (None, "no"),
        ("x" * 3_000_000, "no"),
    ],
)
def test_names_count_where_the_kill_path_has_its_address(tmp_path, text, ok):
    assert symbols(tmp_path, text).ok == ok


def test_the_kill_path_is_found_wherever_it_lies(tmp_path, monkeypatch):
    for block_bytes in range(1, len(NAMED) + 2):
        monkeypatch.setattr(witnesses, "_BLOCK_BYTES", block_bytes)
        assert witnesses._kill_path_at(_file(tmp_path, NAMED)) == 0xFFFFFFFF81300000


def _file(folder, text):
    (folder / "kallsyms").write_text(text)
    return str(folder / "kallsyms")


def test_hidden_names_are_told_with_the_setting(tmp_path):
    found = symbols(tmp_path, HIDDEN, NOBODY)

    assert "kernel.kptr_restrict is 1" in found.found
    assert (found.with_root, found.remedy) == ("yes", 'sudo "$(command -v oomtrace)" doctor')


def test_where_the_setting_hides_nothing_it_is_not_blamed(tmp_path):
    assert symbols(tmp_path, HIDDEN, NOBODY, restrict="0").found == "addresses are hidden without CAP_SYSLOG"


def test_what_is_hidden_from_root_too_is_told_with_the_sysctl(tmp_path):
    found = symbols(tmp_path, HIDDEN, NOBODY, restrict="2")

    assert (found.with_root, found.remedy) == ("no", "sudo sysctl kernel.kptr_restrict=1")


def test_root_without_cap_syslog_sees_no_names(tmp_path):
    assert symbols(tmp_path, HIDDEN, rights(uid=1000, effective=0, bounding=NO_SYSLOG)).with_root == "no"


@pytest.mark.parametrize("content", [None, "", "not a log\n"])
def test_what_is_no_kernel_log_is_told(tmp_path, content):
    tree = places(tmp_path, {} if content is None else {"/dev/kmsg": content})
    found = by_id(check(tree, rights()))["kernel_log"]

    assert (found.ok, found.with_root) == ("no", "no")
    assert "container" in found.remedy


def test_a_record_of_a_log_is_one(tmp_path):
    tree = places(tmp_path, {"/dev/kmsg": "6,1,1,-;hello\n"})

    assert by_id(check(tree, rights()))["kernel_log"].ok == "no"  # it is no device: at its end nothing can be read


def test_tracefs_is_not_needed(tmp_path):
    found = by_id(check(places(tmp_path, {}), rights()))["tracefs"]

    assert (found.ok, found.links, found.weight) == ("yes", (), "note")
    assert "not needed" in found.meaning


@pytest.mark.parametrize("kind", ["tracing", "debug"])
def test_a_mounted_one_is_named(tmp_path, kind):
    tree = places(tmp_path, {f"/sys/kernel/{kind}/events": ""})

    assert by_id(check(tree, rights()))["tracefs"].found == f"{tree.sys}/kernel/{kind}"
