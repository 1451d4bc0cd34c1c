"""NCCL's words for two ranks on one GPU, which name no rank, or name it in passing, explained."""

from __future__ import annotations

import re
from collections.abc import Sequence

# NCCL up to 2.29 (src/init.cc): "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device
# 4000". From 2.30: "Multiple Ranks are using the same GPU/Partition...", which names no rank and
# suggests a switch that hides the mistake.
_OLD = re.compile(r"Duplicate GPU detected\s*: rank (\d+) and rank (\d+) both on CUDA device (\w+)")
_NEW = re.compile(r"Multiple Ranks are using the same GPU", re.IGNORECASE)


def says_same_gpu(text: str) -> bool:
    return bool(_OLD.search(text) or _NEW.search(text))


def named_ranks(texts: Sequence[str]) -> tuple[int, ...]:
    """The ranks that NCCL's old text names, over all the texts; () with the new one."""
    found = {
        int(rank) for text in texts for match in _OLD.finditer(text) for rank in match.groups()[:2]
    }
    return tuple(sorted(found))
