"""A service unit that goes on with interrupted runs when the machine has started again.

Source: systemd.exec(5), systemd.kill(5), systemd.service(5), systemd.syntax(7).
"""

import os
import sys
from typing import Final

from adw.app.places import Places
from adw.errors import UsageError

NAMES: Final = ("systemd",)
_KEPT: Final = ("PATH", "ADW_AGENTS_DIR", "ADW_HOST_DIR", "ADW_OUTPUT_DIR")

_TEXT: Final = """\
# Goes on with what was interrupted in {title}, whenever this user's services start.
# Save it as ~/.config/systemd/user/{name}.service, then:
#   systemctl --user daemon-reload && systemctl --user enable {name}.service
#   loginctl enable-linger      (start at boot, not first at login)

[Unit]
Description=adw resume --all in {title}

[Service]
Type=exec
WorkingDirectory={directory}
{environment}
ExecStart={command}
# A phase outlives the process that started it: its supervisor holds it, enforces its limits and
# records its end. The default (control-group) would kill all supervisors and phases with that
# process, also where it only crashed; so would OOMPolicy=stop for one phase that used up memory.
KillMode=process
OOMPolicy=continue
# Lets adw make a control group for each phase, by which it ends all that the phase has started.
Delegate=yes
# 1: a run failed; 5: somebody else drives it; 6: it waits for a person. None of them is mended by
# starting again; a crash is.
SuccessExitStatus=1 5 6
Restart=on-abnormal
RestartSec=10

[Install]
WantedBy=default.target
"""


def unit(places: Places) -> str:
    """The text of a unit for the repository, to be saved by whoever asked.

    Raises:
        UsageError: A path has a character that no unit can carry.
    """
    root = places.repo.root
    pairs = [f"{name}={os.environ[name]}" for name in _KEPT if os.environ.get(name)]
    argv = [sys.executable, "-P", "-m", "adw", "resume", "--all"]  # -P: nothing of the checkout
    for text in (root, *pairs, *argv):
        if any(c < " " or c == "\x7f" for c in text):
            detail = f"a unit cannot carry the control characters in {text!r}"
            raise UsageError(detail=detail, fix=None)
    return _TEXT.format(
        title=_specifiers(os.path.basename(root)),
        name=_name(root),
        directory=_specifiers(root),
        environment="\n".join(f"Environment={_quoted(each)}" for each in pairs),
        command=" ".join(_quoted(each).replace("$", "$$") for each in argv),
    )


def _name(root: str) -> str:
    """A name for the unit's file: two repositories of one name do not share it."""
    import zlib

    from adw.ids import slug

    return f"adw-{slug(os.path.basename(root))}-{zlib.crc32(os.fsencode(root)):08x}"


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    inside = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_specifiers(inside)}"'
