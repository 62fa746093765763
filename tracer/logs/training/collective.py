# SPDX-License-Identifier: Apache-2.0
"""What ranks say when another one is gone (NCCL, gloo, the store): mostly the echo of a failure."""

import re

from tracer.logs.training.shape import SMALL, Build, Found, Rule, found, integer, rule

_RANK = re.compile(rf"\[(?:PG [^\]\n]{{0,60}})?Rank (?P<rank>{SMALL})\]")


def _of(what: str) -> Build:
    def build(_: re.Match[str], text: str) -> Found:
        rank = _RANK.search(text)
        return found("collective", what=what, rank=integer(rank["rank"]) if rank is not None else None)

    return build


RULES: tuple[Rule, ...] = (
    rule(
        "watchdog caught collective", r"Watchdog caught collective operation timeout: WorkNCCL\(", _of("NCCL timeout")
    ),
    rule("watchdog hang", r"due to ProcessGroupNCCL watchdog hang", _of("NCCL timeout")),
    rule("some nccl operations have failed", r"Some NCCL operations have failed or timed out", _of("NCCL timeout")),
    rule("nccl communicator was aborted", r"NCCL communicator was aborted", _of("NCCL aborted")),
    rule(
        "nccl", r"\bnccl(?:SystemError|RemoteError|InternalError|UnhandledCudaError|InvalidUsage)\b", _of("NCCL error")
    ),
    rule("nccl error", r"\bNCCL error\b[^\n]{0,40}(?:: |in:)", _of("NCCL error")),
    rule("connection reset by peer", r"Read error \[[^\]\n]{1,64}\]: Connection reset by peer", _of("gloo")),
    rule("connection closed by peer", r"Connection closed by peer \[[^\]\n]{1,64}\]", _of("gloo")),
    rule("gloo/transport", r"\[[^\]\n]{0,120}gloo/transport/\w{1,12}/[\w.]{1,30}:\d{1,5}\]", _of("gloo")),
    rule("sendbytes failed", r"\bsendBytes failed\b", _of("store")),
    rule("recvvalue failed", r"\brecvV(?:alue|ector) failed\b", _of("store")),
    rule("rendezvousconnectionerror", r"\bRendezvousConnectionError\b", _of("rendezvous")),
)
