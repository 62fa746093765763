# SPDX-License-Identifier: Apache-2.0
"""Every shape of line that a training log may have, each once, with values of our own."""

import pytest

from tracer.logs.training import KINDS, TrainingReader, recognise

GIB, MIB = 1 << 30, 1 << 20
V2 = ("CUDA out of memory. Tried to allocate 384.00 MiB (GPU 1; 15.75 GiB total capacity; 13.50 GiB already allocated; "
      "120.00 MiB free; 14.25 GiB {})")  # fmt: skip
V3 = ("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total {} of 80.00 GiB of which 1.25 GiB is free. "
      "Including non-PyTorch memory, this process has 78.50 GiB memory in use. Of the allocated memory 76.00 GiB is "
      "allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated. If reserved")  # fmt: skip
V2_NUMBERS = {"requested_bytes": 384 * MIB, "total_bytes": round(15.75 * GIB), "free_bytes": 120 * MIB,
              "allocated_bytes": round(13.5 * GIB), "reserved_bytes": round(14.25 * GIB), "device": 1}  # fmt: skip
V3_NUMBERS = {"requested_bytes": round(2.5 * GIB), "total_bytes": 80 * GIB, "free_bytes": round(1.25 * GIB),
              "in_use_bytes": round(78.5 * GIB), "allocated_bytes": 76 * GIB, "unallocated_bytes": 512 * MIB,
              "device": 3}  # fmt: skip

