"""The tables themselves: no word without an explanation, no name that leads nowhere."""

from __future__ import annotations

import re

from ddpdoctor.lint import apis
from ddpdoctor.lint.effects import KINDS
from ddpdoctor.lint.options import PARSER
from ddpdoctor.resources import resource

HEADER = (resource("rules/apis") / "torch.toml").read_text().partition("\nlibraries =")[0]
EXPLAINED = set(re.findall(r"\w+", HEADER))


def test_every_word_of_the_engine_is_explained():
    assert set() == KINDS - EXPLAINED


def test_every_fact_of_a_framework_is_explained():
    known = apis.load()
    used = {
        fact
        for api in known.calls.values()
        if api.does in ("framework", "runs", "spawn", "consumes", "gives_back")
        for fact in api.facts
    }
    assert set() == used - EXPLAINED - {"does", "packages"}


def test_every_alias_leads_to_a_name_that_is_known():
    known = apis.load()
    names = {*known.calls, *known.classes, *known.values, PARSER}
    dangling = {
        alias
        for alias in known.aliases
        if not any(
            name == known.canonical(alias) or name.startswith(known.canonical(alias) + ".")
            for name in names
        )
    }
    assert dangling == set()


def test_no_name_is_hidden_behind_an_alias():
    known = apis.load()
    names = {*known.calls, *known.classes, *known.values}
    assert {name for name in names if known.canonical(name) != name} == set()
