"""ddpdoctor finds, repairs and proves GPU misplacement in DistributedDataParallel programs."""

from __future__ import annotations

__version__ = "0.1.0"
