# SPDX-License-Identifier: Apache-2.0
"""The ladder of hooks names functions that exist, and every function is on it."""

import re
from pathlib import Path

from tracer.kernel.probes import FRAGMENTS, PROBES

BPF = Path(__file__).parents[3] / "bpf"


def functions() -> set[str]:
    text = "\n".join((BPF / name).read_text() for name in FRAGMENTS)
    plain = re.findall(r"^int (\w+)\(struct (?:bpf_raw_tracepoint_args|pt_regs) \*ctx\)", text, re.MULTILINE)
    return {*plain, *(f"kfunc__{name}" for name in re.findall(r"^KFUNC_PROBE\((\w+),", text, re.MULTILINE))}


def test_every_function_of_the_fragments_is_a_rung_and_the_other_way_round():
    assert {rung.function for probe in PROBES for rung in probe.rungs} == functions()


def test_every_fragment_is_joined():
    assert {path.name for path in BPF.glob("*.c")} == set(FRAGMENTS)
    assert FRAGMENTS[0] == "prelude.c"


def test_what_is_required_needs_no_function_hook():
    required = [rung for probe in PROBES if probe.required for rung in probe.rungs]

    assert {rung.kind for rung in required} == {"raw_tracepoint"}


def test_a_function_hook_tries_the_cheaper_way_first():
    optional = [probe for probe in PROBES if not probe.required]

    assert [[rung.name for rung in probe.rungs] for probe in optional] == [
        ["fentry:oom_kill_process", "kprobe:oom_kill_process"]
    ]


def test_functions_are_not_named_so_that_bcc_would_attach_them_itself():
    assert not [name for name in functions() if name.startswith(("kprobe__", "raw_tracepoint__", "tracepoint__"))]