LINES = [
    # DataLoader
    ("RuntimeError: DataLoader worker (pid 5121) is killed by signal: Killed. ",
     "worker_killed", {"pids": (5121,), "signal": 9, "what": "Killed"}),
    ("RuntimeError: DataLoader worker is killed by signal: Killed.", "worker_killed", {"signal": 9, "what": "Killed"}),
    ("RuntimeError: DataLoader worker (pid 17) is killed by signal: Bus error. It is possible that dataloader's "
     "workers "
     "are out of shared memory. Please try to raise your shared memory limit.",
     "worker_killed", {"pids": (17,), "signal": 7, "what": "Bus error"}),
    ("RuntimeError: DataLoader worker (pid 18) is killed by signal: Segmentation fault. ",
     "worker_killed", {"pids": (18,), "signal": 11, "what": "Segmentation fault"}),
    ("RuntimeError: DataLoader worker (pid 19) is killed by signal: Terminated. ",
     "worker_killed", {"pids": (19,), "signal": 15, "what": "Terminated"}),
    ("RuntimeError: DataLoader worker (pid 20) is killed by signal: Aborted. ",
     "worker_killed", {"pids": (20,), "signal": 6, "what": "Aborted"}),
    ("RuntimeError: DataLoader worker (pid(s) 611) exited unexpectedly", "worker_exited", {"pids": (611,)}),
    ("RuntimeError: DataLoader worker (pid(s) 611, 612, 615) exited unexpectedly",
     "worker_exited", {"pids": (611, 612, 615)}),
    ("RuntimeError: DataLoader worker (pid 613) exited unexpectedly with exit code 1. Details are lost due to "
     "multiprocessing. Rerunning with num_workers=0 may give better error trace.",
     "worker_exited", {"pids": (613,), "exit_code": 1}),
    ("RuntimeError: Caught MemoryError in DataLoader worker process 3.",
     "worker_raised", {"what": "MemoryError", "worker": 3}),
    ("ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
     "worker_fault", {"signal": 7, "what": "bus error"}),
    ("ERROR: Unexpected segmentation fault encountered in worker.",
     "worker_fault", {"signal": 11, "what": "segmentation fault"}),
    ("RuntimeError: Caught AcceleratorError in pin memory thread for device 2.",
     "pin_thread", {"what": "AcceleratorError", "numbers": {"device": 2}}),
    ("RuntimeError: Pin memory thread exited unexpectedly", "pin_thread", {}),
    ("RuntimeError: DataLoader timed out after 120 seconds", "loader_timeout", {"numbers": {"seconds": 120}}),
    # shared memory
    ("RuntimeError: unable to write to file </torch_4711_1396182366_0>: No space left on device (28)",
     "shm", {"pids": (4711,), "what": "/torch_4711_1396182366_0", "numbers": {"errno": 28}}),
    ("RuntimeError: unable to write to file </torch_4711_1396182366_0>",
     "shm", {"pids": (4711,), "what": "/torch_4711_1396182366_0"}),
    ("RuntimeError: unable to allocate shared memory(shm) for file </torch_88_7_9>: No space left on device (28)",
     "shm", {"pids": (88,), "what": "/torch_88_7_9", "numbers": {"errno": 28}}),
    ("RuntimeError: unable to open shared memory object </torch_88_7> in read-write mode: Too many open files (24)",
     "shm", {"pids": (88,), "what": "/torch_88_7", "numbers": {"errno": 24}}),
    ("RuntimeError: $ Torch: unable to mmap memory: you tried to mmap 0GB. at /build/TH/THAllocator.c:317",
     "shm", {"what": "THAllocator"}),
    ("RuntimeError: Too many open files. Communication with the workers is no longer possible. Please increase the "
     "limit",
     "shm", {"what": "Too many open files"}),
    ("RuntimeError: received 0 items of ancdata", "shm", {"what": "Too many open files"}),
    ("node3:77:901 [2] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-aB3xQ1 to 9637892 bytes, "
     "error: No space left on device (28)",
     "shm", {"what": "/dev/shm/nccl-aB3xQ1", "numbers": {"requested_bytes": 9637892, "errno": 28}}),
    ("node3:77:901 [2] NCCL WARN Call to posix_fallocate failed : No space left on device",
     "shm", {"what": "posix_fallocate"}),
    ("NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Zk91aa (size 5767520)",
     "shm", {"what": "/dev/shm/nccl-Zk91aa", "numbers": {"requested_bytes": 5767520}}),
    # launchers
    ("E1130 17:25:59.301000 7900 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) "
     "local_rank: 1 (pid: 8032) of binary: /opt/conda/bin/python",
     "rank_failed", {"pids": (8032,), "local_rank": 1, "exit_code": -9, "signal": 9}),
    ("ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 51) of binary: /p",
     "rank_failed", {"pids": (51,), "local_rank": 0, "exit_code": 1}),
    ("failed (exitcode: -7) for binary located at /usr/bin/python3 with local_rank: 2 (process ID: 52)",
     "rank_failed", {"pids": (52,), "local_rank": 2, "exit_code": -7, "signal": 7}),
    ("WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 8030 closing signal SIGTERM",
     "launcher_signals", {"pids": (8030,), "signal": 15}),
    ("Sending process 8031 the closing signal SIGTERM", "launcher_signals", {"pids": (8031,), "signal": 15}),
    ("Closing process 8033 via signal SIGTERM", "launcher_signals", {"pids": (8033,), "signal": 15}),
    ("Unable to shutdown process 8034 via 15, forcefully exiting via 9",
     "launcher_signals", {"pids": (8034,), "signal": 9}),
    ("Unable to shutdown process 8034 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL",
     "launcher_signals", {"pids": (8034,), "signal": 9}),
    ("W1130 Received 15 death signal, shutting down workers", "launcher_stopped", {"signal": 15}),
    ("W1130 Received Signals.SIGTERM death signal, shutting down workers", "launcher_stopped", {"signal": 15}),
    ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 7900 got signal: 15",
     "launcher_stopped", {"pids": (7900,), "signal": 15}),
    ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
     "spawn_failed", {"local_rank": 1, "what": "SIGKILL", "signal": 9}),
    ("Exception: process 0 terminated with signal SIGSEGV",
     "spawn_failed", {"local_rank": 0, "what": "SIGSEGV", "signal": 11}),
    ("Exception: process 2 terminated with exit code 17", "spawn_failed", {"local_rank": 2, "exit_code": 17}),
    ("Killing subprocess 2200", "launcher_kills", {"pids": (2200,)}),
    ("[2026-11-30 10:11:12,345] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 2201",
     "launcher_kills", {"pids": (2201,)}),
    ("subprocess.CalledProcessError: Command '['python', '-u', 'train.py']' died with <Signals.SIGKILL: 9>.",
     "exit_status", {"signal": 9}),
    ("[ERROR] [launch.py:325:sigkill_handler] ['/opt/python', '-u', 'train.py', '--local_rank=3'] exits with return "
     "code = -9", "exit_status", {"exit_code": -9, "signal": 9}),
    ("exits with return code = -11", "exit_status", {"exit_code": -11, "signal": 11}),
    ("[rank: 1] Child process with PID 905 terminated with code -9. Forcefully terminating all other processes to "
     "avoid "
     "zombies", "exit_status", {"rank": 1, "pids": (905,), "exit_code": -9, "signal": 9}),
    ("mpirun noticed that process rank 1 with PID 906 on node gpu-02 exited on signal 9 (Killed).",
     "exit_status", {"rank": 1, "pids": (906,), "signal": 9}),
    ("prterun noticed that process rank 4 with PID 0 on node gpu-02 exited on signal 9 (Killed).",
     "exit_status", {"rank": 4, "signal": 9}),
    ("Process 3 exit with status code 137.", "exit_status", {"rank": 3, "exit_code": 137, "signal": 9}),
    ("Training failed with error code -9", "exit_status", {"exit_code": -9, "signal": 9}),
    ("Process finished with exit code 137 (interrupted by signal 9: SIGKILL)",
     "exit_status", {"exit_code": 137, "signal": 9}),
    ("AlgorithmError: ExecuteUserScriptError: Exit Code: 139", "exit_status", {"exit_code": 139, "signal": 11}),
    ("child exited, exit code: 247", "exit_status", {"exit_code": 247, "signal": 9}),
    ("RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, disable "
     "multiprocessing.", "subprocess_died", {}),
    ("concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the "
     "future was running or pending.", "subprocess_died", {}),
    ("A worker process managed by the executor was unexpectedly terminated. This could be caused by a segmentation",
     "subprocess_died", {}),
    ("Killed", "shell_killed", {"signal": 9}),
    ("Killed :9", "shell_killed", {"signal": 9}),
    ("./run.sh: line 28: 3141 Killed                  python train.py", "shell_killed", {"pids": (3141,), "signal": 9}),
    ("[1]+  Killed                  python train.py", "shell_killed", {"signal": 9}),
    ("zsh: killed     python train.py", "shell_killed", {"signal": 9}),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=777.0. Some of the step tasks have been OOM Killed.",
     "scheduler_oom", {"what": "slurm", "numbers": {"events": 1}}),
    ("slurmstepd: error: Detected 3 oom-kill event(s) in StepId=777.batch cgroup. Some of your processes may have",
     "scheduler_oom", {"what": "slurm", "numbers": {"events": 3}}),
    ("srun: error: gpu-07: task 2: Out Of Memory", "scheduler_oom", {"what": "slurm", "numbers": {"task": 2}}),
    ("slurmstepd: error: Job 778 exceeded memory limit (9437184 > 8388608), being killed",
     "scheduler_oom", {"what": "slurm"}),
    ("(raylet) 4 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons",
     "ray_memory", {"numbers": {"workers": 4}}),
    ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "ray_memory", {}),
    ("2 worker(s) were killed due to the node running low on memory.", "ray_memory", {"numbers": {"workers": 2}}),
    # device memory
    ("RuntimeError: " + V2.format("cached"), "device_oom", {"what": "CUDA", "numbers": V2_NUMBERS}),
    ("torch.cuda.OutOfMemoryError: " + V2.format("reserved in total by PyTorch"),
     "device_oom", {"what": "CUDA", "numbers": V2_NUMBERS}),
    ("torch.cuda.OutOfMemoryError: " + V3.format("capacty"), "device_oom", {"what": "CUDA", "numbers": V3_NUMBERS}),
    ("torch.OutOfMemoryError: " + V3.format("capacity"), "device_oom", {"what": "CUDA", "numbers": V3_NUMBERS}),
    ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 24.00 GiB",
     "device_oom", {"what": "HIP", "numbers": {"requested_bytes": 20 * MIB, "total_bytes": 24 * GIB, "device": 0}}),
    ("RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.", "device_oom", {"what": "CUDA"}),
    ("RuntimeError: CUDA out of memory. Tried to allocate 3725.29 GiB. GPU",
     "device_oom", {"what": "CUDA", "numbers": {"requested_bytes": round(3725.29 * GIB)}}),
    ("torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed "
     "per_process_memory_fraction limit. Requested size: 1.00 GiB",
     "device_oom", {"what": "CUDA", "numbers": {"requested_bytes": GIB}}),
    ("expandable_segments: memory mapping failed with OOM on device 1",
     "device_oom", {"what": "CUDA", "numbers": {"device": 1}}),
    ("Allocation on device 0 would exceed allowed memory. (out of memory)",
     "device_oom", {"what": "CUDA", "numbers": {"device": 0}}),
    ("[cudaMallocAsync] recovered from an allocation failure by trimming the pool and retrying.",
     "device_retry", {"what": "CUDA"}),
    ("torch.AcceleratorError: CUDA error: out of memory", "cuda_error", {"what": "out of memory"}),
    ("RuntimeError: CUDA driver error: out of memory", "cuda_error", {"what": "out of memory"}),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
     "device_oom", {"what": "library workspace"}),
    ("node1:12:99 [0] NCCL WARN Cuda failure 'out of memory'", "device_oom", {"what": "NCCL"}),
    ("node1:12:99 [0] NCCL WARN Cuda failure 2 'out of memory'", "device_oom", {"what": "NCCL"}),
    ("NCCL WARN Failed to CUDA calloc 6291456 bytes",
     "device_oom", {"what": "NCCL", "numbers": {"requested_bytes": 6291456}}),
    ("W tensorflow/core/common_runtime/bfc_allocator.cc:311] Allocator (GPU_0_bfc) ran out of memory trying to "
     "allocate "
     "1.25GiB with freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there",
     "device_retry", {"what": "GPU_0_bfc", "numbers": {"requested_bytes": round(1.25 * GIB)}}),
    ("W bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 64.00MiB (rounded to "
     "67108864)",
     "device_oom", {"what": "GPU_0_bfc", "numbers": {"requested_bytes": 64 * MIB}}),
    ("OOM when allocating tensor with shape[64,1024,1024] and type float on "
     "/job:localhost/replica:0/task:0/device:GPU:0 "
     "by allocator GPU_0_bfc", "device_oom", {"what": "TensorFlow"}),
    ("failed to allocate 2.00G (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
     "device_oom", {"what": "TensorFlow", "numbers": {"requested_bytes": 2 * GIB}}),
    ("jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 86.50GiB.",
     "device_oom", {"what": "XLA", "numbers": {"requested_bytes": round(86.5 * GIB)}}),
    ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4294967296 bytes.",
     "device_oom", {"what": "XLA", "numbers": {"requested_bytes": 4 * GIB}}),
    ("Ran out of memory in memory space hbm. Used 17.5G of 15.5G hbm. Exceeded hbm capacity by 2.0G.",
     "device_oom", {"what": "TPU", "numbers": {"used_bytes": round(17.5 * GIB), "total_bytes": round(15.5 * GIB)}}),
    ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
     "device_budget", {"what": "vLLM"}),
    ("ValueError: Free memory on device (3.25/4.0 GiB) on startup is less than desired GPU memory utilization (0.9, "
     "3.6 "
     "GiB).", "device_budget", {"what": "vLLM", "numbers": {"total_bytes": 4 * GIB}}),
    # host memory, nobody killed
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you "
     "tried to "
     "allocate 4398046511104 bytes. Error code 12 (Cannot allocate memory)",
     "host_alloc", {"what": "DefaultCPUAllocator", "numbers": {"requested_bytes": 4398046511104}}),
    ("RuntimeError: [enforce fail at ..\\c10\\core\\impl\\alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough "
     "memory: "
     "you tried to allocate 123456 bytes.",
     "host_alloc", {"what": "DefaultCPUAllocator", "numbers": {"requested_bytes": 123456}}),
    ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 37.3 GiB for an array with shape (100000, "
     "50000) and "
     "data type float64", "host_alloc", {"what": "numpy", "numbers": {"requested_bytes": round(37.3 * GIB)}}),
    ("MemoryError", "host_alloc", {"what": "MemoryError"}),
    ("MemoryError: Unable to allocate internal buffer.", "host_alloc", {"what": "MemoryError"}),
    ("terminate called after throwing an instance of 'std::bad_alloc'", "host_alloc", {"what": "std::bad_alloc"}),
    ("OSError: [Errno 12] Cannot allocate memory", "host_alloc", {"what": "ENOMEM"}),
    ("pyarrow.lib.ArrowMemoryError: malloc of size 8589934592 failed",
     "host_alloc", {"what": "Arrow", "numbers": {"requested_bytes": 8589934592}}),
    ("RuntimeError: unable to mmap 33554432 bytes from file </x>: Cannot allocate memory (12)",
     "host_alloc", {"what": "mmap", "numbers": {"requested_bytes": 33554432}}),
    ("OOM when allocating tensor with shape[1024,1024,1024] and type float on "
     "/job:localhost/replica:0/task:0/device:CPU:0 "
     "by allocator cpu", "host_alloc", {"what": "TensorFlow"}),
    ("E cuda_driver.cc:839] failed to alloc 8589934592 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
     "pinned_alloc", {"what": "TensorFlow", "numbers": {"requested_bytes": 8589934592}}),
    ("W gpu_host_allocator.h:44] could not allocate pinned host memory of size: 7730940928",
     "pinned_alloc", {"what": "TensorFlow", "numbers": {"requested_bytes": 7730940928}}),
    ("ResourceExhaustedError: cudaHostAlloc Cannot allocate 32 bytes in CUDAPinnedPlace",
     "pinned_alloc", {"what": "Paddle", "numbers": {"requested_bytes": 32}}),
    # what ranks say when another one is gone
    ("[E ProcessGroupNCCL.cpp:475] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=81, "
     "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.",
     "collective", {"what": "NCCL timeout", "rank": 3}),
    ("[PG ID 0 PG GUID 0(default_pg) Rank 5] Terminating the process after attempting to dump debug info, due to "
     "ProcessGroupNCCL watchdog hang.", "collective", {"what": "NCCL timeout", "rank": 5}),
    ("RuntimeError: NCCL communicator was aborted on rank 1.", "collective", {"what": "NCCL aborted"}),
    ("ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
     "collective", {"what": "NCCL error"}),
    ("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [10.0.0.7]:40123: Connection "
     "reset by "
     "peer", "collective", {"what": "gloo"}),
    ("RuntimeError: [/b/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:5432",
     "collective", {"what": "gloo"}),
    ("[W socket.cpp:464] sendBytes failed on SocketImpl(fd=3)", "collective", {"what": "store"}),
    ("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed.",
     "collective", {"what": "rendezvous"}),
    # how far it is
    ("Epoch 3/10", "progress", {"numbers": {"epoch": 3, "epochs": 10}}),
    ("epoch: 3, loss: 0.31", "progress", {"numbers": {"epoch": 3}}),
    ("Epoch [4/20], Step [100/400], Loss: 0.1",
     "progress", {"numbers": {"epoch": 4, "epochs": 20, "step": 100, "steps": 400}}),
    ("Epoch: [2][ 10/5005]\tTime  0.3", "progress", {"numbers": {"epoch": 2, "step": 10, "steps": 5005}}),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.21", "progress", {"numbers": {"epoch": 1, "step": 640, "steps": 60000}}),
    (" 10%|#         | 10/100 [00:01<00:09,  9.99it/s]", "progress", {"numbers": {"step": 10, "steps": 100}}),
    ("Epoch 0:  12%|\u2588\u258f        | 12/100 [00:01<00:10,  8.1it/s, v_num=3]",
     "progress", {"numbers": {"epoch": 0, "step": 12, "steps": 100}}),
    ("{'loss': 0.531, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.35}",
     "progress", {"numbers": {"epoch": 0.35}}),
    ("{'eval_loss': '0.5', 'epoch': '2.0'}", "progress", {"numbers": {"epoch": 2.0}}),
    ("iter 100: loss 2.3412, time 120.31ms, mfu 20.1%", "progress", {"numbers": {"step": 100}}),
    ("step 250: train loss 2.01, val loss 2.2", "progress", {"numbers": {"step": 250}}),
    (" iteration      120/    5000 | consumed samples:        3840 |",
     "progress", {"numbers": {"step": 120, "steps": 5000}}),
    ("[INFO] step=10, skipped=0, lr=[0.0001]", "progress", {"numbers": {"step": 10}}),
    ("global_step: 42", "progress", {"numbers": {"step": 42}}),
    # what it does just then
    ("Saving model checkpoint to out/checkpoint-500", "checkpoint", {"what": "saves"}),
    ("saving checkpoint at iteration     100 to /ckpt in torch_dist format",
     "progress", {"what": "saves", "numbers": {"step": 100}}),
    ("INFO now saving the full state dict ...", "checkpoint", {"what": "saves"}),
    ("'val_loss' reached 0.12 (best 0.12), saving model to '/x/a.ckpt' as top 1", "checkpoint", {"what": "saves"}),
    ("[2026-11-30 10:00:00,000] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving "
     "global_step5/mp_rank_00_model_states.pt...", "checkpoint", {"what": "saves"}),
    ("  successfully saved checkpoint from iteration to /ckpt", "checkpoint", {"what": "saved"}),
    ("checkpoint 12 was saved", "checkpoint", {"what": "saved"}),
    ("optimizer step", "optimizer_step", {"what": "steps"}),
    ("epoch 2 step 25: saving checkpoint", "progress", {"what": "saves", "numbers": {"epoch": 2, "step": 25}}),
    ("epoch 1 step 24: optimizer step", "progress", {"what": "steps", "numbers": {"epoch": 1, "step": 24}}),
]  # fmt: skip

