# SPDX-License-Identifier: Apache-2.0
"""Addresses to names, from a kallsyms that is written here."""

import tempfile

import pytest
from hypothesis import given, strategies as st

from tracer.kernel.symbols import resolve, why_hidden, without_tracing

TEXT = """\
ffffffff81000000 T _stext
ffffffff81000100 t do_anonymous_page
ffffffff81000200 T handle_mm_fault
ffffffff81000300 D some_data
ffffffffc0000000 t nv_alloc_pages\t[nvidia]
ffffffffc0000100 t bpf_prog_0123456789abcdef_on_mark_victim\t[bpf]
"""


@pytest.fixture
def kallsyms(tmp_path):
    def write(text):
        path = tmp_path / "kallsyms"
        path.write_text(text)
        return str(path)

    return write


def test_an_address_has_the_name_of_the_function_around_it(kallsyms):
    names = resolve([0xFFFFFFFF81000150, 0xFFFFFFFF81000240], kallsyms(TEXT))

    assert names == {0xFFFFFFFF81000150: "do_anonymous_page", 0xFFFFFFFF81000240: "handle_mm_fault"}


def test_a_module_is_named(kallsyms):
    assert resolve([0xFFFFFFFFC0000050], kallsyms(TEXT)) == {0xFFFFFFFFC0000050: "nv_alloc_pages [nvidia]"}


def test_a_return_address_at_the_start_of_a_function_belongs_to_the_one_before(kallsyms):
    # The call was its last instruction: it never returns.
    assert resolve([0xFFFFFFFF81000200], kallsyms(TEXT)) == {0xFFFFFFFF81000200: "do_anonymous_page"}


def test_data_is_no_function(kallsyms):
    assert resolve([0xFFFFFFFF81000350], kallsyms(TEXT)) == {0xFFFFFFFF81000350: "handle_mm_fault"}


def test_an_address_far_from_any_function_has_no_name(kallsyms):
    assert resolve([0x1000, 0xFFFFFFFF90000000], kallsyms(TEXT)) == {0x1000: None, 0xFFFFFFFF90000000: None}


def test_hidden_addresses_give_no_names(kallsyms):
    hidden = kallsyms("0000000000000000 T _stext\n0000000000000000 t do_anonymous_page\n")

    assert resolve([0xFFFFFFFF81000150], hidden) == {0xFFFFFFFF81000150: None}


def test_a_kernel_without_symbols_gives_no_names(tmp_path):
    assert resolve([1, 2], str(tmp_path / "missing")) == {1: None, 2: None}


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=30, unique=True),
    st.lists(st.integers(1, 6000), max_size=20),
    st.randoms(),
)
def test_it_finds_what_looking_at_every_symbol_finds(starts, addresses, random):

    shuffled = starts[:]
    random.shuffle(shuffled)
    with tempfile.NamedTemporaryFile("w", suffix="kallsyms") as file:
        file.writelines(f"{start:016x} t f{start}\n" for start in shuffled)
        file.flush()
        names = resolve(addresses, file.name)
    expected = {a: max((s for s in starts if s < a), default=None) for a in addresses}

    assert names == {a: None if s is None else f"f{s}" for a, s in expected.items()}


def test_frames_of_the_tracing_itself_are_left_out():
    tracing = ["bpf_prog_01_on_mark_victim [bpf]", "bpf_trace_run2", "__bpf_trace_mark_victim"]
    frames = [*tracing, "mark_oom_victim", "oom_kill_process"]

    assert without_tracing(frames) == ("mark_oom_victim", "oom_kill_process")


def test_an_unnamed_program_in_front_is_left_out_too():
    # Without bpf_jit_kallsyms the program has the name of whatever lies before it, or none.
    assert without_tracing(["handshake_exit", "bpf_trace_run2", "mark_oom_victim"]) == ("mark_oom_victim",)
    assert without_tracing([None, "bpf_trace_run2", "mark_oom_victim"]) == ("mark_oom_victim",)


def test_a_stack_without_names_stays_as_it_is():
    assert without_tracing([None, None]) == (None, None)


@pytest.mark.parametrize(
    ("lines", "hidden"),
    [
        ("0000000000000000 A fixed_percpu_data\nffffffff81000000 T _stext\n", False),
        ("0000000000000000 A fixed_percpu_data\n0000000000000000 T _stext\n", True),
        ("", True),
    ],
    ids=["shown", "hidden", "empty"],
)
def test_addresses_that_are_hidden_are_known_before_they_are_wanted(tmp_path, lines, hidden):
    (tmp_path / "kallsyms").write_text(lines)

    why = why_hidden(str(tmp_path / "kallsyms"))
    assert (why is not None) == hidden
    assert "No such file" in why_hidden(str(tmp_path / "none"))
