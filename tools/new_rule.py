"""Starts a rule: `python tools/new_rule.py DDP108 some-name` writes its page and its module."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PAGE = """\
+++
code = "{code}"
name = "{name}"
severity = "error"
fix = "none"
phase = "lint"
summary = "One line of at most 72 characters"
+++

## What it does

## Why it hurts

## Example
```python bad
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
wrong = torch.nn.Linear(8, 8).cuda()  # {code}: what is wrong on this line
```

## Use instead
```python good
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
right = torch.nn.Linear(8, 8, device="cuda")
```

## When it is fine

## Fix safety

## References
"""

MODULE = '''\
"""{code}: what is wrong, in one line."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.lint.rule import Draft
from ddpdoctor.lint.trace import Trace


def check(trace: Trace) -> Iterator[Draft]:
    for event in trace.of("place"):
        yield Draft("{code}", event.place, "what is wrong here, in one sentence")
'''


def main(code: str, name: str) -> int:
    if not re.fullmatch(r"DDP[1-4]\d\d", code) or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        print("a code such as DDP108 and a name such as bare-cuda are needed", file=sys.stderr)
        return 2
    module = f"{code.lower()}_{name.replace('-', '_')}.py"
    files = {
        ROOT / "rules" / f"{code}-{name}.md": PAGE,
        ROOT / "ddpdoctor" / "lint" / "rules" / module: MODULE,
    }
    taken = [path for path in files if list(path.parent.glob(f"{path.name[:6]}*"))]
    if taken:
        print(f"{code} is taken: see {taken[0].parent}", file=sys.stderr)
        return 2
    for path, text in files.items():
        path.write_text(text.replace("{code}", code).replace("{name}", name), encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
