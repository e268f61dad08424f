"""Workflow files: find one, read it, check it whole, compile it.

Every fault is a `WorkflowError` with file, line and column. Nothing is written.
"""

import gc
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from adw.core import promises, rules
from adw.core.compile import GraphFault, compile_graph
from adw.core.first import SETUP, Command, after_setup, argv_of
from adw.core.graph import Graph, Output, Phase, Repair, Retry
from adw.core.rules import CONDITIONS, Found, graph_fault
from adw.errors import UnknownName, UsageError, WorkflowError, suggestion
from adw.source.parse import parse
from adw.source.places import Source, shown
from adw.source.read import read_text_file

if TYPE_CHECKING:
    from adw.model.workflow import Defaults, PhaseSpec, WorkflowSpec

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_LIMITS: Final = {
    "timeout": "timeout_s",
    "idle_timeout": "idle_timeout_s",
    "memory": "memory_bytes",
    "processes": "processes",
    "disk": "disk_bytes",
    "log": "log_bytes",
}
"""Keys that phases and `defaults` share, with their names in the graph."""
_ENDINGS: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A valid workflow file."""

    spec: "WorkflowSpec"
    graph: Graph
    data: bytes
    """The file's bytes, as they are pinned."""
    file: str
    source: Source
    """Tells places."""
    resources: Mapping[str, bytes] = field(default_factory=dict)
    """Skills that its phases name, by path relative to the file's folder; pinned with it."""


class NotPinned(LookupError):
    """A skill that pinned bytes name and the pin does not have.

    Attributes:
        path: As the workflow file names it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Advice:
    """Something allowed that is probably not meant."""

    file: str
    line: int
    column: int
    text: str
    fix: str | None = None


def load_workflow(path: str, setup: Command | None = None) -> Loaded:
    """Read and compile a workflow file.

    Args:
        path: The file.
        setup: As `load_bytes` takes it.

    Raises:
        WorkflowError: The file's first fault.
        UsageError: It cannot be read.
    """
    return load_bytes(_read(path), path, setup=setup)


def load_bytes(
    data: bytes,
    file: str,
    resources: Mapping[str, bytes] | None = None,
    setup: Command | None = None,
) -> Loaded:
    """Compile a workflow file's bytes.

    Args:
        data: The whole file; JSON where `file` ends in `.json` or the text begins with `{`.
        file: Its name, for messages.
        resources: The skills that it may name, as they were pinned; None: they are read from the
            folder of `file`.
        setup: `setup` of adw.yaml: the command of a phase of that name, which all others wait for.

    Raises:
        WorkflowError: The file's first fault.
        NotPinned: It names a skill that `resources` does not have.
    """
    with _no_collection():
        source = parse(data, file)
        spec, faults = _validated(source)
        if spec is None:
            raise faults[0]
        for found in _faults_in(spec.phases):
            raise _as_error(source, found)
        skills, missing = _skills(spec.phases, file, resources)
        for found in missing:
            raise _as_error(source, found)
        return Loaded(spec, _compiled(source, spec, skills, setup), data, file, source, skills)


def validate_file(path: str, setup: Command | None = None) -> list[WorkflowError]:
    """All faults of a file, in its order; faults of the graph one at a time, once all else is well.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        source = parse(_read(path), path)
        spec, faults = _validated(source)
        if spec is None:
            return faults
        skills, missing = _skills(spec.phases, path, None)
        found = [_as_error(source, fault) for fault in (*_faults_in(spec.phases), *missing)]
        if not found:
            _compiled(source, spec, skills, setup)
            return []
    except WorkflowError as error:
        return [error]
    from adw.source.faults import in_order

    return in_order(found)


def advice(loaded: Loaded) -> list[Advice]:
    """What `adw validate` warns of."""
    from adw.core.advise import doubts_in

    found = []
    stem = os.path.basename(loaded.file).rpartition(".")[0]
    if stem and stem != loaded.spec.name:
        place = loaded.source.place(("name",))
        text = f"the file is called `{stem}`, its workflow `{loaded.spec.name}`"
        found.append(Advice(loaded.file, place.line, place.column, text, f"adw run {stem}"))
    for doubt in doubts_in(loaded.graph, loaded.spec.phases):
        place = loaded.source.place(doubt.path)
        found.append(Advice(loaded.file, place.line, place.column, doubt.text, doubt.fix))
    return found


# --- finding -----------------------------------------------------------------------------


def shipped_dir() -> str:
    """The folder of the workflows that come with adw."""
    package = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(package, "shipped")
    if os.path.isdir(installed):
        return installed
    return os.path.join(os.path.dirname(package), "workflows")


def find_workflow(name: str, repo_root: str) -> str:
    """The file of a workflow: the repository's own, else the shipped one.

    Args:
        name: Its name, without folder and ending.
        repo_root: The main checkout.

    Raises:
        UnknownName: No such workflow.
    """
    folders = (os.path.join(repo_root, "workflows"), shipped_dir())
    if _NAME.match(name):
        for folder in folders:
            for ending in _ENDINGS:
                path = os.path.join(folder, name + ending)
                if os.path.lexists(path):
                    return path
    known = sorted({stem for folder in folders for stem in _workflows_in(folder)})
    raise UnknownName(
        kind="workflow",
        name=shown(name),
        reason=None if known else "there is none in `workflows/`",
        suggestion=suggestion(name, known) or "adw init",
    )


