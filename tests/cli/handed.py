"""What attempts of a handmade run handed over: copies, sources and verdict lines, as adw has them."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from adw.app.promoting import Manifest
from adw.app.reading import outcomes
from adw.store import attempts

AT: Final = "2026-01-02T03:00:07.000000Z"
PLAN: Final = b"# The plan\n\nMend it.\n"


def hand_over(
    run_dir: Path, child: str, files: Mapping[str, bytes], root: str = "artifacts"
) -> None:
    """Have an attempt hand over `<name>.md` for each name, and bring the manifest up to date."""
    outputs = {name: output(run_dir, child, name, data, root) for name, data in files.items()}
    line = {"line": "verdict", "at": AT, "success": True, "reason": None, "detail": None}
    with (run_dir / "attempts" / child / attempts.FILE).open("ab") as file:
        file.write(json.dumps({**line, "outputs": outputs, "faults": []}).encode() + b"\n")
    Manifest.of(str(run_dir), outcomes(str(run_dir))).write()


def output(run_dir: Path, child: str, name: str, data: bytes, root: str) -> dict[str, Any]:
    """One output of a verdict line, with its copy and, below the attempt, its source."""
    path = f"artifacts/{name}/{child}/{name}.md"
    targets = [run_dir / path]
    if root == "artifacts":
        targets.append(run_dir / "children" / child / "artifacts" / f"{name}.md")
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return {
        "path": path,
        "source": f"{name}.md",
        "root": root,
        "description": f"The {name}",
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "copied": True,
    }


def result(run_dir: Path, child: str, **said: Any) -> None:
    """Write an attempt's result.json."""
    (run_dir / "children" / child / "result.json").write_text(json.dumps(said))


def events(run_dir: Path, *more: tuple[str, str | None, str | None, dict[str, Any]]) -> None:
    """Append events: kind, stage, child id, slots."""
    from adw.store.history import History

    history = History(str(run_dir))
    for kind, stage, child, slots in more:
        history.add(kind, slots, entries=history.entries, stage=stage, child_id=child)
    history.flush()
    os.close(history._fd)
