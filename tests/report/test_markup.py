"""Elements escape whatever is not markup."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from ddpdoctor.report.markup import Markup, element, join
from ddpdoctor.report.terminal import printable


def test_elements() -> None:
    inner = element("b", "<i> & 'x'")
    assert inner == "<b>&lt;i&gt; &amp; &#x27;x&#x27;</b>"
    assert element("td", inner, class_="a\"'<", stroke_width=1.5) == (
        f'<td class="a&quot;&#x27;&lt;" stroke-width="1.5">{inner}</td>'
    )
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_text_put_together_with_markup_is_escaped_again() -> None:
    assert join(element("b") + "<script>") == "&lt;b&gt;&lt;/b&gt;&lt;script&gt;"
    assert join(f"{Markup('<b>')}") == "&lt;b&gt;"


def test_lines_stay_and_tabs_and_controls_are_shown() -> None:
    assert join("a\n\tb\x00\x1b\udcff") == "a\n    b\\x00\\x1b\\xff"


@given(st.text())
def test_any_text_comes_back_as_text_and_attribute(text: str) -> None:
    seen: list[tuple[str, str | None]] = []
    words: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: seen.extend([(tag, None), *attrs])  # type: ignore[method-assign]
    parser.handle_data = words.append  # type: ignore[method-assign]
    parser.feed(element("p", text, title=text))
    parser.close()
    shown = "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))
    assert "".join(words) == shown
    assert seen == [("p", None), ("title", shown)]
