"""Judges programs one after another, each whatever became of those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ddpdoctor.lint.apis import Apis
from ddpdoctor.lint.cache import digest
from ddpdoctor.lint.libcst_start import import_libcst
from ddpdoctor.lint.outcome import Evidence, Outcome
from ddpdoctor.lint.project import Project, script_roots
from ddpdoctor.lint.sources import Unreadable


@dataclass(frozen=True)
class Job:
    """What every program is judged by. tables: the user's, on top of the tool's own."""

    tables: tuple[Path, ...]
    codes: tuple[str, ...]


class Judge:
    """tables: all of them, the job's too; contents: files, by their real paths, that are taken to
    hold this."""

    def __init__(
        self, job: Job, tables: Apis, contents: Mapping[Path, bytes] = MappingProxyType({})
    ) -> None:
        import_libcst()
        self._job = job
        self._apis = tables
        self._project = Project(frozenset(self._apis.libraries), contents)

    def __call__(self, entry: Path) -> Outcome:
        from ddpdoctor.lint.analysis import judge

        try:
            script = self._project.script(entry)
            judged = judge(script, self._project, self._apis, self._job.codes)
        except Unreadable as problem:
            return Outcome(None, str(problem))
        except Exception as error:  # a bug of ours in one program must not cost the others
            self._project = Project(self._project.libraries, self._project.contents)
            return internal_error(_described(error))
        return Outcome(judged, evidence=self._evidence(entry))

    def _evidence(self, entry: Path) -> Evidence:
        project = self._project
        read = {module.path: module.data() for module in project.reached() if module.was_read}
        return Evidence(
            tuple(map(str, script_roots(entry.absolute()))),
            {
                str(path): None if data is None else digest(data)
                for path, data in {**read, **project.data_files}.items()
            },
            tuple(
                (name, tuple(map(str, roots)), found)
                for (name, roots), found in project.searches.items()
            ),
            {str(folder): names for folder, names in project.listings.items()},
        )


def internal_error(what: str) -> Outcome:
    return Outcome(None, f"internal error of ddpdoctor, please report it: {what}", failed=True)


def _described(error: Exception) -> str:
    import traceback

    where = traceback.extract_tb(error.__traceback__)[-1]
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return f"{what} ({Path(where.filename).name}:{where.lineno})"
