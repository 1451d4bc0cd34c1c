"""Source files: their bytes and their trees."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddpdoctor.lint.nesting import too_deep
from ddpdoctor.lint.values import Scope, Value

if TYPE_CHECKING:
    import libcst as cst

# A file this large is generated data, not a training program; it is named under skipped.
MOST_BYTES = 4 << 20

_COUNTED = re.compile(rb"\bself\.(\w+)[ ]*[-+*/]=")


class Unreadable(Exception):
    """A file that cannot be read or parsed; the text is one line for the user."""


class Module:
    """A Python file. It is parsed once, when first needed.

    variables: the module's namespace once the interpreter has run it. state: "new", "running" or
    "done", so that circular imports see a half-filled namespace, as in Python.
    """

    def __init__(
        self, path: Path, name: str, roots: tuple[Path, ...], data: bytes | None = None
    ) -> None:
        self.path = path
        self.name = name
        self.roots = roots
        self.variables: dict[Any, Value] = {}
        self.scope = Scope(self.variables, None)
        self.state = "new"
        self._tree: cst.Module | None = None
        self._parents: dict[int, cst.CSTNode] | None = None
        self._counted: frozenset[str] | None = None
        self._problem: Unreadable | None = None
        self._data = data

    def __repr__(self) -> str:
        return f"Module({self.path})"

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]

    @property
    def was_read(self) -> bool:
        """Whether the program that runs now imports it, and its bytes are known."""
        return self.state == "done" and self._data is not None

    @property
    def parsed(self) -> int:
        """How many bytes of source the tree stands for, 0 without one."""
        return 0 if self._tree is None or self._data is None else len(self._data)

    def data(self) -> bytes:
        """The file's bytes. Raises Unreadable."""
        if self._data is None:
            self._data = read(self.path)
        return self._data

    def tree(self) -> cst.Module:
        """The concrete syntax tree. Raises Unreadable."""
        if self._problem is not None:
            raise self._problem
        if self._tree is None:
            try:
                self._tree = parse(self.data(), self.path)
            except Unreadable as problem:
                self._problem = problem
                raise
        return self._tree

    def counted(self) -> frozenset[str]:
        """The attributes that the file's classes count in: `self.steps += 1`. Raises Unreadable."""
        if self._counted is None:
            found = _COUNTED.findall(self.data())
            self._counted = frozenset(name.decode("utf-8", "replace") for name in found)
        return self._counted

    def parents(self) -> dict[int, cst.CSTNode]:
        """The node above each node of the tree, by id(node). Raises Unreadable."""
        if self._parents is None:
            from ddpdoctor.lint.walking import parents

            self._parents = parents(self.tree())
        return self._parents


def read(path: Path) -> bytes:
    """Raises Unreadable with the reason in one line."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("is not a regular file")  # reading a pipe would wait for ever
        if status.st_size > MOST_BYTES:
            raise Unreadable(f"larger than {MOST_BYTES >> 20} MiB")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise Unreadable(getattr(error, "strerror", None) or str(error)) from None


def parse(data: bytes, path: Path) -> cst.Module:
    """The tree of a file's bytes. Raises Unreadable."""
    import libcst as cst  # takes longer than all else; a run from the cache does without

    if b"\0" in data:
        raise Unreadable("contains null bytes")
    deep = too_deep(data)
    if deep is not None:
        raise Unreadable(deep)
    try:
        return cst.parse_module(data)
    except cst.ParserSyntaxError as error:
        # The parser knows the line; its column is always the first.
        raise Unreadable(f"syntax error at line {error.raw_line}") from None
    except (UnicodeDecodeError, LookupError, SyntaxError):  # the last by tokenize, for cookies
        raise Unreadable("is not valid text in its encoding (UTF-8 unless declared)") from None
    except RecursionError:
        raise Unreadable("nests too deeply") from None
    except Exception as error:  # the native parser raises bare Exceptions for odd input
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise Unreadable(f"cannot be parsed: {reason[:200]}") from None
