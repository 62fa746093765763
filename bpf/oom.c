// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The OOM killer: whom it marked, who was allocating, whose limit it was, on which path.
 *
 * raw tracepoint oom:mark_victim, since 4.14, from mark_oom_victim() alone: in the context of the task
 * that was allocating, the victim's task_lock held. Its argument is a task_struct since 72ba14deb40a
 * ("mm: Update mark_victim tracepoints fields", 6.9, and in stable kernels), a pid before that; a kernel
 * pointer has its top bit set, a pid never has.
 */

#define SIGNAL_GROUP_EXIT 4

/*
 * The marked task. From a bare pid it is known when the kernel's SIGKILL went to it just before, or when
 * it is the dying allocator itself; else the mark is one of a task that was dying already: not a kill.
 */
INLINE struct task_struct *marked_task(u64 arg, u32 *known_by)
{
	u64 killer = bpf_get_current_pid_tgid();
	u64 *victim = being_killed.lookup(&killer);
	struct task_struct *task;

	*known_by = IDENTITY_BY_TASK;
	if ((s64)arg < 0)
		return (struct task_struct *)arg;
	*known_by = IDENTITY_BY_SIGNAL;
	if (victim) {
		task = (struct task_struct *)*victim;
		if (READ(task, task_struct, pid) == (u32)arg)
			return task;
	}
	*known_by = (u32)killer == (u32)arg ? IDENTITY_BY_CURRENT : IDENTITY_BY_UNKNOWN;
	return (u32)killer == (u32)arg ? current_task() : 0;
}

INLINE void fill_memory(struct oom_mark *mark, struct mm_struct *mm)
{
	mark->total_vm_bytes = READ(mm, mm_struct, total_vm) * PAGE_SIZE;
	mark->anon_rss_bytes = RSS_BYTES(mm, MM_ANONPAGES);
	mark->file_rss_bytes = RSS_BYTES(mm, MM_FILEPAGES);
	mark->shmem_rss_bytes = RSS_BYTES(mm, MM_SHMEMPAGES);
	mark->swap_bytes = RSS_BYTES(mm, MM_SWAPENTS);
	mark->pgtables_bytes = READ(mm, mm_struct, pgtables_bytes);
}

INLINE void fill_victim(struct oom_mark *mark, struct task_struct *task)
{
	struct signal_struct *signal = READ(task, task_struct, signal);
	struct task_struct *parent = parent_of(task);

	mark->start_ns = start_of(task);
	mark->tgid = tgid_of(task);
	mark->tid = READ(task, task_struct, pid);
	mark->parent_tgid = tgid_of(parent);
	mark->parent_start_ns = start_of(parent);
	mark->ns_tgid = innermost_pid(task, &mark->ns_level);
	mark->uid = uid_of(task);
	mark->oom_score_adj = READ(signal, signal_struct, oom_score_adj);
	mark->signal_flags = READ(signal, signal_struct, flags);
	mark->task_flags = READ(task, task_struct, flags);
	READ_INTO(mark->comm, task, task_struct, comm);
	fill_memory(mark, READ(task, task_struct, mm));
}

int on_mark_victim(struct bpf_raw_tracepoint_args *ctx)
{
	u64 ts_ns = bpf_ktime_get_ns();
	u32 known_by;
	struct task_struct *task = marked_task(ctx->args[0], &known_by), *trigger = current_task();
	struct mem_cgroup *memcg = task ? memcg_of(task) : 0;
	u32 tgid = task ? tgid_of(task) : 0;
	/*
	 * Last, right before it is asked for: the verifier of 5.10 no longer knows a record that had to be
	 * kept on the stack meanwhile, and refuses the program ("Unreleased reference").
	 */
	struct oom_mark *mark = reserve(KIND_OOM_MARK, sizeof(*mark), ts_ns);

	if (mark) {
		mark->tid = ctx->args[0];
		if (task)
			fill_victim(mark, task);
		mark->trigger_tgid = tgid_of(trigger);
		mark->trigger_tid = READ(trigger, task_struct, pid);
		mark->trigger_start_ns = start_of(trigger);
		READ_INTO(mark->trigger_comm, trigger, task_struct, comm);
		mark->levels = memcg_levels(memcg);
		mark->identity_by = known_by;
		submit(ctx, mark, KIND_OOM_MARK);
	}
	send_levels(ctx, memcg, tgid, ts_ns);
	send_stack(ctx, tgid, ts_ns);
	has_printed();
	return 0;
}

/*
 * oom_kill_process(struct oom_control *oc, const char *message), since 4.8 with these arguments: the one
 * place where the constraint and the allocation's order and flags are at hand. Optional: a static function
 * may be inlined, and fentry or kprobes may be forbidden.
 */
INLINE void send_decision(void *ctx, struct oom_control *oc)
{
	struct oom_decision *decision =
		reserve(KIND_OOM_DECISION, sizeof(*decision), bpf_ktime_get_ns());
	struct task_struct *chosen, *trigger = current_task();

	if (!decision)
		return;
	chosen = READ(oc, oom_control, chosen);
	decision->memcg_id = memcg_id(READ(oc, oom_control, memcg));
	decision->total_allowed_bytes = (u64)READ(oc, oom_control, totalpages) * PAGE_SIZE;
	decision->chosen_points = READ(oc, oom_control, chosen_points);
	decision->tgid = tgid_of(chosen);
	decision->tid = READ(chosen, task_struct, pid);
	decision->trigger_tgid = tgid_of(trigger);
	decision->trigger_tid = READ(trigger, task_struct, pid);
	decision->gfp_mask = READ(oc, oom_control, gfp_mask);
	decision->order = READ(oc, oom_control, order);
	decision->constraint = ABSENT32;
#ifdef HAS_OOM_CONTROL_CONSTRAINT
	decision->constraint = READ(oc, oom_control, constraint);
#endif
	submit(ctx, decision, KIND_OOM_DECISION);
}

KFUNC_PROBE(oom_kill_process, struct oom_control *oc)
{
	send_decision(ctx, oc);
	return 0;
}

int on_oom_kill_process(struct pt_regs *ctx)
{
	send_decision(ctx, (struct oom_control *)PT_REGS_PARM1(ctx));
	return 0;
}