NOTHING = [
    # the sources of these lines, as a traceback shows them
    'raise RuntimeError(f"DataLoader worker (pid(s) {pids_str}) exited unexpectedly") from e',
    "\u2502   raise RuntimeError('DataLoader worker (pid(s) {}) exited unexpectedly'.format(pids_str)) \u2502",
    '        if "CUDA out of memory" in str(error):', "    except MemoryError:", '    raise MemoryError("too much")',
    "DataLoader worker (pid 99999999999) is alive", "INFO all workers exited as expected",
    "my token is hf_notToBeFoundAnywhere", "exit code: 0", "return code = 1", "killed two birds", "Killed by the ring",
    "step by step", "epochs are fun", "the iteration protocol", "OOMKilled: false", "Considered 5 cgroups",
    "Free memory on device is fine", "batch normalisation", "",
    "Loading checkpoint shards", "saving money", "a path for saving checkpoints", "running without saving checkpoints",
    "saved my life", "optimizer stepsize", "the optimizer step was skipped", "[Torch] Saving nothing",
]  # fmt: skip


def read(*lines, stream="stdout"):
    reader = TrainingReader(stream)
    return reader.feed("".join(f"{line}\n" for line in lines).encode(), 7) + reader.end()


def fields_of(event):
    left_out = {"ts_ns", "seq", "source", "about", "text", "stream"}
    given = {name: getattr(event, name) for name in event.__struct_fields__ if name not in left_out}
    return {name: value for name, value in given.items() if value not in (None, (), {}) and value is not False}


