// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Memory cgroups: the chain of a victim at its mark, and reclaim stalls.
 *
 * raw tracepoints vmscan:mm_vmscan_{memcg_reclaim,direct_reclaim}_{begin,end}, in every kernel from 4.18 on:
 * around every run of direct reclaim, in the context of the task that has to wait for it.
 */

/* Deeper than any layout met so far (systemd, kubelet, containerd, Slurm: 8); cut at the outer end. */
#define MAX_LEVELS 16

struct reclaim_total {
	u64 slots[RECLAIM_SLOTS];
};

/* kernfs id of the stalled task's memory cgroup -> its totals; user space polls it. */
BPF_TABLE("hash", u64, struct reclaim_total, reclaim, RECLAIM_ENTRIES);
/* thread and kind of reclaim -> when it began; a task that dies inside is pushed out in time. */
BPF_TABLE("lru_hash", u64, u64, reclaim_began, 4096);

INLINE struct mem_cgroup *memcg_of(struct task_struct *task)
{
	/* A css is embedded at the start of its mem_cgroup (checked when kernel.h is made). */
	return (struct mem_cgroup *)READ(READ(task, task_struct, cgroups), css_set,
					 subsys[MEMORY_CGRP_ID]);
}

INLINE struct cgroup *cgroup_of(struct mem_cgroup *memcg)
{
	return READ(memcg, cgroup_subsys_state, cgroup);
}

INLINE u64 memcg_id(struct mem_cgroup *memcg)
{
	return memcg ? READ(READ(cgroup_of(memcg), cgroup, kn), kernfs_node, id) : 0;
}

INLINE u32 memcg_levels(struct mem_cgroup *memcg)
{
	u32 levels = 0;

	for (u32 i = 0; i < MAX_LEVELS && memcg; i++) {
		memcg = (struct mem_cgroup *)READ(memcg, cgroup_subsys_state, parent);
		levels++;
	}
	return levels;
}

INLINE u64 limit_bytes(u64 pages)
{
	/* PAGE_COUNTER_MAX is LONG_MAX / PAGE_SIZE pages, so this cannot overflow. */
	return pages * PAGE_SIZE;
}

/*
 * v2 limits swap alone (`swap`), v1 memory and swap together (`memsw`). Without swap accounting v1
 * charges nothing there, and then nothing is what is known: memsw is charged before memory is.
 */
INLINE void fill_swap(struct oom_level *level, struct mem_cgroup *memcg, u32 v1)
{
	level->swap_usage_bytes = ABSENT;
	level->swap_limit_bytes = ABSENT;
	if (v1) {
#ifdef HAS_MEM_CGROUP_MEMSW
		u64 usage_bytes = pages_to_bytes(READ(memcg, mem_cgroup, memsw.usage));

		if (!usage_bytes && level->usage_bytes)
			return;
		level->swap_usage_bytes = usage_bytes;
		level->swap_limit_bytes = limit_bytes(READ(memcg, mem_cgroup, memsw.max));
#endif
		return;
	}
#ifdef HAS_MEM_CGROUP_SWAP
	level->swap_usage_bytes = pages_to_bytes(READ(memcg, mem_cgroup, swap.usage));
	level->swap_limit_bytes = limit_bytes(READ(memcg, mem_cgroup, swap.max));
#endif
}

/*
 * On v1 the kernel counts an event in one cgroup alone (memcg_memory_event() stops after the first), so
 * what it calls memory_events there is local too, and hierarchical counts do not exist.
 */
INLINE void fill_events(struct oom_level *level, struct mem_cgroup *memcg, u32 v1)
{
	level->events_max = level->events_oom = level->events_oom_kill = ABSENT;
	level->events_local_max = level->events_local_oom = ABSENT;
	level->events_local_oom_kill = level->events_local_oom_group_kill = ABSENT;
	if (!v1) {
		level->events_max = READ(memcg, mem_cgroup, memory_events[MEMCG_MAX]);
		level->events_oom = READ(memcg, mem_cgroup, memory_events[MEMCG_OOM]);
		level->events_oom_kill = READ(memcg, mem_cgroup, memory_events[MEMCG_OOM_KILL]);
	}
#ifdef HAS_MEM_CGROUP_MEMORY_EVENTS_LOCAL
	level->events_local_max = READ(memcg, mem_cgroup, memory_events_local[MEMCG_MAX]);
	level->events_local_oom = READ(memcg, mem_cgroup, memory_events_local[MEMCG_OOM]);
	level->events_local_oom_kill = READ(memcg, mem_cgroup, memory_events_local[MEMCG_OOM_KILL]);
#ifdef HAS_MEMCG_OOM_GROUP_KILL
	level->events_local_oom_group_kill =
		READ(memcg, mem_cgroup, memory_events_local[MEMCG_OOM_GROUP_KILL]);
#endif
#else
	if (v1) {
		level->events_local_max = READ(memcg, mem_cgroup, memory_events[MEMCG_MAX]);
		level->events_local_oom = READ(memcg, mem_cgroup, memory_events[MEMCG_OOM]);
		level->events_local_oom_kill =
			READ(memcg, mem_cgroup, memory_events[MEMCG_OOM_KILL]);
	}
#endif
}

