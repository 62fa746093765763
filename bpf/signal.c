// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Fatal signals: who sent what to whom.
 *
 * raw tracepoint signal:signal_generate (int sig, struct kernel_siginfo *info, struct task_struct *task,
 * int group, int result), in this order from 4.18 to 7.x: in the sender's context, the target's siglock held.
 * signal_deliver says nothing of the cause: by then a group exit hides it.
 */

#define SIGABRT 6
#define SIGBUS 7
#define SIGKILL 9
#define SIGSEGV 11
#define SIGTERM 15
#define SI_USER 0
#define SI_KERNEL 0x80

/*
 * Thread that is killing -> task that it just sent the kernel's SIGKILL to. The OOM killer does so right
 * before it marks that very task, which older kernels name in the mark by its pid alone.
 */
BPF_TABLE("lru_hash", u64, u64, being_killed, 1024);

INLINE u32 is_fatal(int sig)
{
	return sig == SIGKILL || sig == SIGTERM || sig == SIGBUS || sig == SIGSEGV ||
	       sig == SIGABRT;
}

/* SEND_SIG_NOINFO, _PRIV and _FORCED are small numbers in place of a pointer: TP_STORE_SIGINFO(). */
INLINE void fill_info(struct signal_sent *sent, u64 info)
{
	if (info < SIGNAL_INFO_POINTER) {
		sent->info = info;
		sent->code = info == SIGNAL_INFO_PRIV ? SI_KERNEL : SI_USER;
		return;
	}
	sent->info = SIGNAL_INFO_POINTER;
	sent->code = READ(info, kernel_siginfo, si_code);
	sent->errno = READ(info, kernel_siginfo, si_errno);
}

int on_signal_generate(struct bpf_raw_tracepoint_args *ctx)
{
	int sig = ctx->args[0];
	u64 info = ctx->args[1];
	struct task_struct *task = (struct task_struct *)ctx->args[2];
	struct task_struct *sender = current_task(), *parent;
	struct signal_sent *sent;

	if (!is_fatal(sig))
		return 0;
	if (sig == SIGKILL && (info == SIGNAL_INFO_PRIV || info == SIGNAL_INFO_FORCED)) {
		u64 killer = bpf_get_current_pid_tgid(), victim = (u64)task;

		being_killed.update(&killer, &victim);
	}
	sent = reserve(KIND_SIGNAL_SENT, sizeof(*sent), bpf_ktime_get_ns());
	if (!sent)
		return 0;
	parent = parent_of(sender);
	sent->start_ns = start_of(task);
	sent->sender_start_ns = start_of(sender);
	sent->sender_parent_start_ns = start_of(parent);
	sent->sender_cgroup_id = memcg_id(memcg_of(sender)) ?: ABSENT;
	sent->tgid = tgid_of(task);
	sent->tid = READ(task, task_struct, pid);
	sent->sender_tgid = tgid_of(sender);
	sent->sender_tid = READ(sender, task_struct, pid);
	sent->sender_parent_tgid = tgid_of(parent);
	sent->sender_uid = uid_of(sender);
	sent->signal = sig;
	fill_info(sent, info);
	sent->group = ctx->args[3];
	sent->result = ctx->args[4];
	sent->sender_flags = READ(sender, task_struct, flags);
	sent->in_tree = in_tree(task);
	READ_INTO(sent->comm, task, task_struct, comm);
	READ_INTO(sent->sender_comm, sender, task_struct, comm);
	READ_INTO(sent->sender_parent_comm, parent, task_struct, comm);
	submit(ctx, sent, KIND_SIGNAL_SENT);
	return 0;
}
