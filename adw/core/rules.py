"""What a workflow file may not say beyond its shape, each with the path of keys where it stands."""

import difflib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from adw.core import template, when
from adw.core.compile import GraphFault, Kind

if TYPE_CHECKING:
    from adw.model.workflow import PhaseSpec

CONDITIONS: Final = ("changed", "committed", "clean")
OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "commit": (),
    "push": ("remote", "token", "host", "user"),
    "tag": ("name", "message", "remote", "token", "host", "user"),
    "notify": ("text",),
}
"""Built-in phase programs that `use` may name, and what `with` may say to each."""
PROGRAMS: Final = tuple(OPTIONS)
OWED: Final[Mapping[str, str]] = {"tag": "name"}
"""An option that a program cannot do without."""
WRITERS: Final = ("commit",)
"""Programs that change the worktree."""
PROGRAMS_NOT_YET: Final = ("classify",)

Path = tuple[str | int, ...]


class Found(NamedTuple):
    """One fault."""

    path: Path
    """Keys and indices from the root of the file."""
    detail: str
    fix: str | None = None
    reason: str | None = None
    not_yet: str | None = None
    """What this version does not run; `detail` is then empty."""
    names: tuple[str, ...] = ()
    """All phases of a cycle."""


def faults_in(phases: Mapping[str, "PhaseSpec"]) -> Iterator[Found]:
    """Everything wrong inside single phases, in declared order."""
    for name, spec in phases.items():
        at = ("phases", name)
        yield from _command(at, spec)
        if spec.when is not None and (fault := when.check(spec.when, spec.needs)):
            yield Found((*at, "when"), fault)
        if len(spec.needs) > 1:
            yield from _twice(at, spec.needs)
        if spec.ensure:
            yield from _ensure(at, spec)
        if spec.cwd is not None:
            yield from _cwd(at, spec.cwd, spec.inputs)
        for variable in spec.env:
            if variable.startswith("ADW_"):
                fault = f"`{variable}` is a variable that adw itself sets"
                yield Found((*at, "env", variable), fault, "take another name")


def _command(at: Path, spec: "PhaseSpec") -> Iterator[Found]:
    if spec.use is not None:
        yield from _program((*at, "use"), spec)
        yield from _options((*at, "with"), spec)
    elif spec.options:
        yield Found((*at, "with"), "`with` is found beside `run`, it goes with `use` only")
    if isinstance(spec.run, str):
        yield from _script((*at, "run"), spec.run)
    elif spec.run:
        yield from _words((*at, "run"), spec.run, spec.inputs)


def _program(path: Path, spec: "PhaseSpec") -> Iterator[Found]:
    use = spec.use or ""
    if use in PROGRAMS_NOT_YET:
        yield Found(path, "", not_yet=f"use: {use}")
    elif use not in PROGRAMS:
        yield Found(path, f"unknown built-in phase program `{use}`", _nearest(use, PROGRAMS))
    elif use in WRITERS and not spec.writes:
        detail = f"`use: {use}` with `writes: false` is found, but it writes"
        yield Found((*path[:-1], "writes"), detail)


def _options(at: Path, spec: "PhaseSpec") -> Iterator[Found]:
    known = OPTIONS.get(spec.use or "")
    if known is None:
        return
    for name, text in spec.options.items():
        if name not in known:
            fix = _nearest(name, known) if known else f"`use: {spec.use}` has none"
            yield Found((*at, name), f"unknown option `{name}` of `use: {spec.use}`", fix)
        else:
            yield from _templates((*at, name), text, spec.inputs)
    owed = OWED.get(spec.use or "")
    if owed and not spec.options.get(owed):
        detail = f"`use: {spec.use}` without its option `{owed}`"
        yield Found(at[:-1], detail, f"add `with: {{{owed}: …}}`")
    if "token" in spec.options:
        yield from _token((*at, "token"), spec.options["token"], spec)


def _token(path: Path, token: str, spec: "PhaseSpec") -> Iterator[Found]:
    if token not in spec.secrets:
        detail = f"`token: {token}` is found, but `{token}` is not among the phase's `secrets`"
        yield Found(path, detail, f"add `secrets: [{token}]`")
    elif not spec.options.get("host"):
        fix = "add `host: github.com`, or whose token it is"
        yield Found(path, "`token` without `host` is found", fix)