INLINE void fill_name(struct oom_level *level, struct kernfs_node *kn)
{
	char *name = READ(kn, kernfs_node, name);
	char last = 0;

	if (bpf_probe_read_kernel_str(level->name, sizeof(level->name), name) <
	    (long)sizeof(level->name))
		return;
	/* Full: whether the name ends there or goes on is said by the byte that gave way to the NUL. */
	bpf_probe_read_kernel(&last, 1, name + sizeof(level->name) - 1);
	level->name_cut = last != 0;
}

INLINE void send_levels(void *ctx, struct mem_cgroup *memcg, u32 tgid, u64 ts_ns)
{
	for (u32 depth = 0; depth < MAX_LEVELS && memcg; depth++) {
		struct cgroup *cgroup = cgroup_of(memcg);
		struct oom_level *level = reserve(KIND_OOM_LEVEL, sizeof(*level), ts_ns);

		if (level) {
			struct kernfs_node *kn = READ(cgroup, cgroup, kn);
			/* Hierarchy 0 is the unified one: see cgroup_init(). */
			u32 v1 = READ(READ(cgroup, cgroup, root), cgroup_root, hierarchy_id) != 0;

			level->cgroup_id = READ(kn, kernfs_node, id);
			level->usage_bytes = pages_to_bytes(READ(memcg, mem_cgroup, memory.usage));
			level->limit_bytes = limit_bytes(READ(memcg, mem_cgroup, memory.max));
			fill_swap(level, memcg, v1);
			fill_events(level, memcg, v1);
			level->mark_tgid = tgid;
			level->depth = depth;
			level->oom_group = ABSENT32;
#ifdef HAS_MEM_CGROUP_OOM_GROUP
			if (!v1)
				level->oom_group = READ(memcg, mem_cgroup, oom_group);
#endif
			fill_name(level, kn);
			submit(ctx, level, KIND_OOM_LEVEL);
		}
		memcg = (struct mem_cgroup *)READ(memcg, cgroup_subsys_state, parent);
	}
}

INLINE void reclaim_begins(u32 direct)
{
	u64 key = (bpf_get_current_pid_tgid() << 1) | direct;
	u64 now_ns = bpf_ktime_get_ns();

	reclaim_began.update(&key, &now_ns);
}

INLINE void reclaim_ends(u32 direct, u64 reclaimed_pages)
{
	u64 key = (bpf_get_current_pid_tgid() << 1) | direct;
	u64 *began_ns = reclaim_began.lookup(&key);
	struct reclaim_total none = {}, *total;
	u64 id, stall_ns;

	if (!began_ns)
		return;
	stall_ns = bpf_ktime_get_ns() - *began_ns;
	reclaim_began.delete(&key);
	id = memcg_id(memcg_of(current_task()));
	total = reclaim.lookup_or_try_init(&id, &none);
	if (!total) {
		count(COUNTER_RECLAIM_LOST);
		return;
	}
	__sync_fetch_and_add(&total->slots[direct ? RECLAIM_DIRECT_RUNS : RECLAIM_MEMCG_RUNS], 1);
	__sync_fetch_and_add(
		&total->slots[direct ? RECLAIM_DIRECT_STALL_NS : RECLAIM_MEMCG_STALL_NS], stall_ns);
	__sync_fetch_and_add(&total->slots[RECLAIM_PAGES], reclaimed_pages);
}

int on_memcg_reclaim_begin(struct bpf_raw_tracepoint_args *ctx)
{
	reclaim_begins(0);
	return 0;
}

int on_memcg_reclaim_end(struct bpf_raw_tracepoint_args *ctx)
{
	reclaim_ends(0, ctx->args[0]);
	return 0;
}

int on_direct_reclaim_begin(struct bpf_raw_tracepoint_args *ctx)
{
	reclaim_begins(1);
	return 0;
}

int on_direct_reclaim_end(struct bpf_raw_tracepoint_args *ctx)
{
	reclaim_ends(1, ctx->args[0]);
	return 0;
}
