"""The HTML page: what it says, and that a browser runs and loads nothing from it."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import struct
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ddpdoctor.probe.results import Place, ProbeReport, ProbeRun
from ddpdoctor.report.html import html_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Seen(HTMLParser):
    """Tags with their attributes, the text and the title of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.title = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data
        if [tag for tag, _ in self.elements][-1:] == ["title"] and not self.title:
            self.title = data

    def classes(self, name: str) -> int:
        return sum(name in (given.get("class") or "").split() for _, given in self.elements)


@pytest.mark.usefixtures("program")
def test_the_page_shows_all_that_was_seen(comparison: ProbeReport) -> None:
    page = Seen(html_page(comparison))
    for told in (
        "hung: no rank went on; stopped after 20 s",
        "completed in 20 s",
        "! 519 MiB",
        "4 ranks are on GPU 0: ranks 0-3.",
        "Ranks 1-3 opened GPU 0 after 1.6 s, at main.py:13",
        "Ranks 1-3: aten.addmm in module layer, at net.py:11",
        "return self.layer(torch.from_numpy(x).float().cuda())",
        "Rank 2 stood in barrier number 11 of the default group (ranks 0-3), at main.py:44",
        "main.py:30 in step_10",
        "Rank 2 failed first, after 3.1 s: RuntimeError",
        'File "net.py", line 11, in forward',
        "GPU 0 at most 2.04 GiB of 80.0 GiB",
        "GPU 1 idle",
        "GPU 3 in use, memory unknown",
        "+    torch.cuda.set_device(LOCAL_RANK)",
        "epoch 1 loss 0.231",
        "/tmp/ddpdoctor-run",
    ):
        assert told in page.words
    tags = [tag for tag, _ in page.elements]
    assert tags.count("mark") >= 3
    # Three ranks on a wrong GPU: in the table, in the timeline and in the chart of GPU 0.
    assert page.classes("astray") == 3 * 3 + 1


def test_bands_lie_where_the_memory_was_held(corrected: ProbeRun) -> None:
    page = Seen(html_page(ProbeReport((("", corrected),))))
    bands = [given for tag, given in page.elements if tag == "rect"]
    # Held from 1.5 s to 19.5 s of 20 s.
    assert {(band["x"], band["width"]) for band in bands} == {("7.500%", "90.000%")}
    assert len(bands) == 4


def test_source_that_changed_since_the_run_is_not_shown(
    misplaced: ProbeRun, tmp_path: Path
) -> None:
    path = tmp_path / "main.py"
    path.write_text("something_else = 1\n")
    opening = replace(misplaced.openings[1], place=Place(str(path), 1, "model = net.cuda()"))
    run = replace(misplaced, openings=(opening,), findings=())
    words = Seen(html_page(ProbeReport((("", run),)))).words
    assert "model = net.cuda()" in words
    assert "something_else" not in words


def test_a_run_that_saw_nothing_makes_a_page(corrected: ProbeRun) -> None:
    placement = replace(corrected.placement, ranks=(), gpus=())
    run = replace(
        corrected, placement=placement, progress=(), output=(), seconds=0.0, source="none"
    )
    assert "4 ranks, no GPU watched" in Seen(html_page(ProbeReport((("", run),)))).words


def hostile(misplaced: ProbeRun, payload: str, folder: Path) -> ProbeReport:
    """A run in which everything that a program can name is the payload."""
    source = folder / "\"'><img src=x onerror=document.title='owned'>.py"
    source.write_text(f"{payload}\n" * 3)
    place = Place(str(source), 2, payload)
    stack, failure, finding = misplaced.stacks[0], misplaced.failure, misplaced.findings[0]
    assert failure
    gpus = tuple(
        replace(gpu, name=payload, problem=payload, uuid=payload)
        for gpu in misplaced.placement.gpus
    )
    mismatch = misplaced.mismatches[0]
    tensors = tuple(
        replace(tensor, name=payload, kind=payload, dtype=payload, device=payload, made=place)
        for tensor in mismatch.tensors
    )
    run = replace(
        misplaced,
        command=("python", payload),
        run_folder=payload,
        notes=(payload,),
        output=(payload,),
        placement=replace(misplaced.placement, gpus=gpus, problems=(payload,)),
        openings=tuple(replace(one, place=place) for one in misplaced.openings),
        mismatches=(
            replace(
                mismatch,
                operation=payload,
                tensors=tensors,
                module=payload,
                place=place,
                message=payload,
            ),
        ),
        stacks=(replace(stack, frames=(payload,), place=place, problem=payload),),
        failure=replace(failure, kind=payload, text=payload, traceback=payload),
        findings=(
            replace(
                finding,
                filename=str(source),
                location=replace(finding.location, row=2),
                message=payload,
                behaviour=payload,
                symptom=payload,
                repair=payload,
            ),
        ),
    )
    return ProbeReport(((payload, run), ("corrected", run)), f"+{payload}\n")


