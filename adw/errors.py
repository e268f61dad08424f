"""Every expected error, as one tree; classes carry fields and all wording stands here.

    AdwError
    ├── UsageError        exit 2   you must change something: a name, a file, an option
    ├── BrokenRun         exit 2   the run's own files are damaged or of another version
    ├── EnvironmentFault  exit 4   disk, permission, git, processes
    ├── BusyError         exit 5   another adw holds it
    └── HeldError         exit 6   a person is needed

Form: `error:` lower case, names in backticks, what was found before what was expected, then
`at:`, `why:` and `hint:`. A failed phase is no error but a value in the state.
"""

from enum import IntEnum
from typing import Any, ClassVar, Self


class ExitCode(IntEnum):
    """What a command's exit status says."""

    OK = 0
    FAILED = 1
    USAGE = 2
    BUG = 3
    ENVIRONMENT = 4
    BUSY = 5
    HELD = 6
    EFFECT_UNKNOWN = 79
    INTERRUPTED = 130
    TERMINATED = 143


class AdwError(Exception):
    """An error that adw expects: one message, no traceback.

    Templates are filled from `fields`; a line whose template names a field that is None or
    absent is left out, except the message itself.
    """

    code: ClassVar[str] = "adw"
    exit_code: ClassVar[ExitCode] = ExitCode.BUG
    text: ClassVar[str] = ""
    at: ClassVar[str] = ""
    why: ClassVar[str] = ""
    hint: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)
        self.fields = fields

    @property
    def message(self) -> str:
        """The first line, without `error: `."""
        return self.text.format_map(self.fields)

    def line(self, name: str) -> str | None:
        """Fill `at`, `why` or `hint`; None where the class has none or a field is missing."""
        template: str = getattr(self, name)
        try:
            filled = template.format_map(_Strict(self.fields))
        except KeyError:
            return None
        return filled or None

    def render(self) -> str:
        """The whole text as it goes to stderr, without a final newline."""
        lines = [f"error: {self.message}"]
        for name in ("at", "why", "hint"):
            filled = self.line(name)
            if filled:
                head, *rest = filled.splitlines()
                lines.append(f"  {name}: {head}")
                lines.extend(f"    {more}" for more in rest)
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The shape that `--json` prints."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.line("hint"),
                "fields": {k: _plain(v) for k, v in self.fields.items()},
            }
        }

    def __str__(self) -> str:
        return self.render()

    def with_fields(self, **more: Any) -> Self:
        """The same error with more fields (a file's name, say)."""
        return type(self)(**{**self.fields, **more})


class _Strict(dict[str, Any]):
    """A mapping that treats None as missing."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if value is None:
            raise KeyError(key)
        return value


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None | list | dict) else str(value)


class UsageError(AdwError):
    """You must change something."""

    code = "usage"
    exit_code = ExitCode.USAGE
    text = "{detail}"
    hint = "{fix}"


class BrokenRun(AdwError):
    """A run's own file is damaged; the file is never touched."""

    code = "run.broken"
    exit_code = ExitCode.USAGE
    text = "`{path}` is not a valid {what}"
    why = "{reason}"
    hint = "adw doctor {adw_id}"


class EnvironmentFault(AdwError):
    """The machine failed: disk, permission, git, processes."""

    code = "environment"
    exit_code = ExitCode.ENVIRONMENT
    text = "{detail}"
    why = "{reason}"
    hint = "{fix}"


class BusyError(AdwError):
    """Another adw holds what is needed."""

    code = "run.busy"
    exit_code = ExitCode.BUSY
    text = "run `{adw_id}` is in use by {holder}"
    hint = "wait for it, or stop it with `adw cancel {adw_id}`"


class HeldError(AdwError):
    """A person is needed before this can go on."""

    code = "run.held"
    exit_code = ExitCode.HELD
    text = "{detail}"
    hint = "{fix}"


# --- names -------------------------------------------------------------------------------


class UnknownName(UsageError):
    """A workflow, phase, issue or run that does not exist."""

    code = "name.unknown"
    text = "unknown {kind} `{name}`"
    why = "{reason}"
    hint = "{suggestion}"


class AmbiguousId(UsageError):
    """A prefix that fits several runs."""

    code = "id.ambiguous"
    text = "`{prefix}` fits several runs: {matches}"
    hint = "give more characters of the id"


class MalformedId(UsageError):
    """A text that can never be an ADW ID; refused before any path is built."""

    code = "id.malformed"
    text = "`{name}` is not an ADW ID: 6 to 64 of a-z, 0-9 and `-` are expected"


class ResumeChoice(UsageError):
    """`adw resume` without an ID, and not exactly one interrupted run."""

    code = "resume.choice"
    text = "{count} interrupted runs, one is expected"
    why = "not over: {matches}"
    hint = "adw resume ID, or adw resume --all for the interrupted ones"


# --- definitions -------------------------------------------------------------------------


class WorkflowError(UsageError):
    """A workflow or configuration file with a fault, and where it stands."""

    code = "workflow.invalid"
    text = "{detail}"
    at = "{file}:{line}:{column}"
    why = "{reason}"
    hint = "{fix}"


class NotYet(WorkflowError):
    """A key of the workflow file that this version does not run yet."""

    code = "workflow.not_yet"
    text = "`{name}` in phase `{phase}` is not supported yet by this version of adw"


