// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Calls of CUDA's driver library that allocate, pin and free: uprobes that user space puts on libcuda, by inode.
 *
 * One program for each function that is entered, since none could find out which it is (uprobes with cookies for many
 * functions at once came with 6.6), and one for all that return. They run in the calling thread. What is kept of them,
 * and what is told: cuda_state.c.
 */

/* Helper 174, since 5.15; BCC has a name for it from some version on. */
static u64 (*cuda_cookie)(void *ctx) = (void *)174;

/*
 * The loader puts another number into each function's copy of the program; or 0, where one link holds the probes on
 * all functions (6.6) and gives each its number. Where it is not 0 the verifier does not come to the helper.
 */
INLINE struct cuda_function cuda_function(void *ctx)
{
	struct cuda_function function;
	u64 code;

	asm volatile("%0 = %1" : "=r"(code) : "i"(CUDA_CODE));
	if (!code)
		code = cuda_cookie(ctx);
	function.symbol = code & 0xff;
	function.memory = code >> 8 & 0xf;
	function.action = code >> 12 & 0xf;
	function.space = code >> 16 & 0xf;
	function.size = code >> 20 & 0xf;
	function.narrow_size = code >> 24 & 1;
	function.narrow_address = code >> 25 & 1;
	function.by_property = code >> 26 & 1;
	return function;
}

/* A register, read here and now: left to itself the compiler makes one read of several at a computed place, which is refused. */
#define READ_REGISTER(register_)                \
	({                                      \
		u64 read_ = register_;          \
		asm volatile("" : "+r"(read_)); \
		read_;                          \
	})

INLINE u64 cuda_size(struct pt_regs *ctx, struct cuda_function *function)
{
	u64 second = READ_REGISTER(PT_REGS_PARM2(ctx)), third = READ_REGISTER(PT_REGS_PARM3(ctx));
	u64 fourth = READ_REGISTER(PT_REGS_PARM4(ctx));
	u64 bytes = second, by = 1;

	if (function->size == CUDA_NO_SIZE)
		return ABSENT;
	if (function->size == CUDA_THIRD_BY_FOURTH) {
		bytes = third;
		by = fourth;
	}
	if (function->narrow_size)
		return (u64)(u32)bytes * (u32)by;
	/* ABSENT is no size: what asks for all that there is asks for a little less. */
	if (bytes == ABSENT || (by && bytes > (ABSENT - 1) / by))
		return ABSENT - 1;
	return bytes * by;
}

/*
 * Where the memory lies. CUmemAllocationProp: type, requestedHandleTypes, location.type, location.id.
 * CU_MEM_LOCATION_TYPE_DEVICE is 1; 2 and above are the host and its NUMA nodes.
 */
INLINE u32 cuda_property(u64 at)
{
	u32 location = 0;

	bpf_probe_read_user(&location, sizeof(location), (void *)(at + 8));
	return location > 1 ? CUDA_MEMORY_PINNED : CUDA_MEMORY_DEVICE;
}

/* Of a function that is watched: loaded once for each of them. */
int on_cuda_enter(struct pt_regs *ctx)
{
	struct task_struct *task = current_task();
	struct cuda_entered *outer, entered = {};
	u64 id = bpf_get_current_pid_tgid();
	struct cuda_running *running;
	struct cuda_holding *held;
	struct cuda_key key = {};
	u32 stale = 0;

	if (!in_tree(task))
		return 0;
	entered.function = cuda_function(ctx);
	entered.sp = PT_REGS_SP(ctx);
	outer = cuda_entered.lookup(&id);
	if (outer && outer->sp > entered.sp) {
		outer->within += 1;
		if (outer->within <= MAX_WITHIN)
			return 0;
		stale = 1;
	}
	/* At the same height another function may stand in for the first one; the same one cannot: it never returned. */
	if (outer && (outer->sp < entered.sp || outer->function.symbol == entered.function.symbol))
		stale = 1;
	entered.entered_ns = bpf_ktime_get_ns();
	entered.bytes = cuda_size(ctx, &entered.function);
	entered.address = PT_REGS_PARM1(ctx);
	entered.second = PT_REGS_PARM2(ctx);
	if (entered.function.by_property)
		entered.function.memory = cuda_property(PT_REGS_PARM3(ctx));
	key.tgid = id >> 32;
	running = cuda_known(key.tgid, start_of(task));
	if (entered.function.action == CUDA_FREES) {
		if (entered.function.narrow_address)
			entered.address = (u32)entered.address;
		if (running) {
			key.address = entered.address;
			key.owner = running->owner;
			key.space = entered.function.space;
			held = cuda_held.lookup(&key);
			if (held) {
				entered.held_bytes = held->bytes;
				entered.held_memory = held->memory;
				cuda_held.delete(&key);
			}
		}
	}
	if (cuda_entered.update(&id, &entered))
		stale = 1;
	if (stale) {
		running = cuda_process(key.tgid, start_of(task));
		if (running)
			__sync_fetch_and_add(&running->totals.untold, 1);
	}
	return 0;
}