class Browser:
    """Headless Chromium, and a server on this machine that notes whoever asks it for anything."""

    def __init__(self, program: str, port: int, asked: list[str], folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.asked = asked
        self.payload = (
            "</title></style></pre></svg>\"'><script>document.title='owned';"
            f"fetch('http://127.0.0.1:{port}/script')</script>"
            f"<img src=http://127.0.0.1:{port}/image onerror=\"document.title='owned'\">"
            f"<style>body{{background:url(http://127.0.0.1:{port}/style)}}</style>"
        )

    def dom(self, page: str) -> Seen:
        return Seen(self._run(page, "--dump-dom"))

    def background(self, page: str, *options: str) -> tuple[int, ...]:
        """The colour of the first pixel of a screenshot."""
        picture = self._folder / "picture.png"
        self._run(page, f"--screenshot={picture}", "--window-size=800,600", *options)
        data = picture.read_bytes()
        pixels, at = b"", 8
        while at < len(data):
            (length,) = struct.unpack(">I", data[at : at + 4])
            if data[at + 4 : at + 8] == b"IDAT":
                pixels += data[at + 8 : at + 8 + length]
            at += length + 12
        return tuple(zlib.decompress(pixels)[1:4])

    def _run(self, page: str, *options: str) -> str:
        path = self._folder / "page.html"
        path.write_text(page, encoding="utf-8")
        process = subprocess.Popen(
            [
                self._program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
                f"--user-data-dir={self._folder / 'profile'}",
                *options,
                path.as_uri(),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            return process.communicate(timeout=60)[0]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium here")
    asked: list[str] = []

    class Note(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Note) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield Browser(program, server.server_port, asked, tmp_path_factory.mktemp("browser"))
        server.shutdown()
        thread.join()


@pytest.fixture
def nothing_asked(browser: Browser) -> Callable[[], bool]:
    browser.asked.clear()
    return lambda: not browser.asked


def test_the_payload_works_where_a_page_does_not_escape(browser: Browser) -> None:
    browser.asked.clear()
    dom = browser.dom(f"<!doctype html><title>clean</title><body>{browser.payload}</body>")
    assert dom.title == "owned"
    assert "/image" in browser.asked


def test_a_hostile_program_runs_and_loads_nothing(
    browser: Browser, nothing_asked: Callable[[], bool], misplaced: ProbeRun, tmp_path: Path
) -> None:
    page = html_page(hostile(misplaced, browser.payload, tmp_path))
    dom = browser.dom(page)
    assert nothing_asked()
    assert dom.title.startswith("ddpdoctor: python")
    assert dom.words.count("document.title='owned';") > 40
    tags = {tag for tag, _ in dom.elements}
    assert not tags & {"script", "img", "iframe", "object", "embed", "link", "base", "a", "form"}
    assert [tag for tag, _ in dom.elements].count("style") == 1
    names = {name for _, given in dom.elements for name in given}
    assert not {name for name in names if name.startswith("on")}
    assert not names & {"src", "href", "style", "srcset", "action"}


def test_the_header_alone_stops_scripts_and_network(
    browser: Browser, nothing_asked: Callable[[], bool], corrected: ProbeRun
) -> None:
    page = html_page(ProbeReport((("", corrected),)))
    dom = browser.dom(page.replace("</body>", f"{browser.payload}</body>"))
    assert "script" in {tag for tag, _ in dom.elements}
    assert dom.title.startswith("ddpdoctor: ")
    assert nothing_asked()


def test_the_page_is_styled_in_light_and_in_dark(browser: Browser, comparison: ProbeReport) -> None:
    page = html_page(comparison)
    assert browser.background(page) == (0xFF, 0xFF, 0xFF)
    dark = browser.background(page, "--blink-settings=preferredColorScheme=0")
    assert dark == (0x14, 0x18, 0x1B)