def _workflows_in(folder: str) -> Iterator[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        stem, ending = os.path.splitext(name)
        if ending in _ENDINGS and _NAME.match(stem):
            yield stem


def _read(path: str) -> bytes:
    try:
        return read_text_file(path)
    except FileNotFoundError:
        raise UsageError(detail=f"cannot read `{path}`: no such file", fix=None) from None


@contextmanager
def _no_collection() -> Iterator[None]:
    """Spare the garbage collector: a large file makes many objects, none of them garbage."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


# --- checking ----------------------------------------------------------------------------


def _validated(source: Source) -> tuple["WorkflowSpec | None", list[WorkflowError]]:
    from pydantic import ValidationError

    from adw.model.workflow import WorkflowSpec

    try:
        return WorkflowSpec.model_validate(source.value), []
    except ValidationError as error:
        from adw.source.faults import faults

        return None, faults(error, source, WorkflowSpec)


def _faults_in(phases: Mapping[str, "PhaseSpec"]) -> Iterator[Found]:
    yield from rules.faults_in(phases)
    yield from promises.faults_in(phases)


def _skills(
    phases: Mapping[str, "PhaseSpec"], file: str, resources: Mapping[str, bytes] | None
) -> tuple[dict[str, bytes], list[Found]]:
    """The skills that phases name, by path, and what is wrong with some; bad paths are left out."""
    skills: dict[str, bytes] = {}
    faults: list[Found] = []
    for name, spec in phases.items():
        path = spec.skill
        if path is None or path in skills or promises.relative_fault(path):
            continue
        from adw.source.skill import SkillFault, read_skill

        try:
            if resources is None:
                skills[path] = read_skill(os.path.dirname(file), path)
            elif path in resources:
                skills[path] = resources[path]
            else:
                raise NotPinned(path)
        except SkillFault as fault:
            faults.append(Found(("phases", name, "skill"), str(fault)))
    return skills, faults


def _as_error(source: Source, found: Found) -> WorkflowError:
    if found.not_yet:
        from adw.source.faults import not_yet

        return not_yet(source, found.path, found.not_yet)
    error = source.fault(found.path, found.detail, reason=found.reason, fix=found.fix)
    return error.with_fields(names=list(found.names)) if found.names else error


def _compiled(
    source: Source, spec: "WorkflowSpec", skills: Mapping[str, bytes], setup: Command | None
) -> Graph:
    raw: dict[str, Any] = source.value["phases"]
    limits = {name: getattr(spec.defaults, key) for key, name in _LIMITS.items()}
    phases = [
        _phase(name, each, spec.defaults, _digest(raw[name], each, skills))
        for name, each in spec.phases.items()
    ]
    if setup is not None and SETUP in spec.phases:
        detail = f"`{SETUP}` is the phase that `setup` in adw.yaml makes"
        fix = "give this one another name, or take `setup` out of adw.yaml"
        raise source.fault(("phases", SETUP), detail, key=True, fix=fix)
    try:
        if setup is None:
            return compile_graph(spec.name, phases, spec.max_parallel)
        phases = after_setup(phases, setup, limits)
        return compile_graph(spec.name, phases, spec.max_parallel, SETUP)
    except GraphFault as fault:
        raise _as_error(source, graph_fault(fault, spec.phases)) from None


# --- from the file's form to the graph's ---------------------------------------------------


def _phase(name: str, spec: "PhaseSpec", defaults: "Defaults", digest: str) -> Phase:
    limits: dict[str, Any] = {
        name: getattr(spec if key in spec.model_fields_set else defaults, key)
        for key, name in _LIMITS.items()
    }
    retry, repair = spec.retry, spec.repair
    return Phase(
        name=name,
        needs=tuple(spec.needs),
        when=spec.when,
        retry=_ONE_TRY
        if retry is None
        else Retry(
            attempts=retry.attempts,
            delay_s=retry.delay,
            factor=retry.factor,
            max_delay_s=retry.max_delay,
            on=None if retry.on is None else frozenset(retry.on),
        ),
        repair=None if repair is None else Repair(repair.phase, repair.rounds, repair.back_to),
        allow_failure=spec.allow_failure,
        writes=spec.writes,
        argv=() if spec.run is None else argv_of(spec.run),
        use=spec.use,
        options=tuple(spec.options.items()),
        env=tuple(spec.env.items()),
        cwd=spec.cwd,
        ensure=tuple(_condition(c) for c in spec.ensure) if spec.ensure else (),
        on_retry=spec.on_retry,
        inputs=tuple(spec.inputs),
        outputs=_outputs(spec) if spec.outputs else (),
        secrets=tuple(spec.secrets),
        skill=spec.skill,
        digest=digest,
        **limits,
    )


def _condition(condition: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(condition, str) and condition in CONDITIONS:
        return (condition,)
    return argv_of(condition)


def _outputs(spec: "PhaseSpec") -> tuple[Output, ...]:
    return tuple(
        Output(
            name,
            each.path,
            each.description,
            each.root,
            each.state,
            each.format,
            each.optional,
            each.max_bytes,
        )
        for name, each in spec.outputs.items()
    )


def _digest(own_keys: Any, spec: "PhaseSpec", skills: Mapping[str, bytes]) -> str:
    """What the phase is told counts, not the name of the file that tells it."""
    if spec.skill is not None:
        own_keys = {**own_keys, "skill": hashlib.sha256(skills[spec.skill]).hexdigest()}
    return hashlib.sha256(_canonical(own_keys).encode()).hexdigest()


_canonical: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
).encode
_ONE_TRY: Final = Retry()
