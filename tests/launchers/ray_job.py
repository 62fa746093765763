# SPDX-License-Identifier: Apache-2.0
"""Two actors of Ray that become ranks, as those of Ray Train do: they set their variables themselves."""

import os
import sys

import ray

FOLDER, WORDS = sys.argv[1], sys.argv[2:]


@ray.remote(num_cpus=1)
class Trainer:
    """One rank."""

    def __init__(self, rank: int, folder: str, words: list[str]) -> None:
        os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "NODE_RANK": "0", "WORLD_SIZE": "2"}
        self.folder, self.words = folder, words

    def train(self) -> int:
        sys.path.insert(0, self.folder)
        sys.argv = ["dataloader.py", *self.words]
        import dataloader

        return dataloader.main()


ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, _memory=200 << 20)
ranks = [Trainer.remote(rank, FOLDER, WORDS) for rank in range(2)]
sys.exit(max(ray.get([rank.train.remote() for rank in ranks])))