def _script(path: Path, script: str) -> Iterator[Found]:
    if fault := template.check_shell(script):
        name = template.names_in(script)[0]
        variable = template.VARIABLES.get(name)
        fix = f'write "${variable}"' if variable else "write `run` as a list of words"
        if name.startswith("inputs."):
            fix += ", or read the JSON in $ADW_INPUTS"
        yield Found(path, fault, fix)


def _words(path: Path, argv: Sequence[str], inputs: Sequence[str]) -> Iterator[Found]:
    if not argv[0].strip():
        yield Found((*path, 0), "the command's first word is empty")
    if tuple(argv[:2]) == ("sh", "-euc") and len(argv) > 2:  # noqa: PLR2004 - is a shell script too
        yield from _script((*path, 2), argv[2])
        return
    for i, word in enumerate(argv):
        if "{" in word:
            yield from _templates((*path, i), word, inputs)


def _templates(path: Path, text: str, inputs: Sequence[str]) -> Iterator[Found]:
    if fault := template.check(text, inputs):
        wanted = [n.removeprefix("inputs.") for n in template.names_in(text) if "." in n]
        missing = next(name for name in wanted if name not in inputs)
        close = difflib.get_close_matches(missing, inputs, n=1)
        fix = f"did you mean `{{inputs.{close[0]}}}`?" if close else f"add `inputs: [{missing}]`"
        yield Found(path, fault, fix)


def _twice(at: Path, needs: Sequence[str]) -> Iterator[Found]:
    seen: set[str] = set()
    for i, need in enumerate(needs):
        if need in seen:
            yield Found((*at, "needs", i), f"`{need}` is named twice")
        seen.add(need)


def _ensure(at: Path, spec: "PhaseSpec") -> Iterator[Found]:
    for i, condition in enumerate(spec.ensure):
        path = (*at, "ensure", i)
        if isinstance(condition, list):
            if len(condition) == 1 and condition[0] in CONDITIONS:
                fault = f"a command `{condition[0]}` is found, which is also a post-condition"
                yield Found(path, fault, f"write {condition[0]} without brackets")
            yield from _words(path, condition, spec.inputs)
        elif condition in CONDITIONS:
            if condition != "clean" and not spec.writes:
                yield Found(path, f"`{condition}` can never be met with `writes: false`")
        else:
            close = difflib.get_close_matches(condition, CONDITIONS, n=1, cutoff=0.75)
            if close:
                fix = f"did you mean `{close[0]}`? A command of that name: [{condition}]"
                yield Found(path, f"unknown post-condition `{condition}`", fix)
            yield from _script(path, condition)


def _cwd(at: Path, cwd: str, inputs: Sequence[str]) -> Iterator[Found]:
    path = (*at, "cwd")
    yield from _templates(path, cwd, inputs)
    if cwd.startswith("/"):
        yield Found(path, f"`{cwd}` is absolute, a path inside the worktree is expected")
    elif posixpath.normpath(cwd).startswith(".."):
        yield Found(path, f"`{cwd}` leads out of the worktree")


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known: {', '.join(known[: 2 * _SHOWN])}"


# --- the graph ---------------------------------------------------------------------------


def graph_fault(fault: GraphFault, phases: Mapping[str, "PhaseSpec"]) -> Found:
    """Put a fault of the graph into words, with its place in the file."""
    path: Path = ("phases", fault.phase, *fault.key.split("."))
    if fault.key == "needs" and fault.kind is not Kind.REPAIR_PHASE:
        wanted = fault.names[1 % len(fault.names)] if fault.kind is Kind.CYCLE else fault.names[0]
        needs = phases[fault.phase].needs
        if wanted in needs:
            path = (*path, needs.index(wanted))
    if fault.kind is Kind.UNKNOWN_PHASE:
        name = fault.names[0]
        others = [p for p in phases if p != fault.phase]
        return Found(path, f"unknown phase `{name}`", _nearest(name, others) if others else None)
    if fault.kind is Kind.CYCLE:
        return _cycle(path, fault.names)
    if fault.key in {"inputs", "outputs"}:
        return _passed_on(fault, phases)
    detail, reason, fix = _graph_words(fault)
    return Found(path, detail, fix, reason)


