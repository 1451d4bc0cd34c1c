"""Lints files and folders: finds the programs, judges each, gathers what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ddpdoctor.config import Config
from ddpdoctor.findings import DdpdoctorError, Finding
from ddpdoctor.lint import Linted, apis
from ddpdoctor.lint.analysis import judge
from ddpdoctor.lint.programs import candidates
from ddpdoctor.lint.rule import all_rules
from ddpdoctor.lint.project import Project
from ddpdoctor.lint.sources import Unreadable


def lint_paths(
    paths: list[Path],
    config: Config,
    contents: Mapping[Path, bytes] = MappingProxyType({}),
) -> Linted:
    """contents: files, by their real paths, that are taken to hold this (repairs not written)."""
    known = apis.load(config.apis)
    project = Project(frozenset(known.libraries), contents)
    found = candidates(paths)
    chosen = config.codes(all_rules())
    findings: dict[tuple[object, ...], Finding] = {}
    skipped = {path: problem for path, problem in found.skipped}
    files: set[Path] = set()
    programs = 0
    for entry in found.entries:
        if config.excludes(entry) and entry not in paths:
            continue
        module = project.script(entry)
        try:
            judged = judge(module, project, known, chosen)
        except Unreadable as problem:
            skipped[entry] = str(problem)
            continue
        programs += judged.distributed
        files.update(judged.reached)
        skipped.update(judged.problems)
        for finding in judged.findings:
            if not config.ignores(finding):
                findings.setdefault((finding.code, finding.filename, finding.location), finding)
    if len(paths) == 1 and paths[0].is_file() and paths[0] in skipped:
        raise DdpdoctorError(f"{paths[0]}: {skipped[paths[0]]}")
    return Linted(
        tuple(findings.values()),
        max(found.files, len(files)),
        programs,
        tuple(f"{_relative(path)}: {problem}" for path, problem in sorted(skipped.items())),
    )


def _relative(path: Path) -> str:
    """As a person in the current folder would write it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
