// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What all hooks share: the way to user space, its counters, the tree filter, explicit reads of kernel memory.
 *
 * The loader joins the fragments into one translation unit, this one first, since BCC drops probe
 * functions of included files without a word. kernel.h is generated at load time from the running
 * kernel's BTF: views of the kernel's structs, and the sizes of the maps.
 */
#include "kernel.h"
#include "events.h"

#define INLINE static inline __attribute__((always_inline))
#define TICK_NS 10000000ULL
/* Told of one process that ends: more children than this are no job but a server. */
#define MAX_ORPHANS 64
#define ABSENT ((u64)-1)
#define ABSENT32 ((u32)-1)

#if PERF_BUFFER
/* Kernels without a ring buffer may have no arrays that can be mapped either (5.5). */
#define MMAPABLE 0
#define ENOSPC 28

/* Of each CPU the descriptor of its buffer, which user space puts there. */
BPF_PERF_OUTPUT(events);
/*
 * Where a record is put together before it is copied: one room per CPU and kind of record, since a program may
 * interrupt another one of its CPU. A kind has one program, and none meets itself halfway on its CPU: fork, exec,
 * exit and mark happen in tasks alone, whose tracepoints are not preempted (where a newer kernel allows that, it
 * starts no program that is at work on the CPU: "bpf: Prevent bpf program recursion for raw tracepoint probes",
 * 05b24ff9b2cf); interrupts send signals too, but signal_generate has siglock held and interrupts off, and an NMI
 * sends none; oom_kill_process holds oom_lock, one task of the machine at a time.
 */
struct record_room {
	u64 words[ROOM_BYTES / 8];
};
BPF_PERCPU_ARRAY(rooms, struct record_room, RECORD_KINDS);
#else
/* include/linux/bpf.h: BPF_F_MMAPABLE. User space reads the counters without a system call. */
#define MMAPABLE 1024

BPF_RINGBUF_OUTPUT(events, RING_PAGES);
#endif
BPF_F_TABLE("array", u32, u64, counters, COUNTER_SLOTS, MMAPABLE);
/* tgid -> start time of the processes of the job: user space adds the first one, fork adds the rest. */
BPF_TABLE("hash", u32, u64, tree, TREE_ENTRIES);
/* What user space switches while the programs run. */
BPF_ARRAY(settings, u64, SETTING_SLOTS);

/*
 * Every read of kernel memory is one of these. BCC would also rewrite a plain `task->mm`, but for
 * arrays embedded in a struct it does so wrongly, and says nothing.
 */
#define READ_INTO(to, from, type, member)        \
	bpf_probe_read_kernel(&(to), sizeof(to), \
			      (char *)(from) + __builtin_offsetof(struct type, member))
#define READ(from, type, member)                               \
	({                                                     \
		__typeof__(((struct type *)0)->member) value_; \
		READ_INTO(value_, from, type, member);         \
		value_;                                        \
	})

INLINE void count(u32 slot)
{
	u64 *counter = counters.lookup(&slot);

	if (counter)
		__sync_fetch_and_add(counter, 1);
}

/*
 * Room for one record, cleared (it holds old bytes) and with its head filled in; NULL, and counted, when there
 * is none. The loop is deliberate: see MAX_RECORD_BYTES in tracer/wire.py.
 */
INLINE void *reserve(u32 kind, u32 size, u64 ts_ns)
{
#if PERF_BUFFER
	u64 *record = (u64 *)rooms.lookup(&kind);
#else
	u64 *record = events.ringbuf_reserve(size);
#endif

	if (!record) {
		count(COUNTER_DROPPED + kind);
		return 0;
	}
	for (u32 i = 0; i < size / 8; i++)
		record[i] = 0;
	record[0] = ts_ns;
	((u32 *)record)[2] = kind;
	((u32 *)record)[3] = bpf_get_smp_processor_id();
	return record;
}

/* ctx: of the program, as the kernel gave it. */
#define submit(ctx, record, kind) submit_bytes(ctx, record, sizeof(*(record)), kind)

INLINE void submit_bytes(void *ctx, void *record, u32 size, u32 kind)
{
#if PERF_BUFFER
	int error = events.perf_submit(ctx, record, size);

	/*
	 * A full buffer also makes a record of the kernel's own, which tells how many were lost but not of what
	 * kind; before 56de4e8f9146 ("perf: Make perf_event_output() propagate the output() return", 5.1) it is
	 * all that is told. User space holds the one count against the other.
	 */
	if (error == -ENOSPC)
		count(COUNTER_FULL);
	if (error) {
		count(COUNTER_DROPPED + kind);
		return;
	}
#else
	bpf_ringbuf_submit(record, 0);
#endif
	count(COUNTER_SENT + kind);
}

