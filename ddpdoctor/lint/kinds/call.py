"""A library call that is being made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ddpdoctor.lint.apis import Api
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.trace import Event
from ddpdoctor.lint.values import (
    Arguments,
    Const,
    Place,
    Value,
)


@dataclass(frozen=True)
class Call:
    """A library call that is being made. receiver: of a method, else None."""

    run: Run
    api: Api
    name: str
    arguments: Arguments
    place: Place
    receiver: Value | None = None

    def argument(self, role: str) -> Value | None:
        value = self.api.argument(role, self.arguments)
        return None if value is None else resolve(value, self.run.path)

    def given(self, role: str) -> Value | None:
        """An argument whose None says no more than its absence."""
        value = self.argument(role)
        return None if isinstance(value, Const) and value.value is None else value

    def record(self, kind: str, **detail: Any) -> Event:
        """Notes what the call does. detail: as of Run.record."""
        return self.run.record(kind, self.name, self.place, arguments=self.arguments, **detail)
