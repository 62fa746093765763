# SPDX-License-Identifier: Apache-2.0
"""What to change for each mechanism, with the numbers of the run put in. That it helped is seen by comparing runs."""

from collections.abc import Callable, Iterable, Mapping

from tracer.units import GIB, MIB, format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import Named, count
from tracer.verdict.model import Remedy
from tracer.verdict.verify import AGAIN

DEFAULT_PREFETCH = 2
"""prefetch_factor of a DataLoader that names none."""
ROOM = 0.15
"""To be left between what a job needs and its limit."""
Advice = Callable[[Evidence], Iterable[Remedy]]


def remedies(named: Named, evidence: Evidence) -> tuple[Remedy, ...]:
    """Of the mechanism that is named first; of the others what tells them apart comes first."""
    advice = ADVICE.get(named.name)
    return tuple(advice(evidence)) if advice is not None else ()


def _workers(evidence: Evidence) -> int:
    return max(1, len(evidence.of_role("dataloader_worker")))


def _cow(evidence: Evidence) -> Iterable[Remedy]:
    heirs = max(1, sum(1 for one in evidence.people if one.inherited_bytes))
    share = evidence.inherited_bytes // heirs
    side = evidence.faults.side(evidence.copied_bytes or 0) if evidence.faults is not None else None
    if side is not None and side[0] == "main":
        yield from _cow_by_main(evidence, heirs)
        return
    all_copied = f"{heirs} x {format_bytes(share)} = {format_bytes(evidence.inherited_bytes)}"
    yield Remedy(
        do="Keep what the Dataset holds in arrays instead of lists and dicts of Python objects: one numpy array or "
        "torch tensor of numbers; strings as one buffer of bytes and an array of offsets; or a pyarrow table or "
        "a datasets.Dataset.",
        why="reading a Python object writes its reference count, and so copies the page that it lies in; an array is "
        f"one object. Left as it is it may come to {all_copied}",
        costs="decoding at each access",
        verify=AGAIN,
    )
    yield Remedy(
        do=f"Or fewer workers than {heirs}: num_workers={max(1, heirs // 2)}.",
        why=f"each costs up to {format_bytes(share)}",
        costs="slower loading; the growth remains for those that are left",
        verify=AGAIN,
    )