/* The kernel stack of whoever runs; of an event with the same time. */
INLINE void send_stack(void *ctx, u32 tgid, u64 ts_ns)
{
	struct oom_stack *stack = reserve(KIND_OOM_STACK, sizeof(*stack), ts_ns);
	long bytes;

	if (!stack)
		return;
	stack->tgid = tgid;
	bytes = bpf_get_stack(ctx, stack->addresses, sizeof(stack->addresses), 0);
	stack->depth = bytes < 0 ? 0 : (u64)bytes >> 3;
	submit(ctx, stack, KIND_OOM_STACK);
}

INLINE struct task_struct *current_task(void)
{
	return (struct task_struct *)bpf_get_current_task();
}

#ifndef SCALARS_ONLY

/* A process starts when its thread group leader does; CLOCK_BOOTTIME, as /proc/PID/stat shows it. */
INLINE u64 start_of(struct task_struct *task)
{
	return READ(READ(task, task_struct, group_leader), task_struct, start_boottime);
}

INLINE u32 tgid_of(struct task_struct *task)
{
	return READ(task, task_struct, tgid);
}

INLINE struct task_struct *parent_of(struct task_struct *task)
{
	return READ(READ(task, task_struct, group_leader), task_struct, real_parent);
}

INLINE u32 uid_of(struct task_struct *task)
{
	return READ(READ(task, task_struct, real_cred), cred, uid);
}

/*
 * Whether the process is the one that was put in: a pid may be someone else's by now, and what user space
 * put in may be a pid of another namespace. User space knows start times by the tick (USER_HZ) alone.
 */
INLINE u32 in_tree(struct task_struct *task)
{
	u32 tgid = tgid_of(task);
	u64 *start_ns = tree.lookup(&tgid);

	return start_ns && *start_ns / TICK_NS == start_of(task) / TICK_NS;
}

#endif /* SCALARS_ONLY */

INLINE u64 setting(u32 slot)
{
	u64 *value = settings.lookup(&slot);

	return value ? *value : 0;
}

/* Whether forks and ends of all processes are sent: until a tree that runs already has been found whole. */
INLINE u32 follows_all(void)
{
	return setting(SETTING_FOLLOW_ALL) != 0;
}

#ifndef SCALARS_ONLY

/* The process's pids, one for each namespace down to its own, innermost one, and how deep that one lies. */
INLINE struct upid *pids_of(struct task_struct *task, u32 *level)
{
	struct pid *pid = READ(READ(task, task_struct, group_leader), task_struct, thread_pid);

	*level = READ(pid, pid, level);
	return (struct upid *)((char *)pid + __builtin_offsetof(struct pid, numbers));
}

INLINE u32 innermost_pid(struct task_struct *task, u32 *level)
{
	struct upid *pids = pids_of(task, level);

	return READ(pids + *level, upid, nr);
}

#define IS_OWN_NAMESPACE(upid_) \
	(READ(READ(upid_, upid, ns), pid_namespace, inum) == OWN_PID_NAMESPACE)

/*
 * How deep the namespace of user space lies, which cannot tell by itself: known from the first fork or new
 * thread in it, which the loader makes before it goes. Looking through all levels at each fork instead
 * would be a loop that verifiers up to 6.1 at least do not get to the end of.
 */
INLINE void learn_own_level(struct task_struct *task)
{
#if OWN_PID_NAMESPACE
	u32 level, slot = SETTING_OWN_LEVEL;
	struct upid *pids;
	u64 found;

	if (setting(slot))
		return;
	pids = pids_of(task, &level);
	found = level;
	if (IS_OWN_NAMESPACE(pids + level))
		settings.update(&slot, &found);
#endif
}

/* The pid that /proc shows to user space, which may live in a pid namespace of its own; 0: it shows none. */
INLINE u32 own_pid(struct task_struct *task)
{
#if OWN_PID_NAMESPACE
	u32 level, own_level = setting(SETTING_OWN_LEVEL);
	struct upid *pids = pids_of(task, &level);

	if (!own_level || own_level > level || !IS_OWN_NAMESPACE(pids + own_level))
		return 0;
	return READ(pids + own_level, upid, nr);
#else
	return tgid_of(task);
#endif
}

/* A per-CPU counter may be below zero for a while; the kernel's report prints 0 then, and so do we. */
INLINE u64 pages_to_bytes(s64 pages)
{
	return pages < 0 ? 0 : (u64)pages * PAGE_SIZE;
}

#define RSS_BYTES(mm, counter) pages_to_bytes(READ(mm, mm_struct, rss_stat[counter].count))

#endif /* SCALARS_ONLY */
