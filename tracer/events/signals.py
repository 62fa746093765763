# SPDX-License-Identifier: Apache-2.0
"""The numbers in records of signals, by the kernel's names for them. Those of signals are x86-64's and arm64's."""

from tracer.events.kernel import SignalInfo

SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGTERM, SIGCHLD, SIGSYS = 4, 5, 6, 7, 8, 9, 11, 15, 17, 31
"""include/uapi/asm-generic/signal.h"""
CRASH_SIGNALS = frozenset({SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS})
"""By which a process ends for what it did itself; the kernel raises them with a positive code."""

SI_USER, SI_QUEUE, SI_TKILL = 0, -1, -6
BUS_ADRERR = 2
"""include/uapi/asm-generic/siginfo.h"""
SENT_BY_CURRENT = frozenset({SI_USER, SI_QUEUE, SI_TKILL})
"""Codes of siginfo that kill, sigqueue and tgkill give, which run in the sender's own context."""
KERNEL_INFO = frozenset({SignalInfo.PRIV, SignalInfo.FORCED})
"""What the kernel passes in place of a siginfo for a signal of its own."""

TRACE_SIGNAL_DELIVERED, TRACE_SIGNAL_IGNORED = 0, 1
"""include/trace/events/signal.h"""

PF_EXITING = 0x0000_0004
PF_KTHREAD = 0x0020_0000
"""include/linux/sched.h; stable since 2.6.27."""
