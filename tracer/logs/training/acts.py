# SPDX-License-Identifier: Apache-2.0
"""What a job says that it does just then, and that takes host memory once: it saves a checkpoint, or steps.

That a checkpoint was loaded, or is to be saved some day, is no such line. Only what was recognised is kept.
"""

import re

from tracer.events.training import SAVED, SAVES, STEPS
from tracer.logs.training.shape import Found, found

NEEDLES = ("saving", "saved", "optimizer")
_WHAT = r"(?:checkpoint|ckpt|model states?|model weights|optimizer states?|state[_ ]dict|training state)s?\b"
_PATTERNS = tuple(
    (what, re.compile(pattern, re.IGNORECASE))
    for what, pattern in (
        # Hugging Face: Saving model checkpoint to PATH; Megatron: saving checkpoint at iteration 100 to PATH.
        (SAVES, rf"(?<!\bwithout )(?<!\bfor )\bsaving (?:[\w.-]{{1,24}} ){{0,4}}{_WHAT}"),
        # Lightning: 'loss' reached 0.1 (best 0.1), saving model to '/x/epoch=0.ckpt' as top 1.
        (SAVES, r"\bsaving model(?= to ['\"/\w])"),
        # DeepSpeed: [Torch] Saving global_step5/mp_rank_00_model_states.pt...
        (SAVES, r"\[Torch\] Saving(?= [^\s]{1,200}\.pt\b)"),
        (SAVED, rf"\bsaved (?:[\w.-]{{1,24}} ){{0,4}}{_WHAT}"),
        (SAVED, rf"\b{_WHAT}[^\n]{{0,60}} (?:was |has been )?saved\b"),
        (STEPS, r"(?:^|[:,] )(?:first )?optimizer step(?= ?$|ping)"),
    )
)
_ABOUT = {SAVES: "checkpoint", SAVED: "checkpoint", STEPS: "optimizer_step"}


def act(text: str) -> Found | None:
    """`None`: it says nothing of that."""
    for what, pattern in _PATTERNS:
        match = pattern.search(text)
        if match is not None:
            return found(_ABOUT[what], match[0], what=what)
    return None
