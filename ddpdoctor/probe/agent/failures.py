"""Records the exception that ends a process, at the moment it does, before launchers wrap it."""

from __future__ import annotations

import functools
import importlib
import multiprocessing.process
import sys
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ddpdoctor.probe.agent import mismatches
from ddpdoctor.probe.agent.user_code import frames_of, user_place
from ddpdoctor.probe.records import Recorder
from ddpdoctor.virtual.user_files import is_own_file

_MOST_CHARACTERS = 100_000


def install(recorder: Recorder) -> None:
    shown = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        record_failure(recorder, error)
        shown(kind, error, trace)

    sys.excepthook = excepthook
    shown_in_thread = threading.excepthook

    def thread_excepthook(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            record_failure(recorder, args.exc_value, thread=True)
        shown_in_thread(args)

    threading.excepthook = thread_excepthook

    # multiprocessing and mp.spawn catch what their target raises: sys.excepthook never sees it.
    process: Any = multiprocessing.process.BaseProcess
    bootstrap = process._bootstrap

    @functools.wraps(bootstrap)
    def _bootstrap(self: Any, *arguments: Any, **named: Any) -> Any:
        self.run = _recording(self.run, recorder)  # of the object: a subclass may have its own
        return bootstrap(self, *arguments, **named)

    process._bootstrap = _bootstrap
    # By its name: the attribute torch.multiprocessing.spawn is the function.
    spawn: Any = importlib.import_module("torch.multiprocessing.spawn")
    wrapped = spawn._wrap

    @functools.wraps(wrapped)
    def _wrap(fn: Callable[..., Any], *arguments: Any) -> Any:
        return wrapped(_recording(fn, recorder), *arguments)

    spawn._wrap = _wrap


def record_failure(recorder: Recorder, error: BaseException, thread: bool = False) -> None:
    """Type, text and traceback of an uncaught exception, and the mismatch in it if it is one."""
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        return
    frames = frames_of(error)
    mismatches.record_from_traceback(recorder, error, frames)
    recorder.write(
        "exception",
        place=user_place(frames),
        type=type(error).__qualname__,
        text=str(error)[:_MOST_CHARACTERS],
        traceback=_formatted(error)[-_MOST_CHARACTERS:],
        thread=thread,
    )


def _formatted(error: BaseException) -> str:
    """As Python prints it, without ddpdoctor's own frames (wrappers, the virtual GPUs)."""
    shown = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = shown
    while link is not None:
        link.stack[:] = [frame for frame in link.stack if not is_own_file(frame.filename)]
        link = link.__cause__ or link.__context__
    return "".join(shown.format())


def _recording(function: Callable[..., Any], recorder: Recorder) -> Callable[..., Any]:
    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            record_failure(recorder, error)
            raise

    return recorded