def _cow_by_main(evidence: Evidence, heirs: int) -> Iterable[Remedy]:
    """The process that forked wrote: what the workers hold is what was there before."""
    copied = format_bytes(evidence.copied_bytes or 0)
    each = format_bytes(evidence.inherited_bytes // heirs)
    yield Remedy(
        do="Start the workers before what is written to is there: make the DataLoader's iterator (persistent_workers="
        "True) before the model and its optimizer; or workers that inherit nothing: multiprocessing_context="
        '"forkserver".',
        why=f"the main process writes in place (weights, gradients, buffers) to what {heirs} forked processes "
        f"inherited, {each} each, and so has a copy of it, {copied} by now, while they keep what was there before",
        costs="with forkserver the Dataset is pickled to each worker, which imports all anew",
        verify=AGAIN,
    )
    yield Remedy(
        do="Or share what both need for good: tensor.share_memory_(), model.share_memory(), before the workers begin.",
        why="shared pages are written to where they are and not copied",
        costs="workers see what is written; it counts as shared memory (/dev/shm)",
        verify=AGAIN,
    )


def _worker_cache(evidence: Evidence) -> Iterable[Remedy]:
    workers = [one for one in evidence.of_role("dataloader_worker") if one.grown_bytes > 0]
    number, total = len(workers), sum(one.grown_bytes for one in workers)
    room = max(0, (evidence.limited.limit_bytes or evidence.now.usage_bytes) - evidence.now.held_bytes + total)
    each = int(room * (1 - ROOM)) // max(number, 1)
    yield Remedy(
        do=f"Bound what each worker caches to {format_bytes(each)} (functools.lru_cache(maxsize=...), an OrderedDict "
        "that drops its oldest), or cache on disk (memory-mapped numpy files, LMDB, webdataset).",
        why=f"{count(number, 'worker')} x {format_bytes(total // max(number, 1))} grew; each worker has a cache of its "
        "own, whatever the others have",
        costs="what falls out is read and decoded again",
        verify=AGAIN,
    )
    yield Remedy(
        do="If nothing is cached on purpose: persistent_workers=False, so that workers end with each epoch.",
        why="what a process holds ends with it",
        costs="workers start anew each epoch; growth within one epoch remains",
        verify=AGAIN,
    )


def _prefetch(evidence: Evidence) -> Iterable[Remedy]:
    number, shmem = _workers(evidence), evidence.now.shmem_bytes or 0
    waiting = number * DEFAULT_PREFETCH
    each = shmem // waiting
    yield Remedy(
        do=f"Smaller queue: prefetch_factor=1, or num_workers={max(1, number // 2)} instead of {number}.",
        why=f"{number} workers x prefetch_factor ({DEFAULT_PREFETCH}, if none is given) x one batch wait in shared "
        f"memory: {format_bytes(shmem)} are {number} x {DEFAULT_PREFETCH} x {format_bytes(each)} then",
        costs="the trainer may wait for data where steps are short",
        verify=AGAIN,
    )
    yield Remedy(
        do="Smaller batches in transit: let workers return uint8 and convert to float32 on the device; crop and "
        "resize in the worker.",
        why=f"of {format_bytes(shmem)} float32 takes four times what uint8 takes",
        costs="a conversion on the device",
        verify=AGAIN,
    )


def _shm_held(evidence: Evidence) -> Iterable[Remedy]:
    yield Remedy(
        do="Keep no batches, outputs or samples as they come from a DataLoader: keep numbers (loss.item()), or "
        "tensor.clone() of the part that is needed, and drop the batch.",
        why="a tensor from a worker lies in shared memory, which lives as long as any view of it: "
        f"{format_bytes(evidence.mapped_bytes)} here",
        costs="a copy of what is kept",
        verify=AGAIN,
    )


def _tmpfs(evidence: Evidence) -> Iterable[Remedy]:
    yield Remedy(
        do="Put the data on a disk (local NVMe, an emptyDir without medium: Memory) and map it from there; or remove "
        "what is done with from /dev/shm.",
        why=f"files in a tmpfs are memory, charged to who writes them: {format_bytes(evidence.now.shmem_bytes)} here; "
        "page cache of a disk's files is given up instead",
        costs="the first epoch reads from the disk",
        verify=AGAIN,
    )
    yield from _more_room(evidence, "or keep it there and count it in")


def _main(evidence: Evidence) -> Iterable[Remedy]:
    grown = format_bytes(max((one.grown_bytes for one in evidence.people), default=0))
    yield Remedy(
        do="Keep numbers, not tensors with a graph: total += loss.item() (not loss), outputs.append(x.detach().cpu()), "
        "torch.no_grad() in validation.",
        why=f"a tensor that needs gradients keeps all activations of its step: of these {grown} may be",
        costs="nothing (item() waits for the device)",
        verify=AGAIN,
    )
    yield Remedy(
        do="MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072 in the environment (with many threads "
        "MALLOC_ARENA_MAX=2, too).",
        why="glibc then gives freed blocks back to the kernel; if it stays flat, that was it",
        costs="more page faults, a little slower",
        verify=AGAIN,
    )
    yield Remedy(
        do="Preprocess and tokenize in a run of its own into files (datasets.Dataset, numpy.memmap), and map these.",
        why="mapped files are page cache, which is given up before anybody is killed; lists of Python numbers take 8 "
        "bytes and more an item",
        costs="space on a disk",
        verify=AGAIN,
    )


def _one_off(evidence: Evidence) -> Iterable[Remedy]:
    jump = format_bytes(max(0, evidence.now.held_bytes - evidence.level_bytes))
    yield Remedy(
        do="Checkpoint without a second copy: torch.save(model.state_dict(), path) straight to the file, no clone(), "
        "no BytesIO; with several ranks torch.distributed.checkpoint, or one after the other.",
        why=f"the copy is what came on top: at least {jump} before it was over",
        costs="the file is written while the job waits",
        verify=AGAIN,
    )
    yield Remedy(
        do="If it was the first step: an optimizer with less state (SGD, Adafactor, an 8-bit Adam), or the states on "
        "the device or on NVMe (DeepSpeed offload_optimizer device nvme).",
        why="Adam has two numbers of float32 for each weight on the CPU",
        costs="other convergence, or slower steps",
        verify=AGAIN,
    )
    yield from _more_room(evidence, "or room for it")


def _ranks(evidence: Evidence) -> Iterable[Remedy]:
    number = max(1, len(evidence.of_role("rank")))
    each = sum(one.grown_bytes for one in evidence.of_role("rank")) // number
    saved = format_bytes(each * (number - 1))
    yield Remedy(
        do="Load weights mapped: torch.load(path, mmap=True, map_location=...), safetensors, "
        "from_pretrained(low_cpu_mem_usage=True); or on rank 0 alone, and broadcast (FSDP sync_module_states=True).",
        why=f"{number} x {format_bytes(each)}: mapped pages are there once for all, which saves {saved}",
        costs="slower where the file is on a slow disk",
        verify=AGAIN,
    )
    yield Remedy(
        do="If it is the dataset: prepare it once into files and map them in each rank (datasets.Dataset, "
        "numpy.memmap), or give each rank its shard.",
        why=f"one copy for all ranks saves {saved}",
        costs="space on a disk",
        verify=AGAIN,
    )


def _asymmetry(evidence: Evidence) -> Iterable[Remedy]:
    top = max(evidence.people, key=lambda one: one.grown_bytes)
    yield Remedy(
        do=f"Bound what {top.who} keeps: write metrics, outputs and samples out every few steps and drop them; gather "
        "results as numbers, or in pieces.",
        why=f"it grew by {format_bytes(top.grown_bytes)} beyond what the other ranks needed for the same work",
        costs="some writing",
        verify=AGAIN,
    )


def _kernel(evidence: Evidence) -> Iterable[Remedy]:
    yield Remedy(
        do="Close what is opened: subprocess pipes that nobody reads, sockets, files and directories; read pipes to "
        "their end, or give stdout=subprocess.DEVNULL.",
        why=f"{format_bytes(evidence.kernel_grown_bytes)} of memory of the kernel are held for open things, up to "
        "64 KiB a full pipe (more after F_SETPIPE_SZ)",
        costs="nothing",
        verify=AGAIN,
    )


def _pinned(evidence: Evidence) -> Iterable[Remedy]:
    yield Remedy(
        do="pin_memory=False, or pin one set of buffers and use it again; PYTORCH_CUDA_ALLOC_CONF="
        "pinned_use_cuda_host_register:True where sizes are odd.",
        why=f"{format_bytes(evidence.pinned_bytes)} are locked; PyTorch rounds pinned sizes up to a power of two and "
        "keeps them",
        costs="slower copies to the device",
        verify=AGAIN,
    )


def _neighbour(evidence: Evidence) -> Iterable[Remedy]:
    who = ", ".join(evidence.outside_names) or "whoever it is (ps, systemd-cgls)"
    yield Remedy(
        do=f"Give the job a limit of its own (oomtrace run --memory-max, a pod or a Slurm step of its own), and one to "
        f"{who}.",
        why=f"{format_bytes(evidence.outside_bytes)} of the same limit were taken by processes that are none of the "
        "job's, and the kernel chooses the largest process, whoever grew",
        costs="each gets less than both have now",
        verify=AGAIN,
    )


def _tight(evidence: Evidence) -> Iterable[Remedy]:
    yield from _more_room(evidence, "the job needs it")
    yield Remedy(
        do="Or need less: smaller batches with gradient accumulation, a bound on the length of a sample, one worker "
        "less.",
        why=f"the level was {format_bytes(evidence.level_bytes)}, and the last "
        f"{format_bytes(max(0, evidence.now.held_bytes - evidence.level_bytes))} did not fit",
        costs="slower steps",
        verify=AGAIN,
    )


def _more_room(evidence: Evidence, why: str) -> Iterable[Remedy]:
    limit = evidence.limited.limit_bytes
    if limit is None or evidence.limited.machine:
        return
    unit = GIB if limit >= 4 * GIB else 64 * MIB
    wanted = -(-int(evidence.now.held_bytes * (1 + ROOM)) // unit) * unit
    yield Remedy(
        do=f"A limit of {format_bytes(wanted)} at least: oomtrace run --memory-max, resources.limits.memory of the "
        "pod, sbatch --mem, docker run --memory, MemoryMax= of the unit.",
        why=f"{why}: {format_bytes(evidence.now.held_bytes)} were in use when the kill came, and more was wanted",
        costs="memory that others cannot have; of no use against growth that goes on",
        verify=AGAIN,
    )


ADVICE: Mapping[str, Advice] = {
    "cow_refcount": _cow,
    "worker_cache": _worker_cache,
    "prefetch_queue": _prefetch,
    "shm_held": _shm_held,
    "tmpfs_data": _tmpfs,
    "main_process_growth": _main,
    "optimizer_state": _one_off,
    "checkpoint_spike": _one_off,
    "model_duplication": _ranks,
    "dataset_in_ram": _ranks,
    "rank_asymmetry": _asymmetry,
    "kernel_memory": _kernel,
    "pinned_memory": _pinned,
    "neighbour": _neighbour,
    "limit_too_tight": _tight,
}
