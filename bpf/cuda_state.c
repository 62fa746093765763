// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * What is kept of calls of CUDA: each that is on its way, what was allocated and not freed, totals of each process,
 * and which calls are worth a record of their own.
 */

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
/* The return address has been popped. */
#define RETURN_SP(entered_sp) ((entered_sp) + 8)
#else
#define RETURN_SP(entered_sp) (entered_sp)
#endif

#define CUDA_OUT_OF_MEMORY 2
/* Failures of one kind of memory that wait for a call to survive them. */
#define WAITING 4
/* Places for kinds of memory; a power of two, see kind_at(). */
#define KINDS 8
#define PINNED_LEAST_BYTES (16ULL << 20)
#define PINNED_STEP_BYTES (256ULL << 20)
/* So many calls are part of another one at most; more, and that one has not returned as functions do (longjmp). */
#define MAX_WITHIN 16
/* Records of calls of one process: so many at once, and one more each so often. */
#define MAX_TOLD 200
#define TOLD_EACH_NS 50000000ULL

/* What is known of the function that was entered; the numbers, and what each of them is for: tracer/kernel/cudacalls.py. */
struct cuda_function {
	u32 symbol;
	u32 memory;
	u32 action;
	u32 space;
	u32 size;
	u32 narrow_size;
	u32 narrow_address;
	u32 by_property;
};

/* A call on its way. The one that a thread entered first counts; what that one calls is part of it. */
struct cuda_entered {
	struct cuda_function function;
	u32 held_memory;
	/* Calls that were taken for part of this one. */
	u32 within;
	u64 sp;
	u64 entered_ns;
	u64 bytes;
	/* Where the address is going to be put; or the address itself. */
	u64 address;
	/* Where the total is put, of cuMemGetInfo. */
	u64 second;
	/* Of what is freed: taken out as the call is entered, since the address may be another's before it returns. */
	u64 held_bytes;
};
BPF_TABLE("hash", u64, struct cuda_entered, cuda_entered, CUDA_CALLS);

struct cuda_key {
	u64 address;
	/* Of the process, and of its program: exec lets go of everything. */
	u64 owner;
	u32 tgid;
	u32 space;
};
struct cuda_holding {
	u64 bytes;
	u32 memory;
	u32 reserved;
};
BPF_TABLE("hash", struct cuda_key, struct cuda_holding, cuda_held, CUDA_HOLDINGS);

/* As the record has it, from `device_calls` on. */
struct cuda_sum {
	u64 calls;
	u64 failed;
	u64 bytes;
	u64 peak_bytes;
};
_Static_assert(__builtin_offsetof(struct cuda_totals, registered_calls) ==
		       __builtin_offsetof(struct cuda_totals, device_calls) +
			       3 * sizeof(struct cuda_sum),
	       "sums");

/* One process: first what user space reads, as the record; then what decides which calls are told. */
struct cuda_running {
	struct cuda_totals totals;
	u64 owner;
	u64 pinned_told_bytes;
	u64 told;
	u64 told_from_ns;
	u64 waiting_bytes[KINDS * WAITING];
	/* 0: the place is free. */
	u64 waiting_ns[KINDS * WAITING];
	u64 spare[(CUDA_RUNNING_BYTES - sizeof(struct cuda_totals)) / 8 - 4 - 2 * KINDS * WAITING];
};
_Static_assert(sizeof(struct cuda_running) == CUDA_RUNNING_BYTES, "size");
_Static_assert(__builtin_offsetof(struct cuda_running, owner) == CUDA_OWNER_AT * 8, "owner");
_Static_assert(sizeof(struct cuda_key) == 24, "key");
/* By start time and tgid. */
BPF_TABLE("hash", u64, struct cuda_running, cuda_running, CUDA_PROCESSES);
/* Never written: what a new process begins with, which is too large for the stack. */
BPF_PERCPU_ARRAY(cuda_blank, struct cuda_running, 1);

/* The totals of this very process; NULL: it has made no call yet. */
INLINE struct cuda_running *cuda_known(u32 tgid, u64 start_ns)
{
	u64 process = start_ns ^ ((u64)tgid << 32);

	return cuda_running.lookup(&process);
}

INLINE struct cuda_running *cuda_process(u32 tgid, u64 start_ns)
{
	struct cuda_running *running = cuda_known(tgid, start_ns), *blank;
	u64 process = start_ns ^ ((u64)tgid << 32);
	u32 zero = 0;

	if (running)
		return running;
	blank = cuda_blank.lookup(&zero);
	if (!blank)
		return 0;
	/* Two threads may come here at once: one of them puts it in, and both write the same into it. */
	cuda_running.insert(&process, blank);
	running = cuda_running.lookup(&process);
	if (!running) {
		count(COUNTER_CUDA_LOST);
		return 0;
	}
	if (!running->owner) {
		running->totals.info_ns = ABSENT;
		running->totals.info_free_bytes = ABSENT;
		running->totals.info_total_bytes = ABSENT;
		running->owner = start_ns;
	}
	running->totals.tgid = tgid;
	running->totals.start_ns = start_ns;
	return running;
}

