"""What went wrong in a run, as HTML: findings, wrong contexts, mismatches, stacks, the failure."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.findings import Finding, Location, Severity
from ddpdoctor.probe.results import Mismatch, Place, ProbeRun, StackGroup
from ddpdoctor.report import run_words
from ddpdoctor.report.excerpt import source_lines, span
from ddpdoctor.report.grouped import Group, mismatches, wrong_openings
from ddpdoctor.report.markup import Markup, element, join
from ddpdoctor.report.text import notes
from ddpdoctor.report.words import duration, ranks, sentence

_BADGES = {Severity.ERROR: "bad", Severity.WARNING: "unsure", Severity.INFO: "good"}
_AROUND = 2  # lines of source shown before and after the one that matters


def evidence(run: ProbeRun) -> Iterator[Markup]:
    """Sections, each with its heading; nothing of what did not happen."""
    sections = [
        ("Findings", [_finding(one) for one in run.findings]),
        ("First wrong context", list(_openings(run))),
        ("First mismatch", [_mismatch(group) for group in mismatches(run)]),
        (
            "Where the ranks stood",
            [_stack(group) for group in sorted(run.stacks, key=lambda group: not group.odd)],
        ),
        ("First failure", list(_failure(run))),
    ]
    for title, parts in sections:
        if parts:
            yield element("h3", title)
            yield join(*parts)


def _finding(finding: Finding) -> Markup:
    badge = element(
        "span",
        f"{finding.code} {finding.severity.value}",
        class_=f"badge {_BADGES[finding.severity]}",
    )
    parts = [element("p", badge, " ", element("b", finding.message))]
    if finding.filename and finding.location:
        end = finding.end_location
        parts += _lines(finding.filename, finding.location, end)
    for related in finding.related:
        parts.append(element("p", related.message, class_="soft"))
        parts += _lines(related.filename, related.location, None)
    told = [
        part
        for label, text in notes(finding)
        for part in (element("dt", label.rstrip(":")), element("dd", text))
    ]
    return element("div", *parts, element("dl", *told), class_="card")


def _openings(run: ProbeRun) -> Iterator[Markup]:
    for group in wrong_openings(run):
        first = group.first
        told = sentence(f"{ranks(group.ranks)} opened GPU {first.device}")
        told += f" after {duration(first.at)}"
        yield element(
            "div", element("p", f"{told}{_at(first.place)}"), *_source(first.place), class_="card"
        )


def _mismatch(group: Group[Mismatch]) -> Markup:
    first = group.first
    inside = f" in module {first.module}" if first.module else ""
    rows = [
        element(
            "tr",
            element("td", element("code", tensor.name)),
            element("td", element("b", tensor.device)),
            element("td", f"{tensor.kind} {run_words.tensor(tensor)}"),
            element("td", f"made at {tensor.made}" if tensor.made else ""),
        )
        for tensor in first.tensors
    ]
    raised = "PyTorch raised nothing: " if first.silent else ""
    return element(
        "div",
        element(
            "p", f"{sentence(ranks(group.ranks))}: {first.operation}{inside}{_at(first.place)}"
        ),
        *_source(first.place),
        element("div", element("table", *rows), class_="wide"),
        element("p", f"{raised}{first.message}"),
        class_="card",
    )


def _stack(group: StackGroup) -> Markup:
    badge = [element("span", "apart from the others", class_="badge bad"), " "]
    what = f" {run_words.waiting(group.waiting)}" if group.waiting else ""
    problem = f" (no stack: {group.problem})" if group.problem else ""
    told = f"{sentence(ranks(group.ranks))} stood{what}{_at(group.place)}{problem}"
    summary = element("summary", *(badge if group.odd else []), told)
    frames = [element("pre", "\n".join(group.frames))] if group.frames else []
    opened = {"open": "open"} if group.odd else {}
    return element("details", summary, *frames, class_="card", **opened)


def _failure(run: ProbeRun) -> Iterator[Markup]:
    if run.failure:
        yield element("p", sentence(run_words.failure(run.failure)))
        if run.failure.traceback:
            yield element("pre", run.failure.traceback.rstrip("\n"))


def _at(place: Place | None) -> str:
    return f", at {place}" if place else ""


def _source(place: Place | None) -> list[Markup]:
    """The lines around a place; its own line alone where the file has changed or gone since."""
    if place is None:
        return []
    lines = source_lines(place.filename)
    if place.row <= len(lines) and lines[place.row - 1].strip() == place.source:
        return _lines(place.filename, Location(place.row, 1), None)[1:]
    return [element("div", place.source, class_="source")] if place.source else []


def _lines(filename: str, start: Location, end: Location | None) -> list[Markup]:
    """The place, and the source around it with the place marked."""
    where = element("p", element("code", f"{filename}:{start.row}:{start.column}"), class_="soft")
    lines = source_lines(filename)
    if not 1 <= start.row <= len(lines):
        return [where]
    first, last = max(start.row - _AROUND, 1), min(start.row + _AROUND, len(lines))
    parts: list[str] = []
    for row in range(first, last + 1):
        line = lines[row - 1]
        parts.append(element("span", f"{row:>{len(str(last))}}  ", class_="number"))
        if row == start.row:
            begin, stop = span(line, start, end)
            line = join(line[:begin], element("mark", line[begin:stop]), line[stop:])
        parts += [line, "\n"]
    return [where, element("div", *parts, class_="source")]
