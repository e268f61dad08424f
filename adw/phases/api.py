"""What a phase program is given, and how it says what came of it.

For programs in Python that run as a phase:

    from adw.phases.api import Context, write_result

    context = Context.from_env()
    ...
    write_result(summary="built 3 pages", data={"pages": 3})

What has an effect outside of the worktree (a comment, a deployment) goes through `effect`, so that
it happens once, whatever is killed:

    from adw.phases.api import effect

    url = effect("comment", act=post_comment, probe=find_comment)

Standard library, `store.files`, `store.effects` and `store.encoding` only; importing it is cheap.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from adw.errors import StoreError, UsageError
from adw.store import effects, files
from adw.store.effects import Act, Effect, NotDone, Probe
from adw.store.encoding import json_bytes

__all__ = [
    "Act",
    "Context",
    "NotDone",
    "Probe",
    "effect",
    "intended",
    "options",
    "write_result",
]

_KEY_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Context:
    """The `ADW_*` environment of a phase process; None for what the run does not have."""

    adw_id: str
    phase: str
    attempt: int
    round: int
    """Which round of the phase: outside effects are made once a round."""
    child: str
    """`<phase>-<attempt>`."""
    state_root: str
    """The run's directory."""
    state: str
    """The state file; for reading only."""
    task: str
    """TASK.md of this attempt."""
    response: str
    """Where RESPONSE.md goes."""
    result: str
    """Where result.json goes."""
    artifacts: str
    """Directory for files to keep."""
    inputs: Mapping[str, str]
    """Name of an input to its path."""
    worktree: str
    branch: str | None
    issue_number: int | None
    issue_class: str | None
    plan_file: str | None
    backend_port: int | None
    frontend_port: int | None
    model_set: str | None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the environment.

        Raises:
            UsageError: A variable is missing or malformed: not started as a phase.
        """
        env = os.environ if environ is None else environ
        try:
            return cls(
                adw_id=env["ADW_ID"],
                phase=env["ADW_PHASE"],
                attempt=int(env["ADW_ATTEMPT"]),
                round=int(env.get("ADW_ROUND") or 1),
                child=env["ADW_CHILD"],
                state_root=env["ADW_STATE_ROOT"],
                state=env["ADW_STATE"],
                task=env["ADW_TASK"],
                response=env["ADW_RESPONSE"],
                result=env["ADW_RESULT"],
                artifacts=env["ADW_ARTIFACTS"],
                inputs=_inputs(env.get("ADW_INPUTS") or "{}"),
                worktree=env["ADW_WORKTREE"],
                branch=env.get("ADW_BRANCH") or None,
                issue_number=_number(env.get("ADW_ISSUE_NUMBER")),
                issue_class=env.get("ADW_ISSUE_CLASS") or None,
                plan_file=env.get("ADW_PLAN_FILE") or None,
                backend_port=_number(env.get("ADW_BACKEND_PORT")),
                frontend_port=_number(env.get("ADW_FRONTEND_PORT")),
                model_set=env.get("ADW_MODEL_SET") or None,
            )
        except (KeyError, ValueError) as error:
            raise UsageError(
                detail=f"not started as a phase of adw: {error}",
                fix="name this program in a workflow, and start it by `adw run`",
            ) from None


def write_result(
    state: Mapping[str, Any] | None = None,
    summary: str | None = None,
    data: Mapping[str, Any] | None = None,
    *,
    blocker: Mapping[str, Any] | None = None,
    retry_after_s: float | None = None,
    usage: Mapping[str, Any] | None = None,
    path: str | None = None,
) -> None:
    """Write result.json; what is None is left out. A later call replaces the whole file.

    Args:
        state: Fields of the run's state to set.
        summary: One line for people.
        data: Anything that later phases or people may want; instants become ISO 8601.
        blocker: With exit code 77: what a person has to do.
        retry_after_s: With exit code 75: when to try again.
        usage: Tokens and cost, as far as they are known.
        path: Target; by default what `ADW_RESULT` names.

    Raises:
        StoreError: It cannot be written.
        ValueError: Something in it is no JSON; a file from an earlier call stands as it was.
    """
    given = {
        "state": state,
        "summary": summary,
        "data": data,
        "blocker": blocker,
        "retry_after_s": retry_after_s,
        "usage": usage,
    }
    kept = {name: value for name, value in given.items() if value is not None}
    target = path or os.environ["ADW_RESULT"]
    try:
        files.replace(target, json_bytes(kept) + b"\n")
    except OSError as error:
        raise StoreError.of(error, target) from error


def effect(
    key: str, act: Act, probe: Probe | None = None, *, once: bool = False, payload: bytes = b""
) -> str:
    """Have something outside happen once: in this round of the phase, or with `once` in the run.

    Args:
        key: What the phase calls it; the same thing has the same key in every attempt.
        act: Does it and returns what it put out. Raise NotDone where it was refused and has
            certainly not happened; any other exception leaves that open.
        probe: Looks whether it was done: what it put out (perhaps ""), or None: it was not.
            It raises where it cannot tell; then it is asked again, 3 times in all. Without a
            probe, whatever was begun and has no receipt is settled by a person.
        once: Once in the run, whatever the phase and round.
        payload: What it does, for the record.

    Returns:
        What it put out, now or when it was done: at most 64 KiB.

    Raises:
        UsageError: Not called in a phase, or no key that can be used.
        EffectUnknown: It may have happened, and nobody can tell. End the program: the run is held
            until a person has settled it.
        LookUpFailed: It could not be looked up and was never begun.
        StoreError: A record could not be written.
        Exception: What `act` raised.
    """
    named = intended(Context.from_env(), key, once=once, payload=payload)
    output: str | None = effects.perform(named, act, probe).record["output"]
    return output or ""


def intended(context: Context, key: str, *, once: bool = False, payload: bytes = b"") -> Effect:
    """Name an effect of this attempt.

    Raises:
        UsageError: No key that can be used.
    """
    if not 0 < len(key) <= _KEY_CHARS or not key.isprintable() or key != key.strip():
        shown = key[:_KEY_CHARS].encode("unicode_escape").decode()
        detail = f"`{shown}` is no key of an effect: 1 to {_KEY_CHARS} printable characters"
        raise UsageError(detail=f"{detail} are expected", fix=None)
    if once and re.match(r"[0-9]+/", key):  # would be the key of a phase named `run`
        raise UsageError(
            detail=f"the key `{key}` of an effect begins with a number and `/`", fix=None
        )
    blot = _without_secrets(os.environ)
    if blot(key) != key:  # it stands in history and records, which others read
        detail = "the key of an effect has a secret of the phase in it"
        raise UsageError(detail=detail, fix="name the effect by something that may be known")
    return Effect(
        run_dir=context.state_root,
        phase=context.phase,
        round=context.round,
        child_id=context.child,
        key=key,
        once=once,
        payload=payload,
        blot=blot,
    )


def _without_secrets(environ: Mapping[str, str]) -> Callable[[str], str]:
    """Takes the secrets of this phase out of a text, plain or encoded."""
    names = environ.get("ADW_SECRETS", "").split(",")
    values = tuple(value for name in names if name and (value := environ.get(name)))
    if not values:
        return str

    def blot(text: str) -> str:
        from adw.supervise.pump import Redactor

        redactor = Redactor(values)
        data = text.encode("utf-8", "surrogateescape")
        return (redactor.feed(data) + redactor.rest()).decode("utf-8", "replace")

    return blot


def options(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the workflow's `with` says to a built-in program, with what adw.yaml adds to it.

    Raises:
        UsageError: The variable is malformed: not started as a phase.
    """
    env = os.environ if environ is None else environ
    try:
        return _inputs(env.get("ADW_OPTIONS") or "{}")
    except ValueError as error:
        detail = f"not started as a phase of adw: ADW_OPTIONS: {error}"
        raise UsageError(detail=detail, fix=None) from None


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _inputs(text: str) -> dict[str, str]:
    found = json.loads(text)
    if not isinstance(found, dict):
        message = "no JSON object"
        raise ValueError(message)  # noqa: TRY004 - malformed, as all else in the environment
    return {str(name): str(path) for name, path in found.items()}
