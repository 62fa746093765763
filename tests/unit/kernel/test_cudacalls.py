# SPDX-License-Identifier: Apache-2.0
"""What the programs for calls of CUDA are told: the same numbers as the records have, once in each program."""

import struct

import pytest

from tracer.events import LAYOUTS, CudaMemory, CudaSymbol, Kind
from tracer.kernel import cudacalls, handover
from tracer.kernel.bpfcalls import with_other_maps
from tracer.kernel.cuda import unknown_of

INSTRUCTION = struct.Struct("=BBhi")
OTHER = INSTRUCTION.pack(0xB7, 1, 0, 7)
MARKED = INSTRUCTION.pack(0xB7, 3, 0, cudacalls.MARK)


def test_functions_and_kinds_of_memory_have_the_numbers_of_the_records():
    memory = (cudacalls.DEVICE, cudacalls.MANAGED, cudacalls.PINNED, cudacalls.REGISTERED, cudacalls.OTHER)

    assert [(function.name, function.symbol) for function in cudacalls.FUNCTIONS] == [
        (symbol.name, symbol.value) for symbol in CudaSymbol
    ]
    assert memory == tuple(CudaMemory)


def test_each_function_is_told_something_else_that_fits_into_a_number():
    codes = {function.code for function in cudacalls.FUNCTIONS}

    assert len(codes) == len(cudacalls.FUNCTIONS)
    assert all(0 < code < 1 << 31 for code in codes)


def test_what_is_kept_of_a_process_begins_with_the_record():
    assert LAYOUTS[Kind.CUDA_TOTALS].size_bytes == handover.CUDA_OWNER_AT * 8
    assert struct.calcsize(handover.CUDA_KEY) == 24


def test_a_program_differs_from_its_template_in_the_number_alone():
    function = cudacalls.FUNCTIONS[3]
    code = cudacalls.program_for(function, OTHER + MARKED + OTHER)

    assert code == OTHER + INSTRUCTION.pack(0xB7, 3, 0, function.code) + OTHER
    assert cudacalls.program_for(None, MARKED) == INSTRUCTION.pack(0xB7, 3, 0, 0)


@pytest.mark.parametrize("template", [b"", OTHER, MARKED + MARKED])
def test_a_template_without_its_one_mark_is_refused(template):
    with pytest.raises(ValueError, match="places for the number"):
        cudacalls.program_for(cudacalls.FUNCTIONS[0], template)


def test_maps_are_exchanged_where_they_are_loaded_and_nowhere_else():
    def load(registers, number):
        return INSTRUCTION.pack(0x18, registers, 0, number) + INSTRUCTION.pack(0, 0, 0, 0)

    code = load(0x11, 5) + load(0x01, 5) + INSTRUCTION.pack(0xB7, 0x11, 0, 5) + load(0x12, 6)

    assert with_other_maps(code, {5: 9}) == load(0x11, 9) + code[16:]


@pytest.mark.parametrize(
    "name, unknown",
    [
        ("cuMemAlloc_v3", True),
        ("cuMemAllocManaged_v2", True),
        ("cuMemHostAllocNuma", True),
        ("cuArrayCreate_v4", True),
        ("cuMemAlloc_v2", False),
        ("cuMemGetAllocationGranularity", False),
        ("cuMemRetainAllocationHandle", False),
        ("cuMemHostUnregister", False),
        ("cuMemcpyAsync", False),
        ("cuLaunchKernel", False),
    ],
)
def test_names_that_look_like_allocation_are_told(name, unknown):
    assert unknown_of([name]) == ([name] if unknown else [])