@pytest.mark.parametrize("line, about, fields", LINES, ids=range(len(LINES)))
def test_each_shape_is_recognised_with_what_it_says(line, about, fields):
    [event] = read(line)

    assert (event.about, fields_of(event)) == (about, fields)
    assert event.about in KINDS


@pytest.mark.parametrize("line", NOTHING, ids=range(len(NOTHING)))
def test_what_only_looks_like_one_is_nothing(line):
    assert read(line) == []


@pytest.mark.parametrize("place", range(len(LINES)))
def test_whatever_stands_before_a_line_does_not_matter(place):
    line, about, fields = LINES[place]
    for prefix, given in (
        ("[rank3]: ", {"rank": 3}), ("[default2]:", {"local_rank": 2}), ("[1,5]<stderr>: ", {"rank": 5}),
        ("[default1]:[rank9]:", {"local_rank": 1, "rank": 9}), ("\x1b[31m", {}), ("\x1b]0;title\x07\x1b[1;31m", {}),
    ):  # fmt: skip
        [event] = read(f"{prefix}{line}\x1b[0m")
        assert (event.about, fields_of(event)) == (about, given | fields)


def test_every_kind_that_a_single_line_can_be_has_a_shape_here():
    assert {about for _, about, _ in LINES} == KINDS.keys() - {"failure_report", "exception"}


@pytest.mark.parametrize(
    "line",
    ["Command '['python', '--token', 'hf_secretWord']' died with <Signals.SIGKILL: 9>.",
     "['python', '--token', 'hf_secretWord'] exits with return code = -9",
     "train.sh: line 3: 77 Killed   python train.py --token hf_secretWord",
     "Epoch 3 of the run with hf_secretWord step 4", "[1]+  Killed   TOKEN=hf_secretWord python"],
)  # fmt: skip
def test_of_a_command_line_no_more_is_kept_than_what_was_recognised(line):
    [event] = read(line)

    assert "hf_secretWord" not in event.text


def test_a_single_line_can_be_asked_about():
    assert recognise("RuntimeError: DataLoader worker (pid 5) is killed by signal: Killed.").about == "worker_killed"
    assert recognise("all is well") is None