/*
 * The place of a kind of memory. What it is has been checked, so the compiler would leave out the mask, by which
 * alone the verifier knows that the place lies within the value.
 */
INLINE u64 kind_at(u32 memory)
{
	u64 at = memory - CUDA_MEMORY_DEVICE;

	asm volatile("" : "+r"(at));
	return at & (KINDS - 1);
}

INLINE struct cuda_sum *cuda_sum_of(struct cuda_running *running, u32 memory)
{
	return (struct cuda_sum *)&running->totals.device_calls + kind_at(memory);
}

/* An address or a size that the call has put where it was told to. */
INLINE u64 cuda_answer(u64 at, u32 narrow)
{
	u64 value = 0;

	if (bpf_probe_read_user(&value, narrow ? 4 : 8, (void *)at))
		return ABSENT;
	return value;
}

/* How often it asked for memory, this call included. */
INLINE u64 cuda_asked(struct cuda_running *running)
{
	return running->totals.device_calls + running->totals.managed_calls +
	       running->totals.pinned_calls + running->totals.registered_calls;
}

/* Whether there is room for a record of one more call. */
INLINE u32 cuda_may_tell(struct cuda_running *running, u64 now_ns)
{
	u64 since_ns = now_ns - running->told_from_ns, more = since_ns / TOLD_EACH_NS;

	if (!running->told_from_ns || since_ns > MAX_TOLD * TOLD_EACH_NS) {
		running->told = 0;
		running->told_from_ns = now_ns;
	} else if (more) {
		running->told = running->told > more ? running->told - more : 0;
		running->told_from_ns += more * TOLD_EACH_NS;
	}
	if (running->told >= MAX_TOLD)
		return 0;
	running->told += 1;
	return 1;
}

struct cuda_told {
	u64 now_ns;
	u64 failed_bytes;
	u64 failed_ns;
	s32 result;
	u32 why;
};

INLINE void cuda_tell(void *ctx, struct cuda_running *running, struct cuda_entered *entered,
		      struct cuda_told *told)
{
	u64 id = bpf_get_current_pid_tgid();
	struct cuda_call *call;

	if (!cuda_may_tell(running, told->now_ns)) {
		__sync_fetch_and_add(&running->totals.calls_untold, 1);
		return;
	}
	call = reserve(KIND_CUDA_CALL, sizeof(*call), told->now_ns);
	if (!call)
		return;
	call->start_ns = running->totals.start_ns;
	call->entered_ns = entered->entered_ns;
	call->bytes = entered->bytes;
	call->failed_bytes = told->failed_bytes;
	call->failed_ns = told->failed_ns;
	call->device_bytes = running->totals.device_bytes;
	call->managed_bytes = running->totals.managed_bytes;
	call->pinned_bytes = running->totals.pinned_bytes;
	call->registered_bytes = running->totals.registered_bytes;
	call->info_ns = running->totals.info_ns;
	call->info_free_bytes = running->totals.info_free_bytes;
	call->info_total_bytes = running->totals.info_total_bytes;
	call->asked = cuda_asked(running);
	call->tgid = id >> 32;
	call->tid = id;
	call->symbol = entered->function.symbol;
	call->memory = entered->function.memory;
	call->result = told->result;
	call->why = told->why;
	READ_INTO(call->comm, current_task(), task_struct, comm);
	submit(ctx, call, KIND_CUDA_CALL);
}

/* A call wanted memory and did not get it: until a later one gets as much, that is open. */
INLINE void cuda_wait(struct cuda_running *running, u32 memory, u64 bytes, u64 now_ns)
{
	u64 *waiting_bytes = running->waiting_bytes + kind_at(memory) * WAITING;
	u64 *waiting_ns = running->waiting_ns + kind_at(memory) * WAITING;

	/* Who survives the larger one survives the smaller one, too; the same size again is the same wish. */
#pragma unroll
	for (u32 i = 0; i < WAITING; i++) {
		if (!waiting_ns[i] || waiting_bytes[i] == bytes) {
			waiting_bytes[i] = bytes;
			waiting_ns[i] = now_ns;
			return;
		}
	}
	/* Which of these are survived is not going to be told of all. */
	__sync_fetch_and_add(&running->totals.calls_untold, 1);
	waiting_bytes[WAITING - 1] = bytes;
	waiting_ns[WAITING - 1] = now_ns;
}

