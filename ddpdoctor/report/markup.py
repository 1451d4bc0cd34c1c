"""HTML and SVG elements that escape whatever is put into them.

Text from a program (names, source, messages) is a plain str and is always escaped; only what
`element` itself made is markup. So no page can forget to escape.
"""

from __future__ import annotations

import html

from ddpdoctor.report.terminal import printable

_VOID = ("meta",)


class Markup(str):
    """Finished markup; put into an element as it is."""

    __slots__ = ()


def element(tag: str, /, *children: str, **attributes: str | float) -> Markup:
    """`element("td", "<x>", class_="own")` is `<td class="own">&lt;x&gt;</td>`.

    An attribute's trailing underscore is dropped and its other underscores become hyphens.
    """
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(_written(value))}"'
        for key, value in attributes.items()
    )
    if tag in _VOID:
        return Markup(f"<{tag}{listed}>")
    return Markup(f"<{tag}{listed}>{join(*children)}</{tag}>")


def join(*children: str) -> Markup:
    """Children one after the other, those that are not markup escaped."""
    return Markup("".join(c if isinstance(c, Markup) else _escaped(c) for c in children))


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.7g}"


def _escaped(text: str) -> str:
    lines = (printable(line.expandtabs(4)) for line in text.split("\n"))
    return html.escape("\n".join(lines))