/* Of all these functions: whichever was entered first by this thread returns. */
int on_cuda_return(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	struct cuda_entered *found = cuda_entered.lookup(&id), entered;
	struct cuda_told told = {};
	struct cuda_running *running;

	if (!found || PT_REGS_SP(ctx) != RETURN_SP(found->sp))
		return 0;
	entered = *found;
	cuda_entered.delete(&id);
	running = cuda_process(id >> 32, start_of(current_task()));
	if (!running)
		return 0;
	told.now_ns = bpf_ktime_get_ns();
	told.failed_bytes = ABSENT;
	told.failed_ns = ABSENT;
	told.result = (s32)PT_REGS_RC(ctx);
	if (!running->totals.first_ns)
		running->totals.first_ns = told.now_ns;
	running->totals.last_ns = told.now_ns;
	if (entered.function.action == CUDA_FREES) {
		cuda_freed(running, &entered, told.result);
	} else if (entered.function.action != CUDA_TELLS) {
		cuda_allocated(ctx, running, &entered, &told);
	} else if (!told.result) {
		running->totals.info_ns = told.now_ns;
		running->totals.info_free_bytes =
			cuda_answer(entered.address, entered.function.narrow_address);
		running->totals.info_total_bytes =
			cuda_answer(entered.second, entered.function.narrow_address);
	}
	return 0;
}

/*
 * raw tracepoint sched:sched_process_exit, once a thread, in its own context: a call that it was in is not going to
 * return. The other program at this place may have taken the process out of the tree already, so that is not asked.
 */
int on_cuda_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	u64 id = bpf_get_current_pid_tgid(), process = start_of(task) ^ ((u64)tgid_of(task) << 32);
	struct cuda_running *running = cuda_running.lookup(&process);
	struct cuda_entered *left = cuda_entered.lookup(&id);
	struct cuda_totals *totals;

	/* It was taken for one that calls others: whether it was one is not known, since it did not return. */
	if (left && left->within) {
		if (!running)
			running = cuda_process(tgid_of(task), start_of(task));
		if (running)
			__sync_fetch_and_add(&running->totals.untold, left->within);
	}
	cuda_entered.delete(&id);
	/* Of threads that die together, two may come to this on kernels that do not say which is the last: told twice. */
	if (!running || READ(READ(task, task_struct, signal), signal_struct, live))
		return 0;
	totals = reserve(KIND_CUDA_TOTALS, sizeof(*totals), bpf_ktime_get_ns());
	if (totals) {
		for (u32 i = 2; i < sizeof(*totals) / 8; i++)
			((u64 *)totals)[i] = ((u64 *)running)[i];
		totals->ended = 1;
		submit(ctx, totals, KIND_CUDA_TOTALS);
	}
	cuda_running.delete(&process);
	return 0;
}

/* raw tracepoint sched:sched_process_exec: whatever the program before had allocated is gone with its memory map. */
int on_cuda_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	struct cuda_running *running = cuda_known(tgid_of(task), start_of(task));

	if (!running)
		return 0;
	running->owner += 1;
	running->totals.device_bytes = 0;
	running->totals.managed_bytes = 0;
	running->totals.pinned_bytes = 0;
	running->totals.registered_bytes = 0;
	return 0;
}
