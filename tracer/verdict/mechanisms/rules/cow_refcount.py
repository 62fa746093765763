# SPDX-License-Identifier: Apache-2.0
"""Pages that a fork shared were copied: mostly by reading Python objects, whose counts of references are written."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.faults import Faults
from tracer.verdict.mechanisms.named import Named, count, part

LEAST_OF_ANON = 0.2
"""Of all anonymous memory. Fitted: 0.36 to 0.49 where it was that, 0.12 at most where it was not."""
LEAST_OF_GROWTH = 0.3
WORKERS = frozenset({"dataloader_worker", "auxiliary"})
WROTE = {
    "heirs": ", as they wrote to them (a look at a Python object writes its count of references)",
    "main": ", as the process that forked them wrote to them",
    None: "",
}


def judge(evidence: Evidence) -> Named | None:
    """By arithmetic. The stack at the kill supports it and no more: it shows who touched the limit last."""
    copied, anon = evidence.copied_bytes, evidence.now.anon_bytes
    heirs = [one for one in evidence.people if one.inherited_bytes]
    if copied is None or not anon or not heirs or evidence.grown_bytes <= 0:
        return None
    if copied < LEAST_OF_ANON * anon or copied < LEAST_OF_GROWTH * evidence.grown_bytes:
        return None
    workers = sum(one.role in WORKERS for one in heirs)
    who = count(len(heirs), "worker") if workers == len(heirs) else f"{len(heirs)} forked processes"
    each = sum(one.inherited_bytes for one in heirs) // len(heirs)
    because = [
        (
            f"{who} inherited {format_bytes(each)} each at fork, shared; {part(copied, evidence.inherited_bytes)} "
            "of that is charged once more by now"
        ),
    ]
    if "do_wp_page" in evidence.frames:
        because.append("the page that could not be had was a copy of a shared one (do_wp_page)")
    side, sure = (evidence.faults.side(copied) if evidence.faults is not None else None) or (None, False)
    if evidence.faults is not None and side is not None:
        because.append(_faulted(evidence.faults, who, main=side == "main", sure=sure))
    against = []
    if side == "main":
        against.append("reading inherited Python objects in workers is not what did it")
    if not evidence.exact:
        against.append("from samples up to a second old: the kernel's own table of tasks was not recorded")
    return Named(
        name="cow_refcount",
        strength="likely" if evidence.exact or evidence.alone else "possible",
        share=evidence.share(copied),
        statement=f"pages that {who} shared with the process that forked them were copied one by one{WROTE[side]}",
        because=tuple(because),
        against=tuple(against),
        also=() if evidence.exact or evidence.alone else ("neighbour",),
        decide=()
        if side is not None
        else (
            (
                "faults of the workers since their fork against those of the main process: many faults of the "
                "workers mean that they touch inherited Python objects, few "
                "that the main process writes to what they share"
            ),
        ),
    )


def _faulted(faults: Faults, who: str, *, main: bool, sure: bool) -> str:
    """Each copy is a fault of who wrote."""
    heirs, most = format_bytes(faults.heirs_bytes), format_bytes(faults.main_most_bytes)
    text = f"page faults since the fork, a page each: {heirs} by {who}, {most} at most by the process that forked them"
    if not sure:
        return f"{text}: it is more likely the former that wrote"
    return f"{text}: it is the {'latter' if main else 'former'} that wrote"
