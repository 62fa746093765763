# SPDX-License-Identifier: Apache-2.0
"""Signals become numbers on a descriptor."""

import os
import select
import signal

from tracer.job.signals import SignalInbox


def test_signals_are_taken_in_the_order_in_which_they_came():
    with SignalInbox() as inbox:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)

        assert select.select([inbox], [], [], 5)[0] == [inbox]
        assert inbox.take() == (signal.SIGTERM, signal.SIGHUP)
        assert inbox.take() == ()


def test_all_is_as_before_afterwards():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]

    with SignalInbox():
        assert signal.getsignal(signal.SIGTERM) != before[1]

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_what_was_ignored_stays_ignored():
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalInbox() as inbox:
            os.kill(os.getpid(), signal.SIGHUP)

            assert inbox.take() == ()
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, handler)