class NotYetKey(NotYet):
    """As NotYet, for a key outside phases or in adw.yaml."""

    text = "`{name}` is not supported yet by this version of adw"


class DefinitionChanged(UsageError):
    """The files changed since the run pinned them, and what to do is not clear."""

    code = "definition.changed"
    text = "run `{adw_id}` cannot go on with the changed files: {detail}"
    hint = "{fix}"


# --- state -------------------------------------------------------------------------------


class StateError(BrokenRun):
    """The state file exists and is not valid; it is left as it is."""

    code = "state.invalid"


class StateVersion(StateError):
    """The state file was written by a newer adw."""

    code = "state.version"
    text = "`{path}` has schema version {found}, this adw reads up to {supported}"
    hint = "use a newer adw"


class StoreError(EnvironmentFault):
    """A durable write failed; the old file is intact, or the new one is whole."""

    code = "store.failed"
    text = "cannot write `{path}`: {reason}"
    why = ""
    hint = "{fix}"

    @classmethod
    def of(cls, error: OSError, path: str) -> Self:
        """What the disk refused, in the system's words."""
        return cls(path=path, reason=error.strerror or str(error), fix=None)


class ReadError(StoreError):
    """A file that is there could not be read: that never means that there is none."""

    code = "store.unreadable"
    text = "cannot read `{path}`: {reason}"


# --- repository --------------------------------------------------------------------------


class RepositoryError(UsageError):
    """The place where adw was called is not a repository that it can use."""

    code = "repository.unusable"
    text = "{detail}"
    at = "{path}"
    hint = "{fix}"


class GitError(EnvironmentFault):
    """Git said no."""

    code = "git.failed"
    text = "`git {command}` failed with exit code {exit_code}"
    why = "{stderr}"


class NotPrivate(EnvironmentFault):
    """Another user may write what decides here; adw acts by nothing of that kind, as ssh(1) does."""

    code = "store.not_private"
    text = "`{path}` is not this user's alone"


class WorktreeError(EnvironmentFault):
    """The run's worktree is not what the state says."""

    code = "worktree.mismatch"
    at = "{path}"


class PortsExhausted(EnvironmentFault):
    """No free pair of ports is left."""

    code = "ports.exhausted"
    text = "all {count} port pairs are leased"
    why = "held by: {holders}"
    hint = "end a run, or set `ports: none` in adw.yaml"


class PortTaken(BusyError):
    """What listens on a port belongs to no phase of the run."""

    code = "port.taken"
    text = "port {port} is served by {holder}, which is not of run `{adw_id}`"
    hint = "end that program yourself; adw ends nothing by its port"


class PortSilent(EnvironmentFault):
    """Nothing listened on a port in time."""

    code = "port.silent"
    text = "nothing of run `{adw_id}` listens on port {port} after {seconds} s"
    why = ""
    hint = "see what the server printed: adw logs {adw_id}"


# --- runs --------------------------------------------------------------------------------


class IssueBusy(BusyError):
    """A live run of the same issue exists."""

    code = "issue.busy"
    text = "issue {issue} already has the live run `{adw_id}`"
    hint = "adw {verb} {adw_id}, adw cancel {adw_id}, or adw run … --parallel"


class EffectUnknown(HeldError):
    """An outside effect that was begun, and nobody can tell whether it took place."""

    code = "effect.unknown"
    exit_code = ExitCode.EFFECT_UNKNOWN
    text = "effect `{key}` may have happened: {reason}"
    hint = "look, then adw effect settle {adw_id} {word} --done (or --not-done), and resume"


class LookUpFailed(EnvironmentFault):
    """An outside effect that could not be looked up and was never begun."""

    code = "effect.look_up"
    text = "effect `{key}` could not be looked up, so nothing was done"


class HostLocked(BusyError):
    """A short lock of this host or repository stayed taken."""

    code = "lock.busy"
    text = "`{path}` stayed locked for {seconds} s"
    why = "{holder}"
    hint = "look for another adw: adw status"


class InsidePhase(UsageError):
    """A person's command that was called from inside a phase of the run."""

    code = "request.inside_phase"
    text = (
        "`adw {command}` is for people and was called from inside phase `{phase}` of run `{adw_id}`"
    )


class Survivor(HeldError):
    """Processes of an ended attempt that cannot be ended."""

    code = "tree.survivor"
    text = "processes of attempt `{child_id}` are still alive: {pids}"
    hint = "end them, then adw resume {adw_id}"


class CancelFailed(EnvironmentFault):
    """The tree did not die; the status is unchanged."""

    code = "cancel.failed"
    text = "run `{adw_id}` is not cancelled: {reason}"
    why = ""


class SuperviseError(EnvironmentFault):
    """A supervisor could not be had."""

    code = "supervise.failed"
    text = "no supervisor could be started: {reason}"
    why = ""


def suggestion(name: str, known: list[str]) -> str | None:
    """A `did you mean` line for a misspelt name, or the list where nothing is close."""
    import difflib

    if close := difflib.get_close_matches(name, known, n=1):
        return f"did you mean `{close[0]}`?"
    return f"known: {', '.join(sorted(known)[:24])}" if known else None