/* Whether the call got what others had not got: then of the largest one of them. */
INLINE u32 cuda_survives(struct cuda_running *running, u32 memory, u64 bytes,
			 struct cuda_told *told)
{
	u64 *waiting_bytes = running->waiting_bytes + kind_at(memory) * WAITING;
	u64 *waiting_ns = running->waiting_ns + kind_at(memory) * WAITING;
	u32 found = 0;

#pragma unroll
	for (u32 i = 0; i < WAITING; i++) {
		if (waiting_ns[i] && waiting_bytes[i] <= bytes) {
			if (!found || waiting_bytes[i] >= told->failed_bytes) {
				told->failed_bytes = waiting_bytes[i];
				told->failed_ns = waiting_ns[i];
			}
			waiting_ns[i] = 0;
			found = 1;
		}
	}
	return found;
}

/* How much more has to be pinned until that is told again: as much again, within bounds. */
INLINE u32 cuda_pinned_more(struct cuda_running *running)
{
	u64 pinned = running->totals.pinned_bytes + running->totals.registered_bytes;
	u64 told = running->pinned_told_bytes, step = told;

	if (step < PINNED_LEAST_BYTES)
		step = PINNED_LEAST_BYTES;
	if (step > PINNED_STEP_BYTES)
		step = PINNED_STEP_BYTES;
	if ((s64)pinned < (s64)(told + step))
		return 0;
	running->pinned_told_bytes = pinned;
	return 1;
}

/* Puts down what is allocated, so that its size is known when it is freed. */
INLINE void cuda_hold(struct cuda_running *running, struct cuda_entered *entered,
		      struct cuda_sum *sum)
{
	struct cuda_holding holding = {}, *older;
	struct cuda_key key = {};

	key.address = entered->address;
	if (entered->function.action == CUDA_ALLOCATES)
		key.address = cuda_answer(entered->address, entered->function.narrow_address);
	key.owner = running->owner;
	key.tgid = running->totals.tgid;
	key.space = entered->function.space;
	holding.bytes = entered->bytes;
	holding.memory = entered->function.memory;
	older = cuda_held.lookup(&key);
	if (older && older->memory >= CUDA_MEMORY_DEVICE && older->memory < CUDA_MEMORY_OTHER) {
		/* It was freed, and we did not see that. */
		__sync_fetch_and_add(&cuda_sum_of(running, older->memory)->bytes, -older->bytes);
		__sync_fetch_and_add(&running->totals.untold, 1);
	}
	if (key.address == ABSENT || cuda_held.update(&key, &holding)) {
		__sync_fetch_and_add(&running->totals.untold, 1);
		return;
	}
	__sync_fetch_and_add(&sum->bytes, entered->bytes);
	if (sum->bytes > sum->peak_bytes && !(sum->bytes >> 63))
		sum->peak_bytes = sum->bytes;
}

INLINE void cuda_allocated(void *ctx, struct cuda_running *running, struct cuda_entered *entered,
			   struct cuda_told *told)
{
	u32 memory = entered->function.memory;
	/* Of what has no size the least is known. */
	u64 bytes = entered->bytes == ABSENT ? 0 : entered->bytes;
	struct cuda_sum *sum;

	if (memory < CUDA_MEMORY_DEVICE || memory > CUDA_MEMORY_OTHER)
		return;
	/* Of OTHER the record has calls and failures alone. */
	sum = cuda_sum_of(running, memory);
	__sync_fetch_and_add(&sum->calls, 1);
	if (told->result) {
		__sync_fetch_and_add(&sum->failed, 1);
		if (told->result == CUDA_OUT_OF_MEMORY)
			cuda_wait(running, memory, bytes, told->now_ns);
		told->why = CALL_WHY_FAILED;
		cuda_tell(ctx, running, entered, told);
		return;
	}
	if (entered->bytes != ABSENT && memory < CUDA_MEMORY_OTHER)
		cuda_hold(running, entered, sum);
	if (cuda_survives(running, memory, bytes, told))
		told->why = CALL_WHY_SURVIVED;
	else if (cuda_pinned_more(running))
		told->why = CALL_WHY_PINNED;
	else
		return;
	cuda_tell(ctx, running, entered, told);
}

INLINE void cuda_freed(struct cuda_running *running, struct cuda_entered *entered, s32 result)
{
	u32 memory = entered->held_memory;
	struct cuda_holding holding = {};
	struct cuda_key key = {};

	if (memory < CUDA_MEMORY_DEVICE || memory >= CUDA_MEMORY_OTHER) {
		if (!result && entered->address)
			__sync_fetch_and_add(&running->totals.unknown_frees, 1);
		return;
	}
	if (!result) {
		__sync_fetch_and_add(&cuda_sum_of(running, memory)->bytes, -entered->held_bytes);
		return;
	}
	/* It is still there. */
	key.address = entered->address;
	key.owner = running->owner;
	key.tgid = running->totals.tgid;
	key.space = entered->function.space;
	holding.bytes = entered->held_bytes;
	holding.memory = memory;
	if (cuda_held.insert(&key, &holding))
		__sync_fetch_and_add(&running->totals.untold, 1);
}
