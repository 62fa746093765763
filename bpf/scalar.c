// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What can be seen without reading the kernel's memory: under lockdown=confidentiality, and without type information.
 *
 * In place of all other fragments but the prelude. Left are the arguments of raw tracepoints by value, what helpers
 * say of the current thread, and its kernel stack. A task's address names it for as long as it lives: it is
 * compared, never followed, and never told.
 */

#define SIGKILL 9

/* So that both sets of programs hand over the same maps. */
BPF_TABLE("hash", u64, u64, reclaim, 1);

/* Thread that is killing -> the kernel's SIGKILL that it sent last, which the OOM killer does right before the mark. */
struct last_kill {
	u64 task;
	u64 ts_ns;
	u32 info;
	u32 result;
};
BPF_TABLE("lru_hash", u64, struct last_kill, last_kills, 1024);
/* Address of a marked task, or on older kernels the pid of its thread, which is never as large -> time of its mark. */
BPF_TABLE("lru_hash", u64, u64, marked, 4096);
/*
 * The mark comes after the SIGKILL, and on another CPU the victim may be gone by then: 6.16 and newer tell an exit
 * before its memory is given back (11e8ebb4, "exit: move and extend sched_process_exit() tracepoint"). So whom the
 * kernel has killed, by address, and what such a thread said as it exited, by what the mark may name it by.
 */
BPF_TABLE("lru_hash", u64, u64, killed, 1024);
struct last_words {
	u64 ts_ns;
	u32 tgid;
	u32 tid;
	u32 uid;
	u32 reserved;
	char comm[16];
};
BPF_TABLE("lru_hash", u64, struct last_words, early, 1024);

/* (int sig, struct kernel_siginfo *info, struct task_struct *task, int group, int result) */
int on_signal_scalar(struct bpf_raw_tracepoint_args *ctx)
{
	u64 info = ctx->args[1], thread = bpf_get_current_pid_tgid();
	struct last_kill kill = {};

	if ((int)ctx->args[0] != SIGKILL)
		return 0;
	if (info != SIGNAL_INFO_PRIV && info != SIGNAL_INFO_FORCED)
		return 0;
	kill.task = ctx->args[2];
	kill.ts_ns = bpf_ktime_get_ns();
	kill.info = info;
	kill.result = ctx->args[4];
	last_kills.update(&thread, &kill);
	killed.update(&kill.task, &kill.ts_ns);
	return 0;
}

INLINE void tell_end(void *ctx, u64 mark_ns, struct last_words *words)
{
	struct marked_ended *ended = reserve(KIND_MARKED_ENDED, sizeof(*ended), words->ts_ns);

	if (!ended)
		return;
	ended->mark_ns = mark_ns;
	ended->tgid = words->tgid;
	ended->tid = words->tid;
	ended->uid = words->uid;
	__builtin_memcpy(ended->comm, words->comm, sizeof(ended->comm));
	submit(ctx, ended, KIND_MARKED_ENDED);
}

/* (struct task_struct *task, uid_t uid), on older kernels (int pid): see oom.c. */
int on_mark_scalar(struct bpf_raw_tracepoint_args *ctx)
{
	u64 ts_ns = bpf_ktime_get_ns(), thread = bpf_get_current_pid_tgid(), arg = ctx->args[0];
	u32 is_task = (s64)arg < 0, tid = arg;
	u64 task = (u64)bpf_get_current_task(), key = is_task ? arg : (u64)tid;
	u32 itself = is_task ? arg == task : tid == (u32)thread;
	struct last_kill *found = last_kills.lookup(&thread), kill = {};
	struct last_words *words;
	struct oom_glimpse *glimpse;

	if (found)
		kill = *found;
	/* Once: a later mark by this thread is another one's. */
	last_kills.delete(&thread);
	/* Of another task; of a bare pid that can be told where it is that of the allocating thread. */
	if ((is_task && kill.task != arg) || (!is_task && itself && kill.task != task))
		kill.ts_ns = 0;
	glimpse = reserve(KIND_OOM_GLIMPSE, sizeof(*glimpse), ts_ns);
	if (glimpse) {
		glimpse->signal_ns = kill.ts_ns ? kill.ts_ns : ABSENT;
		glimpse->signal_info = kill.ts_ns ? kill.info : ABSENT32;
		glimpse->signal_result = kill.ts_ns ? kill.result : ABSENT32;
		glimpse->same_task = kill.ts_ns && (is_task || itself);
		glimpse->trigger_cgroup_id = bpf_get_current_cgroup_id();
		glimpse->trigger_tgid = thread >> 32;
		glimpse->trigger_tid = thread;
		glimpse->trigger_uid = bpf_get_current_uid_gid();
		glimpse->itself = itself;
		glimpse->victim_tid = itself ? (u32)thread : is_task ? ABSENT32 : tid;
		bpf_get_current_comm(glimpse->trigger_comm, sizeof(glimpse->trigger_comm));
		submit(ctx, glimpse, KIND_OOM_GLIMPSE);
	}
	send_stack(ctx, thread >> 32, ts_ns);
	/* Either may be the first: both leave word and then look, and who takes the mark off tells it. */
	marked.update(&key, &ts_ns);
	words = early.lookup(&key);
	/* A pid may have been another's before; an address is taken off at a fork. */
	if (words && kill.ts_ns && words->ts_ns >= kill.ts_ns && !marked.delete(&key))
		tell_end(ctx, ts_ns, words);
	return 0;
}

/* (struct task_struct *parent, struct task_struct *child): an address that is given to another task is no mark's. */
int on_fork_scalar(struct bpf_raw_tracepoint_args *ctx)
{
	u64 child = ctx->args[1];

	marked.delete(&child);
	killed.delete(&child);
	early.delete(&child);
	return 0;
}

INLINE void tell_if_marked(void *ctx, u64 key, struct last_words *words)
{
	u64 *mark_ns = marked.lookup(&key), ts_ns;

	if (!mark_ns)
		return;
	ts_ns = *mark_ns;
	if (!marked.delete(&key))
		tell_end(ctx, ts_ns, words);
}

/* (struct task_struct *task[, bool group_dead]): each thread, in its own context. */
int on_exit_scalar(struct bpf_raw_tracepoint_args *ctx)
{
	u64 thread = bpf_get_current_pid_tgid(), task = (u64)bpf_get_current_task(),
	    tid = (u32)thread;
	struct last_words words = {};

	words.ts_ns = bpf_ktime_get_ns();
	words.tgid = thread >> 32;
	words.tid = tid;
	words.uid = bpf_get_current_uid_gid();
	bpf_get_current_comm(words.comm, sizeof(words.comm));
	if (!killed.delete(&task)) {
		early.update(&task, &words);
		early.update(&tid, &words);
	}
	tell_if_marked(ctx, task, &words);
	tell_if_marked(ctx, tid, &words);
	return 0;
}
