"""A small orchestrator to be killed: `python -m … DIRECTORY`, the launch as JSON on stdin."""

from adw.supervise import nursery

if __name__ == "__main__":
    started = nursery.start()

    import json
    import os
    import sys
    from pathlib import Path

    from adw.supervise.local import LocalSupervision
    from tests.integration.supervise.room import Room

    asked = json.loads(sys.stdin.readline())
    room = Room(Path(sys.argv[1]), LocalSupervision(started))
    room.shell(asked["child_id"], asked["text"], go=asked["go"], **asked["more"])
    sys.stdout.write(f"{started.pid}\n")
    sys.stdout.flush()
    while True:
        for ended in room.local.wait(None):
            room.local.await_durable([ended.child_id])
            os.write(1, f"{ended.child_id}\n".encode())
