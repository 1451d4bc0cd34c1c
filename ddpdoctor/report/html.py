"""A probe report as one HTML page: no script, nothing loaded, to be sent or kept as a file."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

from ddpdoctor.gpus.placement import GpuRow
from ddpdoctor.probe.results import ProbeReport, ProbeRun
from ddpdoctor.report import run_words
from ddpdoctor.report.html_charts import memory_chart, peak, timeline
from ddpdoctor.report.html_evidence import evidence
from ddpdoctor.report.html_table import LEGEND, matrix
from ddpdoctor.report.markup import Markup, element
from ddpdoctor.report.placement import held
from ddpdoctor.report.words import memory


def html_page(report: ProbeReport) -> str:
    """The whole page; write it as UTF-8."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Everything is escaped; this header is the second wall: a browser runs and loads nothing.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    first = report.runs[0][1]
    page = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("title", f"ddpdoctor: {run_words.command(first)}"),
            element("style", Markup(style)),
        ),
        element("body", *_body(report)),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def _body(report: ProbeReport) -> Iterator[Markup]:
    first = report.runs[0][1]
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(first.started))
    yield element("h1", "Which rank was on which GPU")
    yield element("p", element("code", run_words.command(first)))
    yield element("p", f"{run_words.who_ran_where(first)}, {when}", class_="soft")
    yield element("div", *(_overview(label, run) for label, run in report.runs), class_="runs")
    yield LEGEND
    for label, run in report.runs:
        yield element("section", *_run(label, run))
    if report.diff:
        yield element("h2", "What was changed between the two runs")
        yield _diff(report.diff)


def _overview(label: str, run: ProbeRun) -> Markup:
    """Ending, table and figures of a run, to stand beside the other's."""
    good = run.outcome == "completed" and not run.findings
    badge = element("span", run_words.ending(run), class_=f"badge {'good' if good else 'bad'}")
    facts = [
        ("steps", run_words.steps(run)),
        ("steps a second", run_words.step_rate(run)),
        ("last loss", run_words.last_loss(run)),
        ("findings", ", ".join(sorted({one.code for one in run.findings})) or "none"),
    ]
    rows = [element("tr", element("th", name), element("td", fact)) for name, fact in facts if fact]
    return element(
        "div",
        element("h3", f"{label.capitalize()} " if label else "", badge),
        matrix(run.placement),
        element("table", *rows, class_="facts"),
        class_="card",
    )


def _run(label: str, run: ProbeRun) -> Iterator[Markup]:
    yield element("h2", label.capitalize() if label else "What happened")
    for note in (*run.notes, *run.placement.problems):
        yield element("p", f"Note: {note}", class_="soft")
    yield from evidence(run)
    if run.placement.ranks and run.placement.gpus:
        yield element("h3", "Where each rank held memory, over time")
        yield timeline(run)
        yield element("h3", "Memory of each GPU, over time")
        yield from _memories(run)
    for title, lines in (
        ("How far the ranks came", run_words.progress(run)),
        ("Last lines of the first rank's output", run.output),
    ):
        if lines:
            yield element("h3", title)
            yield element("pre", "\n".join(lines))
    yield element("p", "Raw logs: ", element("code", run.run_folder), class_="soft")


def _memories(run: ProbeRun) -> Iterator[Markup]:
    """Small charts of one scale, so that GPUs compare at a glance."""
    peaks = {gpu.index: peak(run, gpu) for gpu in run.placement.gpus}
    scale = max(peaks.values())
    charts = [
        element(
            "div",
            element(
                "p", element("b", f"GPU {gpu.index}"), f" {_peak_words(gpu, peaks[gpu.index])}"
            ),
            memory_chart(run, gpu, max(scale, 1)),
        )
        for gpu in run.placement.gpus
    ]
    yield element("div", *charts, class_="memories")
    yield element("p", f"The height of each chart is {memory(scale)}.", class_="soft")


def _peak_words(gpu: GpuRow, most: int) -> str:
    if not gpu.processes:
        return held(gpu)
    if not most and any(process.peak_bytes is None for process in gpu.processes):
        return "in use, memory unknown"
    of = f" of {memory(gpu.total_bytes)}" if gpu.total_bytes else ""
    return f"at most {memory(most)}{of}"


def _diff(text: str) -> Markup:
    kinds = {"+": "added", "-": "removed", "@": "head"}
    lines = []
    for line in text.splitlines():
        kind = "head" if line.startswith(("--- ", "+++ ")) else kinds.get(line[:1], "same")
        lines.append(element("span", f"{line}\n", class_=kind))
    return element("pre", *lines, class_="diff")
