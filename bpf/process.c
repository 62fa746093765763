// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The job's processes: fork, exec and exit.
 *
 * raw tracepoints sched:sched_process_{fork,exec,exit}, in every kernel from 4.18 on. Threads are left out: a process is its
 * thread group, begins with its leader and ends with its last thread.
 */

/* Process (tgid and start) whose end was sent: see last_thread(). */
BPF_TABLE("lru_hash", u64, u8, ended, 4096);

/* (struct task_struct *parent, struct task_struct *child): in the parent, before the child can run. */
int on_process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0];
	struct task_struct *child = (struct task_struct *)ctx->args[1];
	u32 tgid = tgid_of(child), parent_tgid = tgid_of(parent);
	u64 start_ns = READ(child, task_struct, start_boottime);
	u32 tracked = in_tree(parent);
	struct process_forked *forked;

	learn_own_level(parent);
	if (tgid != (u32)READ(child, task_struct, pid) || (!tracked && !follows_all()))
		return 0;
	if (tracked && tree.update(&tgid, &start_ns))
		count(COUNTER_UNTRACKED);
	forked = reserve(KIND_PROCESS_FORKED, sizeof(*forked), bpf_ktime_get_ns());
	if (!forked)
		return 0;
	forked->start_ns = start_ns;
	forked->parent_start_ns = start_of(parent);
	forked->anon_rss_bytes = RSS_BYTES(READ(child, task_struct, mm), MM_ANONPAGES);
	forked->tgid = tgid;
	forked->parent_tgid = parent_tgid;
	forked->ns_tgid = innermost_pid(child, &forked->ns_level);
	forked->own_tgid = own_pid(child);
	forked->own_parent_tgid = own_pid(parent);
	forked->in_tree = tracked;
	READ_INTO(forked->comm, child, task_struct, comm);
	submit(ctx, forked, KIND_PROCESS_FORKED);
	return 0;
}

/* (struct task_struct *task, pid_t old_pid, struct linux_binprm *bprm): past the point of no return. */
int on_process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	u32 tgid = tgid_of(task);
	struct process_execed *execed;

	if (!in_tree(task))
		return 0;
	execed = reserve(KIND_PROCESS_EXECED, sizeof(*execed), bpf_ktime_get_ns());
	if (!execed)
		return 0;
	execed->start_ns = start_of(task);
	execed->tgid = tgid;
	execed->old_tid = ctx->args[1];
	READ_INTO(execed->comm, task, task_struct, comm);
	submit(ctx, execed, KIND_PROCESS_EXECED);
	return 0;
}

/* As wait_task_zombie() puts it together: of a group exit the group's, else the leader's own. */
INLINE u32 wait_status(struct task_struct *task, struct signal_struct *signal)
{
	if (READ(signal, signal_struct, flags) & SIGNAL_GROUP_EXIT)
		return READ(signal, signal_struct, group_exit_code);
	return READ(READ(task, task_struct, group_leader), task_struct, exit_code);
}

/*
 * do_exit() counts the thread out of signal->live first and gets to the tracepoint later, after exit_mm()
 * before 6.18: threads that are killed together may all find 0 there. The first of them speaks for all;
 * group_dead, from 6.18 on, belongs to one alone.
 */
#if SCHED_PROCESS_EXIT_ARGS > 1
#define last_thread(ctx, signal, id) ((u8)(ctx)->args[1])
#else
#define last_thread(ctx, signal, id) (!READ(signal, signal_struct, live) && first_to_end(id))
INLINE u32 first_to_end(u64 id)
{
	u8 yes = 1;

	return ended.insert(&id, &yes) == 0;
}
#endif

/*
 * The children of a task that is going, before they are given to another parent. The list is read without
 * its lock: where it is cut short (a child that is just being reaped), a record counts as lost.
 */
INLINE void tell_orphans(void *ctx, struct task_struct *task)
{
	struct list_head *head =
		(struct list_head *)((char *)task +
				     __builtin_offsetof(struct task_struct, children));
	struct list_head *at = READ(head, list_head, next);
	u32 parent_tgid = tgid_of(task), own_parent_tgid = own_pid(task);
	u64 parent_start_ns = start_of(task);
	struct process_orphaned *orphaned;
	struct task_struct *child;

	for (u32 i = 0; i < MAX_ORPHANS && at && at != head; i++) {
		child = (struct task_struct *)((char *)at -
					       __builtin_offsetof(struct task_struct, sibling));
		at = READ(at, list_head, next);
		/* A zombie has told its end. */
		if (!READ(READ(child, task_struct, signal), signal_struct, live))
			continue;
		orphaned = reserve(KIND_PROCESS_ORPHANED, sizeof(*orphaned), bpf_ktime_get_ns());
		if (!orphaned)
			continue;
		orphaned->start_ns = start_of(child);
		orphaned->parent_start_ns = parent_start_ns;
		orphaned->tgid = tgid_of(child);
		orphaned->parent_tgid = parent_tgid;
		orphaned->own_tgid = own_pid(child);
		orphaned->own_parent_tgid = own_parent_tgid;
		READ_INTO(orphaned->comm, child, task_struct, comm);
		submit(ctx, orphaned, KIND_PROCESS_ORPHANED);
	}
	if (at != head)
		count(COUNTER_DROPPED + KIND_PROCESS_ORPHANED);
}

/* (struct task_struct *task[, bool group_dead]): once a thread, in its own context. */
int on_process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	struct signal_struct *signal = READ(task, task_struct, signal);
	u32 tgid = tgid_of(task), tracked = in_tree(task), marked;
	struct process_exited *exited;

	u64 id = start_of(task) ^ ((u64)tgid << 32);
	if (!last_thread(ctx, signal, id))
		return 0;
	if (tracked)
		tree.delete(&tgid);
	if (follows_all())
		tell_orphans(ctx, task);
	/* Set by mark_oom_victim(), before the tracepoint, for as long as the signal_struct lives. */
	marked = READ(signal, signal_struct, oom_mm) != 0;
	if (!tracked && !marked && !follows_all())
		return 0;
	exited = reserve(KIND_PROCESS_EXITED, sizeof(*exited), bpf_ktime_get_ns());
	if (!exited)
		return 0;
	exited->start_ns = start_of(task);
	exited->tgid = tgid;
	exited->tid = READ(task, task_struct, pid);
	exited->status = wait_status(task, signal);
	exited->oom_marked = marked;
	exited->parent_tgid = tgid_of(parent_of(task));
	exited->in_tree = tracked;
	READ_INTO(exited->comm, task, task_struct, comm);
	submit(ctx, exited, KIND_PROCESS_EXITED);
	return 0;
}
