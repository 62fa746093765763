# SPDX-License-Identifier: Apache-2.0
"""Each rank has a copy of its own: of the model that it reads, or of a dataset that it prepares."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part
from tracer.verdict.mechanisms.rules.rank_asymmetry import ALIKE, by_rank

READ_SHARE = 0.1
"""Of the growth: so much page cache came with it that files were read into memory."""

ONCE = ("optimizer_state", "checkpoint_spike")


def judge(evidence: Evidence) -> Named | None:
    """By equal growth of the ranks themselves."""
    people = {rank: [one for one in of if one.role == "rank"] for rank, of in by_rank(evidence).items()}
    sizes = [sum(one.grown_bytes for one in of) for of in people.values()]
    if len(sizes) < 2 or min(sizes) <= 0 or max(sizes) > ALIKE * min(sizes):
        return None
    if evidence.share(sum(sizes)) < MOST_OF_IT:
        return None
    read = evidence.share(evidence.cache_grown_bytes) >= READ_SHARE
    training = bool(evidence.of_role("dataloader_worker"))
    low, high = format_bytes(min(sizes)), format_bytes(max(sizes))
    cache = format_bytes(max(0, evidence.cache_grown_bytes))
    order = ("model_duplication", "dataset_in_ram") if read else ("dataset_in_ram", "model_duplication")
    against = []
    if training:
        against.append("DataLoader workers live: training had begun, and a leak in each rank looks the same")
    if evidence.left_level:
        against.append("it came on top of a level: the first step of an optimizer in each rank looks the same")
    return Named(
        name=order[0],
        strength="possible" if against else "likely",
        share=evidence.share(sum(sizes)),
        statement=f"each of {len(sizes)} ranks came to hold {low if low == high else f'{low} to {high}'} of its own, "
        "all alike: a copy for each of what one could share",
        because=(
            f"{part(sum(sizes), evidence.grown_bytes)} of the growth is in {len(sizes)} ranks, in equal parts",
            f"page cache grew by {cache} meanwhile: {'files were read' if read else 'hardly a file was read'}",
        ),
        against=tuple(against),
        also=(order[1], "main_process_growth", *(ONCE if evidence.left_level else ())),
        decide=("at which line of the program the ranks are then (py-spy dump --pid PID): in load, map or the loop",),
    )
