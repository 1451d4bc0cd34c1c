"""The tool's own tables of library calls."""

from __future__ import annotations

import pytest

from ddpdoctor.lint import apis
from ddpdoctor.lint.effects import KINDS
from ddpdoctor.resources import resource

TABLES = sorted(resource("rules/apis").glob("*.toml"))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_table_passes_the_checks_that_a_users_table_gets(table):  # type: ignore[no-untyped-def]
    known = apis.load([table])
    assert {api.does for api in (*known.calls.values(), *known.methods.values())} <= KINDS
