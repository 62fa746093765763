// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The line in which the kernel tells whose limit ran out and whom it chose, while it prints it.
 *
 * raw tracepoint printk:console (const char *text, size_t len). From 6.1 at the latest it is hit in the context of
 * whoever prints, for every message of any level, and a line that is put together (pr_cont) comes in pieces; up to
 * 5.15 only for what goes to a console, under a time stamp, in whatever task holds the console: nothing matches
 * then. Attached only where the log itself cannot be read. It is hit by each printk of the machine: the programs
 * ends after one look-up and, for others than the one that prints the line, eight bytes of text.
 *
 * mm/oom_kill.c, dump_oom_victim(): "oom-kill:constraint=...,nodemask=...", then cpuset_print_current_mems_allowed(),
 * mem_cgroup_print_oom_context(), and ",task=...,pid=...,uid=...\n"; then the mark. User space may write such text to
 * /dev/kmsg, which is printed in its own context: the stack of the first piece tells.
 */

#define OOM_KILL 0x6c6c696b2d6d6f6fULL /* "oom-kill" */
#define MAX_PIECES 24

/*
 * Who prints it, since when, and how many pieces so far. One is enough: oom_lock is held meanwhile. An array, since
 * printk may interrupt anything, a program's hold of a hash map's lock as well.
 */
struct printing {
	u64 thread;
	u64 first_ns;
	u32 pieces;
	u32 reserved;
};
BPF_ARRAY(printing, struct printing, 1);

/* The mark comes after the line: what is printed from there on is another one. */
INLINE void has_printed(void)
{
	u32 slot = 0;
	struct printing *now = printing.lookup(&slot);

	if (now && now->thread == bpf_get_current_pid_tgid())
		now->thread = 0;
}

int on_console(struct bpf_raw_tracepoint_args *ctx)
{
	const char *text = (const char *)ctx->args[0];
	u64 length = ctx->args[1], thread = bpf_get_current_pid_tgid(), ts_ns, head = 0;
	u32 slot = 0, piece;
	struct printing *now = printing.lookup(&slot);
	struct printed *printed;

	if (!now || (now->thread != thread && length < 20))
		return 0;
	bpf_probe_read_kernel(&head, sizeof(head), text);
	if (length >= 20 && head == OOM_KILL) {
		now->first_ns = bpf_ktime_get_ns();
		now->pieces = 0;
		now->thread = thread;
	}
	if (now->thread != thread)
		return 0;
	piece = now->pieces++;
	if (piece >= MAX_PIECES) {
		now->thread = 0;
		return 0;
	}
	ts_ns = piece ? bpf_ktime_get_ns() : now->first_ns;
	printed = reserve(KIND_PRINTED, sizeof(*printed), ts_ns);
	if (printed) {
		printed->first_ns = now->first_ns;
		printed->tgid = thread >> 32;
		printed->tid = thread;
		printed->piece = piece;
		printed->length = length;
		if (length > sizeof(printed->text))
			length = sizeof(printed->text);
		bpf_probe_read_kernel(printed->text, length, text);
		submit(ctx, printed, KIND_PRINTED);
	}
	if (!piece)
		send_stack(ctx, thread >> 32, ts_ns);
	return 0;
}
