# SPDX-License-Identifier: Apache-2.0
"""The vocabulary: every source, live or text, yields these; all that follows knows nothing else."""

from tracer.events.base import Event, ProcessId, Source, process_id
from tracer.events.cuda import (
    CallWhy,
    CodeLooked,
    CudaCall,
    CudaMemory,
    CudaProbed,
    CudaSymbol,
    CudaTotals,
    GpuDevice,
    GpuLibrary,
    GpuPeak,
    GpuProcess,
    GpuSample,
    GpuStatus,
    NumaNode,
    NumaNodes,
)
from tracer.events.kernel import (
    Constraint,
    IdentityBy,
    KernelEvent,
    Kind,
    MarkedEnded,
    OomDecision,
    OomGlimpse,
    OomLevel,
    OomMark,
    OomStack,
    Printed,
    ProcessExeced,
    ProcessExited,
    ProcessForked,
    ProcessOrphaned,
    SignalInfo,
    SignalSent,
)
from tracer.events.log import (
    LogEvent,
    LogGap,
    LoggedChoice,
    LoggedDecision,
    LoggedGroupKill,
    LoggedInvocation,
    LoggedKill,
    LoggedOther,
    LoggedOwner,
    LoggedReaped,
    LoggedStats,
    LoggedSwap,
    LoggedTask,
    LoggedTasks,
    LoggedTrigger,
    LoggedUsage,
    LoggedXid,
    SaidBy,
)
from tracer.events.machine import (
    CgroupSample,
    KernelStack,
    PressureSample,
    ProcessLimits,
    ProcessLooked,
    ProcessSample,
    ProcessSeen,
    ReclaimSample,
    SeenProgram,
    SenderSeen,
    ShmFiles,
    ShmFilesSample,
    TmpfsFill,
    TmpfsSample,
    VmstatSample,
)
from tracer.events.run import (
    RECORDING_SCHEMA,
    Armed,
    Attached,
    Clock,
    Disarmed,
    EndAsked,
    Header,
    HookStatus,
    JobEnded,
    JobStarted,
    Losses,
    Note,
    OutputWatched,
    PidsOfProc,
    ProcessGone,
    TracerCost,
    TracerPlaced,
)
from tracer.events.text import Passage, ReportedLine, Text, TextKind
from tracer.events.training import TrainingLine
from tracer.wire import Layout

LAYOUTS: dict[int, Layout[KernelEvent]] = {
    kind: Layout(event, kind)
    for kind, event in (
        (Kind.OOM_MARK, OomMark),
        (Kind.OOM_LEVEL, OomLevel),
        (Kind.OOM_STACK, OomStack),
        (Kind.SIGNAL_SENT, SignalSent),
        (Kind.PROCESS_FORKED, ProcessForked),
        (Kind.PROCESS_EXECED, ProcessExeced),
        (Kind.PROCESS_EXITED, ProcessExited),
        (Kind.OOM_DECISION, OomDecision),
        (Kind.PROCESS_ORPHANED, ProcessOrphaned),
        (Kind.OOM_GLIMPSE, OomGlimpse),
        (Kind.MARKED_ENDED, MarkedEnded),
        (Kind.PRINTED, Printed),
        (Kind.CUDA_CALL, CudaCall),
        (Kind.CUDA_TOTALS, CudaTotals),
    )
}
"""Every record that the ring buffer can hold, by kind."""

AnyEvent = (
    Header
    | Clock
    | HookStatus
    | Armed
    | Disarmed
    | TracerPlaced
    | JobStarted
    | Attached
    | EndAsked
    | JobEnded
    | ProcessGone
    | Losses
    | TracerCost
    | Note
    | OutputWatched
    | OomMark
    | OomLevel
    | SignalSent
    | ProcessForked
    | ProcessExeced
    | ProcessExited
    | ProcessOrphaned
    | OomDecision
    | OomGlimpse
    | MarkedEnded
    | ProcessSeen
    | ProcessLooked
    | ProcessSample
    | SenderSeen
    | ShmFilesSample
    | TmpfsSample
    | CgroupSample
    | PressureSample
    | ReclaimSample
    | KernelStack
    | VmstatSample
    | LoggedInvocation
    | LoggedUsage
    | LoggedSwap
    | LoggedDecision
    | LoggedKill
    | LoggedOther
    | LogGap
    | TrainingLine
    | CudaCall
    | CudaTotals
    | CudaProbed
    | CodeLooked
    | GpuStatus
    | GpuSample
    | GpuPeak
    | NumaNodes
    | LoggedChoice
    | LoggedGroupKill
    | LoggedOwner
    | LoggedReaped
    | LoggedStats
    | LoggedTasks
    | LoggedTrigger
    | LoggedXid
)
"""Every event that a recording can hold: a tagged union. `OomStack` and `Printed` are not among them."""

__all__ = [
    "LAYOUTS",
    "RECORDING_SCHEMA",
    "AnyEvent",
    "Armed",
    "Attached",
    "CallWhy",
    "CgroupSample",
    "Clock",
    "CodeLooked",
    "Constraint",
    "CudaCall",
    "CudaMemory",
    "CudaProbed",
    "CudaSymbol",
    "CudaTotals",
    "Disarmed",
    "EndAsked",
    "Event",
    "GpuDevice",
    "GpuLibrary",
    "GpuPeak",
    "GpuProcess",
    "GpuSample",
    "GpuStatus",
    "Header",
    "HookStatus",
    "IdentityBy",
    "JobEnded",
    "JobStarted",
    "KernelEvent",
    "KernelStack",
    "Kind",
    "LogEvent",
    "LogGap",
    "LoggedChoice",
    "LoggedDecision",
    "LoggedGroupKill",
    "LoggedInvocation",
    "LoggedKill",
    "LoggedOther",
    "LoggedOwner",
    "LoggedReaped",
    "LoggedStats",
    "LoggedSwap",
    "LoggedTask",
    "LoggedTasks",
    "LoggedTrigger",
    "LoggedUsage",
    "LoggedXid",
    "Losses",
    "MarkedEnded",
    "Note",
    "NumaNode",
    "NumaNodes",
    "OomDecision",
    "OomGlimpse",
    "OomLevel",
    "OomMark",
    "OomStack",
    "OutputWatched",
    "Passage",
    "PidsOfProc",
    "PressureSample",
    "Printed",
    "ProcessExeced",
    "ProcessExited",
    "ProcessForked",
    "ProcessGone",
    "ProcessId",
    "ProcessLimits",
    "ProcessLooked",
    "ProcessOrphaned",
    "ProcessSample",
    "ProcessSeen",
    "ReclaimSample",
    "ReportedLine",
    "SaidBy",
    "SeenProgram",
    "SenderSeen",
    "ShmFiles",
    "ShmFilesSample",
    "SignalInfo",
    "SignalSent",
    "Source",
    "Text",
    "TextKind",
    "TmpfsFill",
    "TmpfsSample",
    "TracerCost",
    "TracerPlaced",
    "TrainingLine",
    "VmstatSample",
    "process_id",
]  # fmt: skip
