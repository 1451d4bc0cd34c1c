"""Lints files and folders: finds the programs, judges each, gathers what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from ddpdoctor.config import Config
from ddpdoctor.findings import DdpdoctorError, Finding
from ddpdoctor.lint import Linted, apis
from ddpdoctor.lint.cache import Cache, cache_folder
from ddpdoctor.lint.judging import Job, Judge
from ddpdoctor.lint.outcome import Outcome
from ddpdoctor.lint.programs import Candidates, candidates
from ddpdoctor.lint.rule import all_codes
from ddpdoctor.lint.scan import Scan, scan_file
from ddpdoctor.lint.signs import Signs

# Other processes judge what is left after so many seconds of computing, if it may take as long
# again: each needs a third of a second to start, and parses again what the programs share.
_SECONDS_ALONE = 2.0


def lint_paths(
    paths: list[Path],
    config: Config,
    contents: Mapping[Path, bytes] = MappingProxyType({}),
    *,
    cached: bool = False,
) -> Linted:
    """contents: files, by their real paths, that are taken to hold this (repairs not written).
    cached: use what is known from earlier runs."""
    job = Job(config.apis, tuple(config.codes(all_codes())))
    folder = cache_folder() if cached and not contents else None
    tables = apis.load(config.apis)  # first: a table that is not right is told, not digested
    cache = Cache(folder, job.codes, job.tables)
    scan = Scan(Signs(tables), folder and scan_file(folder, paths), cache.settings)
    found = candidates(paths, tables, scan, config.excludes)
    scan.save()
    outcomes = _judge([*found.entries, *found.around], job, tables, contents, cache)
    return _gather(paths, config, found, outcomes)


def _judge(
    scripts: list[Path], job: Job, tables: apis.Apis, contents: Mapping[Path, bytes], cache: Cache
) -> dict[Path, Outcome]:
    outcomes: dict[Path, Outcome] = {}
    for script in scripts:
        known = cache.load(script)
        if known is not None:
            outcomes[script] = known
    new = [script for script in scripts if script not in outcomes]
    if new:
        judge = Judge(job, tables, contents)
        started = time.process_time()
        for done, script in enumerate(new):
            left = new[done:]
            processes = min(len(left), _usable_cores())
            spent = time.process_time() - started
            long = spent > _SECONDS_ALONE and spent * len(left) > _SECONDS_ALONE * done
            if processes > 1 and not contents and long:
                from ddpdoctor.lint.workers import judge_in_processes

                outcomes.update(judge_in_processes(job, left, processes))
                break
            outcomes[script] = judge(script)
    for script in new:
        cache.store(script, outcomes[script])
    return {script: outcomes[script] for script in scripts}


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _gather(
    paths: list[Path], config: Config, found: Candidates, outcomes: Mapping[Path, Outcome]
) -> Linted:
    findings: dict[tuple[object, ...], Finding] = {}
    skipped = dict(found.skipped)
    files = set(found.files)
    unfinished: list[Path] = []
    programs = 0
    around = set(found.around)
    for script, outcome in outcomes.items():
        judged = outcome.judged
        if judged is None:
            skipped[script] = outcome.problem
            continue
        programs += judged.distributed
        files.update(map(str, judged.reached))
        skipped.update(judged.problems)
        if judged.exhausted:
            unfinished.append(script)
        for finding in judged.findings:
            if not config.ignores(finding) and (script not in around or _asked(finding, found)):
                findings.setdefault((finding.code, finding.filename, finding.location), finding)
    if paths and all(path in skipped for path in paths):
        raise DdpdoctorError("\n".join(f"{path}: {skipped[path]}" for path in paths))
    return Linted(
        tuple(findings.values()),
        len(files),
        programs,
        tuple(f"{_relative(path)}: {problem}" for path, problem in sorted(skipped.items())),
        tuple(map(_relative, unfinished)),
        any(outcome.failed for outcome in outcomes.values()),
    )


def _asked(finding: Finding, found: Candidates) -> bool:
    return finding.filename is not None and os.path.realpath(finding.filename) in found.asked


def _relative(path: Path) -> str:
    """As a person in the current folder would write it."""
    try:
        return str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
