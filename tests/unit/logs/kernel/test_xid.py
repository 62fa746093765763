# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's driver prints, in all its forms; what only looks like it; and names that are chosen to deceive."""

import pytest
from hypothesis import given, strategies as st

from tracer.events import LoggedOther, LoggedXid
from tracer.logs.kernel import parse_record


def parsed(text, source="kmsg"):
    return parse_record(text, ts_ns=7, log_usec=3, log_seq=9, trusted=True, source=source)


LINES = [
    ("NVRM: Xid (PCI:0000:08:00): 31, pid=1234, name=python3, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS",
     31, "0000:08:00", 1234, "python3"),
    ("NVRM: Xid (PCI:0000:c1:00): 94, pid=5, name=pt_data_worker, Contained: SM (0x1). RST: No, D-RST: No",
     94, "0000:c1:00", 5, "pt_data_worker"),
    ("NVRM: Xid (PCI:0000:08:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
     79, "0000:08:00", None, None),
    ("NVRM: Xid (PCI:0000:08:00): 79, GPU has fallen off the bus.", 79, "0000:08:00", None, None),
    ("NVRM: Xid (PCI:0000:08:00): 48, pid=1234, An uncorrectable double bit error", 48, "0000:08:00", 1234, None),
    ("NVRM: Xid (PCI:0000:08:00): 13, pid='1234', name='python3', Graphics SM Warp Exception",
     13, "0000:08:00", 1234, "python3"),
    ("NVRM: Xid (0000:08:00): 31, Ch 00000010, engmask 00000101, intr 10000000", 31, "0000:08:00", None, None),
    ("NVRM: Xid (0000:08:00.0): 31", 31, "0000:08:00.0", None, None),
    ("NVRM: Xid (PCI:00010000:0A:00): 45, pid=1, name=a b", 45, "00010000:0a:00", 1, "a b"),
    ("NVRM: Xid (PCI:0000:08:00): 119, pid=7, name=pyth\\x09n, Timeout after 6s of waiting for RPC response",
     119, "0000:08:00", 7, "pyth\tn"),
]  # fmt: skip


@pytest.mark.parametrize("text, xid, pci, pid, comm", LINES)
def test_a_report_of_the_driver(text, xid, pci, pid, comm):
    event = parsed(text)

    assert isinstance(event, LoggedXid)
    assert (event.xid, event.pci, event.pid, event.comm) == (xid, pci, pid, comm)
    assert (event.ts_ns, event.log_usec, event.log_seq, event.trusted, event.text) == (7, 3, 9, True, text)


@pytest.mark.parametrize(
    "text",
    ["NVRM: Xid", "NVRM: Xid (PCI:0000:08:00): ", "NVRM: Xid (PCI:0000:08:00): x", "NVRM: Xid (PCI:0000:08:00): 31x",
     "x NVRM: Xid (PCI:0000:08:00): 31, pid=1", "Xid (PCI:0000:08:00): 31", "NVRM: Xid (PCI:08:00): 31",
     "NVRM: loading NVIDIA UNIX Open Kernel Module", "NVRM: Xid (PCI:0000:08:00): 1234567, pid=1"],
)  # fmt: skip
def test_what_only_looks_like_one(text):
    assert parsed(text) is None


@pytest.mark.parametrize("name", ["a, pid=9, name=b", "sh, Ch 00000010", "x, y", "x, GPU"])
def test_a_name_that_can_be_read_in_two_ways_is_unknown(name):
    event = parsed(f"NVRM: Xid (PCI:0000:08:00): 31, pid=1234, name={name[:15]}, Ch 00000010")

    assert (event.pid, event.comm) == (1234, None)


@given(st.binary(min_size=1, max_size=15).filter(lambda raw: b"\0" not in raw))
def test_no_name_is_ever_read_as_another(raw):
    escaped = "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02x}" for b in raw)
    event = parsed(f"NVRM: Xid (PCI:0000:08:00): 31, pid=1234, name={escaped}, Ch 00000010, intr 00000000. MMU Fault")

    # An apostrophe may be the driver's own.
    assert event.pid == 1234
    assert event.comm in (
        None,
        raw.decode("utf-8", "backslashreplace"),
        raw.strip(b"'").decode("utf-8", "backslashreplace"),
    )


@given(st.text(max_size=80))
def test_no_line_is_too_strange(tail):
    event = parsed(f"NVRM: Xid (PCI:0000:08:00): 31{tail}")

    assert event is None or (str(event.xid).startswith("31"), event.pci) == (True, "0000:08:00")


def test_memory_that_the_driver_itself_lacked_is_kept_as_text():
    text = (
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from "
        "_memdescAllocInternal(pMemDesc) @ mem_desc.c:1359"
    )
    event = parsed(text)

    assert isinstance(event, LoggedOther)
    assert (event.about, event.text) == ("nvrm_no_memory", text)
    assert parsed("python: [NV_ERR_NO_MEMORY]") is None
