# SPDX-License-Identifier: Apache-2.0
"""Pairs of runs of one and the same leak, of any shape, noise, pace and length: none of them was fixed."""

import functools
import random
from collections.abc import Callable

from tests.unit.verdict.comparison.growing import run
from tracer.units import MIB
from tracer.verdict.comparison import Comparison, Recorded, compare, judged

Course = Callable[[float], float]
SHAPES = ("linear", "stairs", "stairs_late", "saw", "late", "faster", "bursts")


def _noise(rng: random.Random, size: float, alike: float) -> Course:
    values = [0.0]
    for _ in range(2000):
        values.append(alike * values[-1] + rng.gauss(0, size) * (1 - alike * alike) ** 0.5)
    return lambda at_s: values[int(at_s) % len(values)]


def _leak(shape: str, size: float, epoch_s: float, rng: random.Random) -> Course:
    """`size` MiB an epoch, about."""
    jitter = rng.uniform(-0.1, 0.1)
    bursts = sorted(rng.uniform(0, 40 * epoch_s) for _ in range(40))
    shapes: dict[str, Course] = {
        "linear": lambda at_s: size * at_s / epoch_s,
        "stairs": lambda at_s: size * int(at_s / epoch_s + 0.03 + jitter),
        "stairs_late": lambda at_s: size * int(at_s / epoch_s + 0.5),
        "saw": lambda at_s: size * (int(at_s / epoch_s) + 2 * (at_s / epoch_s % 1)),
        "late": lambda at_s: 2 * max(0.0, size * (at_s / epoch_s - 2.5 + 3 * jitter)),
        "faster": lambda at_s: size * (at_s / epoch_s) ** 2 / 3,
        "bursts": lambda at_s: size * sum(burst <= at_s for burst in bursts),
    }
    return shapes[shape]


@functools.cache
def unfixed_pair(shape: str, seed: int) -> Comparison:
    """The second run is shorter or longer, on a slower or faster machine, under the same limit or another."""
    rng = random.Random(f"{shape} {seed}")
    epoch_s, size, base = rng.choice((5, 10, 20, 40)), rng.choice((20, 60, 150, 300)), rng.choice((150, 300, 500))
    spread, alike = rng.choice((0.5, 3, 10, 0.1 * size, 0.3 * size)), rng.choice((0, 0.5, 0.9, 0.98))
    limit, told = rng.choice((1000, 1000, 2000)) * MIB, rng.choice((True, True, False))

    def made(pace: float, seconds: float, limit_bytes: int) -> Recorded:
        leak, noise = _leak(shape, size, epoch_s * pace, rng), _noise(rng, spread, alike)
        scene = run(lambda at_s: (base + leak(at_s) + noise(at_s)) * MIB, seconds=seconds,
                    epoch_s=epoch_s * pace if told else None, limit_bytes=limit_bytes)  # fmt: skip
        return judged(scene.events)

    seconds = rng.uniform(1, 10) * epoch_s
    before = made(1, rng.choice((seconds, 400)), limit)
    pace = rng.choice((1, 1, 1.5, 0.7))
    after = made(pace, rng.uniform(0.2, 1.5) * seconds * pace, limit * rng.choice((1, 1, 3)))
    return compare(before, after)
