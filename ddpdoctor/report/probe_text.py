"""What a probe saw, as text for people: placement, first wrong line, mismatches, stacks."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.probe.results import Place, ProbeReport, ProbeRun, StackGroup
from ddpdoctor.report import run_words
from ddpdoctor.report.grouped import mismatches, wrong_openings
from ddpdoctor.report.placement import gpu_words, placement_lines
from ddpdoctor.report.terminal import Screen, fit, printable, wrapped
from ddpdoctor.report.text import blocks
from ddpdoctor.report.words import duration, ranks, sentence

_FRAMES = 8
_SIDE_BY_SIDE = 90
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def probe_text(report: ProbeReport, screen: Screen) -> str:
    """Each run in turn; of two, then both side by side."""
    lines: list[str] = []
    for label, run in report.runs:
        lines += [*_run_lines(label, run, screen), ""]
    if len(report.runs) > 1:
        lines += [*_before_and_after(report, screen), ""]
    if report.diff:
        lines += [*_changes(report.diff, screen), ""]
    return "\n".join(lines)


def _run_lines(label: str, run: ProbeRun, screen: Screen) -> list[str]:
    title = f"{label.capitalize()}: " if label else ""
    title += f"{run_words.who_ran_where(run)}, {run_words.ending(run)}"
    lines = [screen.style(title, bold=True), *wrapped("  ", run_words.command(run), screen.columns)]
    sections = (_placement, _progress, _output, _openings, _mismatches, _stacks, _failure)
    for section in sections:
        if part := list(section(run, screen)):
            lines += ["", *part]
    for block in blocks(run.findings, screen):
        lines += ["", *block]
    if not run.findings:
        lines += ["", "No misplacement found."]
    lines.append("")
    for note in run.notes:
        lines += wrapped("note: ", note, screen.columns)
    return [*lines, *wrapped("logs: ", run.run_folder, screen.columns)]


def _placement(run: ProbeRun, screen: Screen) -> Iterator[str]:
    yield from placement_lines(run.placement, screen)


def _progress(run: ProbeRun, screen: Screen) -> Iterator[str]:
    for line in run_words.progress(run):
        yield from wrapped("", sentence(line), screen.columns)


def _output(run: ProbeRun, screen: Screen) -> Iterator[str]:
    if run.output:
        yield "Last lines of the first rank's output:"
        for line in run.output:
            yield f"  {printable(line)}"


def _openings(run: ProbeRun, screen: Screen) -> Iterator[str]:
    for group in wrong_openings(run):
        first = group.first
        yield from wrapped(
            "",
            f"First wrong context: {ranks(group.ranks)} opened GPU {first.device}, after "
            f"{duration(first.at)}{_at(first.place)}",
            screen.columns,
        )
        yield from _source(first.place)


def _mismatches(run: ProbeRun, screen: Screen) -> Iterator[str]:
    for group in mismatches(run):
        first = group.first
        inside = f" in module {first.module}" if first.module else ""
        yield from wrapped(
            "",
            f"First mismatch of {ranks(group.ranks)}: {first.operation}{inside}{_at(first.place)}",
            screen.columns,
        )
        yield from _source(first.place)
        names = max((len(printable(tensor.name)) for tensor in first.tensors), default=0)
        for tensor in first.tensors:
            made = f", made at {tensor.made}" if tensor.made else ""
            yield from wrapped(
                f"  {fit(printable(tensor.name), names)}  ",
                f"{tensor.device}  {tensor.kind} {run_words.tensor(tensor)}{made}",
                screen.columns,
            )
        raised = "PyTorch raised nothing: " if first.silent else ""
        yield from wrapped("  ", f"{raised}{first.message}", screen.columns)


def _stacks(run: ProbeRun, screen: Screen) -> Iterator[str]:
    for group in sorted(run.stacks, key=lambda group: not group.odd):
        text = _stood(group)
        first, *rest = wrapped("", text, screen.columns)
        colour = "red" if group.odd else None
        yield screen.style(first, colour, bold=True)
        yield from rest
        for frame in group.frames[:_FRAMES]:
            yield f"  {printable(frame)}"
        if len(group.frames) > _FRAMES:
            yield f"  and {len(group.frames) - _FRAMES} frames further out"


def _stood(group: StackGroup) -> str:
    who = sentence(f"{ranks(group.ranks)} stood")
    odd = " apart from the others" if group.odd else ""
    what = f" {run_words.waiting(group.waiting)}" if group.waiting else ""
    problem = f" (no stack: {group.problem})" if group.problem else ""
    return f"{who}{odd}{what}{_at(group.place)}{problem}"


def _failure(run: ProbeRun, screen: Screen) -> Iterator[str]:
    if run.failure is None:
        return
    yield from wrapped("", sentence(run_words.failure(run.failure)), screen.columns)
    for line in run.failure.traceback.splitlines():
        yield f"  {printable(line)}".rstrip()


def _at(place: Place | None) -> str:
    return f", at {place}" if place else ""


def _source(place: Place | None) -> Iterator[str]:
    if place and place.source:
        yield f"    {printable(place.source)}"


def _before_and_after(report: ProbeReport, screen: Screen) -> Iterator[str]:
    """A column a run where there is room, else one below the other."""
    columns = [(label.capitalize(), dict(_facts(run))) for label, run in report.runs]
    names = list(dict.fromkeys(name for _, facts in columns for name in facts))
    label = max(map(len, names))
    if screen.columns < _SIDE_BY_SIDE:
        for title, facts in columns:
            yield screen.style(title, bold=True)
            for name, fact in facts.items():
                yield from wrapped(f"  {name:<{label}}  ", fact, screen.columns)
        return
    cells = (screen.columns - label) // len(columns) - 2
    titles = "".join("  " + fit(title, cells) for title, _ in columns)
    yield screen.style(f"{'':{label}}{titles}".rstrip(), bold=True)
    for name in names:
        row = "".join("  " + fit(printable(facts.get(name, "")), cells) for _, facts in columns)
        yield f"{name:<{label}}{row}".rstrip()


def _changes(diff: str, screen: Screen) -> Iterator[str]:
    yield screen.style("What was changed:", bold=True)
    for line in diff.splitlines():
        shown = "\t".join(map(printable, line.split("\t")))
        yield screen.style(shown, _DIFF_COLOURS.get(line[:1]))


def _facts(run: ProbeRun) -> Iterator[tuple[str, str]]:
    for gpu in run.placement.gpus:
        yield f"GPU {gpu.index}", gpu_words(gpu)
    yield "ended", run_words.ending(run)
    yield "steps", run_words.steps(run) or "none"
    yield "steps/s", run_words.step_rate(run) or "not measured"
    yield "last loss", run_words.last_loss(run) or "none"
    yield "findings", ", ".join(sorted({one.code for one in run.findings})) or "none"
