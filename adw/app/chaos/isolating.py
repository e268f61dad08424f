"""What keeps a disturbed run from the world: no network, no secrets, a home and host of its own."""

import fcntl
import os
import re
import socket
import struct
from collections.abc import Sequence
from typing import Final

from adw.app.environment import inherited
from adw.app.places import GIVEN_OUTPUT
from adw.errors import EnvironmentFault

PLACEHOLDER: Final = "adw-chaos-placeholder"
"""Value of each secret."""

_NEWUSER: Final = 0x10000000
_NEWNET: Final = 0x40000000
_GET_FLAGS: Final = 0x8913  # SIOCGIFFLAGS
_SET_FLAGS: Final = 0x8914  # SIOCSIFFLAGS
_UP: Final = 1
_SECRET: Final = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|(?:\A|_)(?:API_?)?KEY(?:_|\Z)", re.IGNORECASE
)
_LEAVE_OUT: Final = re.compile(r"XDG_|SSH_|.*_PROXY\Z", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is nobody else's business."""
    return _SECRET.search(name) is not None


def environment(
    base: str, env_pass: Sequence[str], secrets: Sequence[str], *, network: bool
) -> dict[str, str]:
    """The environment of `adw run` in the copy.

    Args:
        base: The folder of the round, with `home`, `host` and `tmp`.
        env_pass: Of adw.yaml.
        secrets: Names that phases ask for.
        network: Whether it may use the network, and so the proxies.
    """
    found = {
        name: PLACEHOLDER if looks_secret(name) else value
        for name, value in inherited(os.environ, env_pass).items()
        if not _LEAVE_OUT.match(name) or (network and name.lower().endswith("_proxy"))
    }
    found.update(dict.fromkeys(secrets, PLACEHOLDER))
    given = os.environ.get("ADW_OUTPUT_DIR") or os.path.isdir(GIVEN_OUTPUT)
    output = {"ADW_OUTPUT_DIR": os.path.join(base, "output")} if given else {}
    return {
        **found,
        "HOME": os.path.join(base, "home"),
        "TMPDIR": os.path.join(base, "tmp"),
        "ADW_HOST_DIR": os.path.join(base, "host"),
        "ADW_AGENTS_DIR": os.path.join(base, "repo", "agents"),
        **output,
    }


def without_secrets(name: str, data: bytes) -> bytes:
    """The bytes of a file that is copied; secret values of a `.env` file are replaced."""
    if not os.path.basename(name).startswith(".env"):
        return data
    return b"".join(_blotted(line) for line in data.splitlines(keepends=True))


def _blotted(line: bytes) -> bytes:
    name, equals, _ = line.partition(b"=")
    if not equals or not looks_secret(name.decode("utf-8", "replace").strip()):
        return line
    return name + b"=" + PLACEHOLDER.encode() + b"\n"


def leave_network() -> None:
    """Move this process, and all that it starts from now on, to where only the loopback is.

    Raises:
        EnvironmentFault: This machine does not let it.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if os.geteuid() == 0 and libc.unshare(_NEWNET) == 0:
        _loopback_up()
        return
    if libc.unshare(_NEWUSER | _NEWNET) != 0:
        fault = _refused("unshare", os.strerror(ctypes.get_errno()))
        raise fault
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        _tell_kernel(name, text)
    _loopback_up()


def _tell_kernel(name: str, text: str) -> None:
    try:
        fd = os.open(f"/proc/self/{name}", os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as error:
        raise _refused(name, error.strerror) from error


def _refused(what: str, why: str | None) -> EnvironmentFault:
    return EnvironmentFault(
        detail="the network cannot be kept from the copy",
        reason=f"{what}: {why}",
        fix="if no phase does harm there, the same command with --allow-network",
    )


def _loopback_up() -> None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            asked = struct.pack("16sH14x", b"lo", 0)
            _, flags = struct.unpack("16sH14x", fcntl.ioctl(sock, _GET_FLAGS, asked))
            fcntl.ioctl(sock, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))
    except OSError as error:
        fault = _refused("the loopback", error.strerror)
        raise fault from error
