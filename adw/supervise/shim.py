"""A supervisor: one attempt at a time, until nobody will give it another."""

import os

from adw.supervise import frames
from adw.supervise.attempt import Attempt
from adw.supervise.ears import Ears
from adw.supervise.tree import Inside


def main(
    fd: int, *, subreaper: bool, group: str | None, note_fd: int, nursery: tuple[int, int]
) -> None:
    """Be a supervisor; returns when nothing is left to do.

    Args:
        fd: Its socket; with standard input, output, error and `note_fd` the only open ones.
        subreaper: Whether orphans below become its children.
        group: Control group that its nursery moves it to, if that works.
        note_fd: Where the nursery looks, after a kill, for what was being done.
        nursery: Its pid and start time.
    """
    ears = Ears(frames.Channel(fd), Inside(group, subreaper=subreaper), note_fd, nursery)
    while not ears.told_to_leave:
        if ears.launches:
            frame, lock_fd = ears.launches.pop(0)
            ears.turn_to(frame["spec"]["child_id"])
            if not Attempt(ears, frame["spec"], lock_fd).run():
                os._exit(1)  # something of its tree lives on: the nursery must look
            ears.child_id = None
            ears.note(b"")
        elif ears.orphaned:
            return
        else:
            ears.turn(None)