def _passed_on(fault: GraphFault, phases: Mapping[str, "PhaseSpec"]) -> Found:
    """Faults of what one phase puts out and another reads."""
    phase, (name, *others) = fault.phase, fault.names
    if fault.kind is Kind.OUTPUT_TWICE:
        path: Path = ("phases", phase, "outputs", name)
        return Found(path, f"`{name}` is an output of `{others[0]}` already", "take another name")
    path = ("phases", phase, "inputs", phases[phase].inputs.index(name))
    if fault.kind is Kind.UNKNOWN_INPUT:
        near = _nearest(name, others) if others else "give the phase that makes it `outputs`"
        return Found(path, f"unknown input `{name}`", near, "it is an output of no phase")
    detail, reason, fix = _not_needed(phase, name, others, phases)
    return Found(path, detail, fix, reason)


def _not_needed(
    phase: str, name: str, others: Sequence[str], phases: Mapping[str, "PhaseSpec"]
) -> tuple[str, str | None, str | None]:
    producer, *without = others
    if any(each.repair and each.repair.phase == producer for each in phases.values()):
        detail = f"`{name}` is an output of the repair phase `{producer}`, which may never run"
        return detail, None, None
    if producer in without and producer != phase:
        detail = f"`{name}` is an output of `{producer}`, which has failed when `{phase}` starts"
        return detail, None, None
    listed = _listed(without, "and")
    do = "do" if len(without) > 1 else "does"
    reason = None if without == [phase] else f"the repair phase `{phase}` starts when that fails"
    detail = f"{listed} {do} not need `{producer}`, which makes `{name}`"
    return detail, reason, f"add `{producer}` to the `needs` of {listed}"


def _cycle(path: Path, names: tuple[str, ...]) -> Found:
    if len(names) == 1:
        return Found(path, f"`{names[0]}` needs itself", names=names)
    shown = [f"`{name}`" for name in names]
    if len(shown) > _SHOWN:
        left = len(shown) - _SHOWN
        shown = [*shown[: _SHOWN // 2], f"… {left} more …", *shown[-(_SHOWN // 2) :]]
    chain = " → ".join([*shown, f"`{names[0]}`"])
    detail = f"{len(names)} phases need each other in a circle"
    return Found(path, detail, "take one `needs` out", chain, names=names)


def _graph_words(fault: GraphFault) -> tuple[str, str | None, str | None]:
    """Message, reason and hint."""
    phase, names = fault.phase, fault.names
    if fault.kind is Kind.REPAIR_PHASE:
        detail = f"the repair phase `{phase}` cannot have `{fault.key}`"
        return detail, f"it runs only when {_listed(names)} calls it", None
    if fault.kind is Kind.NEEDS_REPAIR_PHASE:
        detail = f"`{phase}` needs the repair phase `{names[0]}`"
        return detail, f"it runs only when {_listed(names[1:])} calls it", None
    if fault.kind is Kind.BACK_TO:
        detail = f"`{phase}` does not need `{names[0]}`, to which its repair would lead back"
        if names[0] == phase:
            return detail, None, "leave `back_to` out: the repair leads back to its owner"
        return detail, None, f"name a phase that `{phase}` needs, directly or by others"
    if fault.kind is Kind.RESET_BESIDE:
        detail = f"`{phase}` may run beside {_listed(names)}, whose work a reset would undo"
        return detail, None, "use `on_retry: keep`, or let one need the other"
    if fault.kind is Kind.EMPTY:
        return "no phase is found, at least one is expected", None, None
    return f"`{phase}` is not valid: {fault.kind}", None, None


def _listed(names: Sequence[str], word: str = "or") -> str:
    shown = [f"`{name}`" for name in names[:_SHOWN]]
    more = len(names) - len(shown)
    return f" {word} ".join(shown) + (f" {word} {more} more" if more else "")


_SHOWN: Final = 12
