# SPDX-License-Identifier: Apache-2.0
"""Whose limit it was, among the nested cgroups above a victim: by counters, usage and the kernel's log.

A page counter may stand up to a charge batch (MEMCG_CHARGE_BATCH, 64 pages) below its maximum when the
charge fails, so "at its limit" is a window. The count of OOM events local to a cgroup rises at the owner
of the limit before the mark (mem_cgroup_oom(), mm/memcontrol.c), which tells nested limits apart.
"""

from collections.abc import Sequence

import msgspec

from tracer.events import CgroupSample, LoggedDecision, OomLevel
from tracer.units import has_limit
from tracer.verdict.kills import Kill
from tracer.verdict.story import Story

CHARGE_BATCH_PAGES = 64
FAR_BELOW = 0.9
"""An owner that uses less than this part of its limit at the mark is doubted: kmem limits, or a count of before."""
PRINTK_HOOK = "raw_tracepoint:console"
DISAGREE = "what was seen of them disagrees"
NOT_TOLD_APART = "these cannot be told apart"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates for the owner of the limit, lowest first."""

    cgroups: tuple[str, ...]
    how: str
    sure: bool
    caveats: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    """The hooks that told, and `kmsg`."""


def find_owner(story: Story, kill: Kill, paths: Sequence[str]) -> Owner:
    """Whose limit was hit.

    Args:
        paths: of the levels of the kill's chain, in its order.
    """
    by_id = {level.cgroup_id: path for level, path in zip(kill.levels, paths, strict=True)}
    if kill.decision is not None and kill.decision.memcg_id in by_id:
        return Owner(
            cgroups=(by_id[kill.decision.memcg_id],), how="named by the OOM killer itself", sure=True,
            by=story.hook_names("oom_kill_process"),
        )  # fmt: skip
    seen = _from_counters(story, kill, by_id)
    if seen.cgroups:
        seen = msgspec.structs.replace(seen, by=story.hook_names("mark_victim"))
    if kill.logged_decision is None or kill.logged_decision.oom_memcg is None:
        return seen
    return _with_log(seen, kill.logged_decision, tuple(by_id.values()))


def memsw(story: Story, level: OomLevel) -> tuple[int | None, int | None]:
    """Usage and limit of memory and swap together: cgroup v1, and only where there is such a limit."""
    if story.header is None or story.header.cgroup_version != 1 or not has_limit(level.swap_limit_bytes):
        return None, None
    return level.swap_usage_bytes, level.swap_limit_bytes


def is_whole(kill: Kill) -> bool:
    """Whether the chain was recorded from the victim's own cgroup up to the root."""
    depths = [level.depth for level in kill.levels]
    return bool(depths) and depths == list(range(len(depths))) and kill.levels[-1].name == ""


def _from_counters(story: Story, kill: Kill, by_id: dict[int, str]) -> Owner:
    risen = [level for level in kill.levels if _oom_rise(story, kill, level)]
    near = [level for level in kill.levels if _at_limit(story, level) and level.events_local_oom != 0]
    # A count that nobody had read before may have risen as well: racing tasks raise one without a kill, later.
    unread = [level for level in near if level.events_local_oom and _oom_before(story, kill, level) is None]
    both = [level for level in near if level in risen or level in unread] if any(v in risen for v in near) else []

    def owner(levels: Sequence[OomLevel], how: str, *, sure: bool, caveats: tuple[str, ...] = ()) -> Owner:
        return Owner(cgroups=tuple(by_id[v.cgroup_id] for v in levels), how=how, sure=sure, caveats=caveats)

    if risen and near and not both:
        names = " and ".join(by_id[v.cgroup_id] for v in risen), " and ".join(by_id[v.cgroup_id] for v in near)
        caveat = f"OOM counts rose in {names[0]}, while {names[1]} stood at its limit."
        return owner([*near, *risen], DISAGREE, sure=False, caveats=(caveat,))
    if len(both) > 1:
        return owner(both, NOT_TOLD_APART, sure=True)
    if both or risen:
        found = both or risen
        sure = len(found) == 1 and not _far_below(found[0])
        return owner(found, "its own OOM count rose" if len(found) == 1 else NOT_TOLD_APART, sure=sure)
    how = "the only level at its limit" if len(near) == 1 else NOT_TOLD_APART
    return owner(near, how, sure=bool(near) and is_whole(kill))


def _with_log(seen: Owner, told: LoggedDecision, paths: Sequence[str]) -> Owner:
    logged, printed = told.oom_memcg or "", told.source == "printk_console"
    by = (*seen.by, PRINTK_HOOK if printed else "kmsg")
    named = "named as the kernel printed it" if printed else "named in the kernel's log"
    source = "What the kernel printed" if printed else "The kernel's log"
    if not told.trusted and seen.cgroups:
        return seen  # nobody can tell who printed it
    if paths and logged not in paths:
        caveat = f"{source} names {logged}, which is not above the victim."
        return Owner(cgroups=(*seen.cgroups, logged), how=DISAGREE, sure=False, caveats=(*seen.caveats, caveat), by=by)
    if not seen.cgroups:
        return Owner(cgroups=(logged,), how=named, sure=bool(paths) and told.trusted, by=by)
    if logged not in seen.cgroups:
        counted = " and ".join(seen.cgroups)
        caveat = f"{source} names {logged} as the owner of the limit, the counters {counted}."
        return Owner(cgroups=(*seen.cgroups, logged), how=DISAGREE, sure=False, caveats=(*seen.caveats, caveat), by=by)
    agrees = "the kernel printed its name" if printed else "the kernel's log names it"
    how = f"{seen.how}, and {agrees}" if len(seen.cgroups) == 1 else named
    return Owner(cgroups=(logged,), how=how, sure=True, caveats=seen.caveats, by=by)


def _far_below(level: OomLevel) -> bool:
    return not has_limit(level.limit_bytes) or level.usage_bytes < FAR_BELOW * level.limit_bytes


def _oom_rise(story: Story, kill: Kill, level: OomLevel) -> bool:
    """Whether this cgroup's own count of OOM events is known to have risen since it was last seen."""
    before = _oom_before(story, kill, level)
    return level.events_local_oom is not None and before is not None and level.events_local_oom > before


def _oom_before(story: Story, kill: Kill, level: OomLevel) -> int | None:
    """That count when it was last seen before; `None`: it never was."""
    before: int | None = None
    if story.job is not None and story.job.own_cgroup and story.job.cgroup_id == level.cgroup_id:
        before = 0
    for sample in story.by(CgroupSample, lambda s: s.cgroup_id, "id").get(level.cgroup_id, ()):
        if sample.oom_local is not None and sample.ts_ns < kill.at_ns:
            before = sample.oom_local
    for earlier in story.by(OomLevel, lambda v: v.cgroup_id, "id").get(level.cgroup_id, ()):
        if earlier.ts_ns >= level.ts_ns:
            break
        if earlier.events_local_oom is not None:
            before = max(before or 0, earlier.events_local_oom)
    return before


def _at_limit(story: Story, level: OomLevel) -> bool:
    page_bytes = story.header.page_bytes if story.header else 4096
    batch_bytes = CHARGE_BATCH_PAGES * page_bytes
    if has_limit(level.limit_bytes) and level.limit_bytes - level.usage_bytes < batch_bytes:
        return True
    # A full v2 swap limit alone fails no charge; v1's limit on memory and swap together does.
    usage, limit = memsw(story, level)
    return usage is not None and limit is not None and limit - usage < batch_bytes
