# SPDX-License-Identifier: Apache-2.0
"""The ladder of hooks names functions that exist, and every function is on it."""

import re
from pathlib import Path

import pytest

from tracer.kernel.cudacalls import ENTERED, RETURNED
from tracer.kernel.probes import CUDA_FRAGMENTS, FRAGMENTS, SCALAR_FRAGMENTS, SCALAR_SUFFIX, Wanted
from tracer.verdict import story

BPF = Path(__file__).parents[3] / "bpf"


ALL = Wanted(console=True)
BARE = Wanted(scalars=True)
CUDA = Wanted(cuda=True)


def functions(wanted: Wanted = ALL) -> set[str]:
    text = "\n".join((BPF / name).read_text() for name in wanted.fragments)
    plain = re.findall(r"^int (\w+)\(struct (?:bpf_raw_tracepoint_args|pt_regs) \*ctx\)", text, re.MULTILINE)
    return {*plain, *(f"kfunc__{name}" for name in re.findall(r"^KFUNC_PROBE\((\w+),", text, re.MULTILINE))}


@pytest.mark.parametrize("wanted", [ALL, BARE], ids=["all", "bare"])
def test_every_function_of_the_fragments_is_a_rung_and_the_other_way_round(wanted):
    assert {rung.function for probe in wanted.probes for rung in probe.rungs} == functions(wanted)


def test_every_fragment_is_joined():
    assert {path.name for path in BPF.glob("*.c")} == {*FRAGMENTS, *SCALAR_FRAGMENTS, *CUDA_FRAGMENTS}
    assert FRAGMENTS[0] == SCALAR_FRAGMENTS[0] == CUDA_FRAGMENTS[0] == "prelude.c"


def test_what_sees_calls_of_cuda_has_hooks_of_its_own_and_uprobes():
    hooked = {rung.function for probe in CUDA.probes for rung in probe.rungs}

    assert hooked | {ENTERED, RETURNED} == functions(CUDA)


def test_programs_that_read_no_memory_have_no_helper_that_would():
    """Under lockdown=confidentiality one call of it is enough for the kernel to refuse the program."""
    text = "\n".join((BPF / name).read_text() for name in SCALAR_FRAGMENTS[1:])
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)

    assert not re.findall(r"bpf_probe_read\w*|READ\w*\(|task_struct \*", code)


@pytest.mark.parametrize("wanted", [ALL, BARE], ids=["all", "bare"])
def test_what_is_required_needs_no_function_hook(wanted):
    required = [rung for probe in wanted.probes if probe.required for rung in probe.rungs]

    assert {rung.kind for rung in required} == {"raw_tracepoint"}


def test_a_function_hook_tries_the_cheaper_way_first():
    optional = [probe for probe in ALL.probes if not probe.required]

    assert [[rung.name for rung in probe.rungs] for probe in optional] == [
        ["fentry:oom_kill_process", "kprobe:oom_kill_process"],
        ["raw_tracepoint:console"],
    ]


def test_nobody_pays_for_the_hook_on_printk_who_can_read_the_log():
    assert "console" not in [rung.target for probe in Wanted().probes for rung in probe.rungs]


def test_functions_are_not_named_so_that_bcc_would_attach_them_itself():
    assert not [
        name
        for name in functions() | functions(BARE)
        if name.startswith(("kprobe__", "raw_tracepoint__", "tracepoint__"))
    ]


def test_the_rules_know_bare_programs_by_the_names_that_the_loader_gives_them():
    assert SCALAR_SUFFIX == story.SCALAR_SUFFIX
