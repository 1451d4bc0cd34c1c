"""match statements: which case fits, and the names that its pattern binds."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items

import libcst as cst

from ddpdoctor.lint import operators
from ddpdoctor.lint.branches import fork
from ddpdoctor.lint.comparisons import compare
from ddpdoctor.lint.expressions import evaluate
from ddpdoctor.lint.paths import resolve
from ddpdoctor.lint.run import Run
from ddpdoctor.lint.targets import assign
from ddpdoctor.lint.values import FALSE, Const, Dict, Sequence, Unknown, Value


def run_match(run: Run, node: cst.Match, execute: Callable[[cst.BaseSuite], None]) -> None:
    """Runs the body of the case that fits, or of each that may."""
    _cases(run, evaluate(run, node.subject), node.cases, execute)


def _cases(
    run: Run,
    subject: Value,
    cases: Items[cst.MatchCase],
    execute: Callable[[cst.BaseSuite], None],
) -> None:
    if not cases:
        return
    case, rest = cases[0], cases[1:]

    def fits() -> Value:
        return Const(True) if case.guard is None else evaluate(run, case.guard)

    matched = fork(run, _matches(run, subject, case.pattern), fits, lambda: FALSE)
    fork(
        run,
        matched,
        lambda: execute(case.body),
        lambda: _cases(run, subject, rest, execute),
    )


def _matches(run: Run, subject: Value, pattern: cst.MatchPattern) -> Value:
    """Whether a subject fits a pattern, as a value; binds the pattern's names."""
    if isinstance(pattern, cst.MatchValue):
        return compare("==", subject, evaluate(run, pattern.value), run.path)
    if isinstance(pattern, cst.MatchSingleton):
        return compare("is", subject, evaluate(run, pattern.value), run.path)
    if isinstance(pattern, cst.MatchOr):
        return _any_matches(run, subject, [each.pattern for each in pattern.patterns])
    if isinstance(pattern, cst.MatchAs):
        fits = Const(True) if pattern.pattern is None else _matches(run, subject, pattern.pattern)
        if pattern.name is not None:
            assign(run, pattern.name, subject)
        return fits
    parts: list[tuple[Value, cst.MatchPattern]] = []
    if isinstance(pattern, cst.MatchSequence):
        for position, element in enumerate(pattern.patterns):
            if isinstance(element, cst.MatchStar):
                return Unknown()
            item = operators.subscript(subject, Const(position), run.path)
            parts.append((item, element.value))
        if isinstance(subject, Sequence) and not subject.open and len(subject.items) != len(parts):
            return FALSE
    elif isinstance(pattern, cst.MatchMapping):
        for entry in pattern.elements:
            key = evaluate(run, entry.key)
            parts.append((operators.subscript(subject, key, run.path), entry.pattern))
    known = isinstance(subject, (Sequence, Dict))
    fits = _all_match(run, parts)
    return fits if known else Unknown()


def _any_matches(run: Run, subject: Value, patterns: Items[cst.MatchPattern]) -> Value:
    if not patterns:
        return FALSE
    first = _matches(run, subject, patterns[0])
    rest = patterns[1:]
    return fork(run, first, lambda: Const(True), lambda: _any_matches(run, subject, rest))


def _all_match(run: Run, parts: Items[tuple[Value, cst.MatchPattern]]) -> Value:
    if not parts:
        return Const(True)
    (item, pattern), rest = parts[0], parts[1:]
    first = _matches(run, resolve(item, run.path), pattern)
    return fork(run, first, lambda: _all_match(run, rest), lambda: FALSE)
