"""A phase program with one effect: a comment posted to a remote, as a person would write it.

Environment: `REMOTE`, its URL; `BLIND`, not empty: there is no look-up.
"""

import json
import os
import sys
import urllib.request

from adw.errors import AdwError
from adw.phases.api import effect

MARK = "/".join(os.environ[name] for name in ("ADW_ID", "ADW_PHASE", "ADW_ROUND"))
URL = os.environ["REMOTE"] + "/comments"


def post() -> str:
    with urllib.request.urlopen(URL, MARK.encode(), timeout=5) as answer:
        answer.read()
    return MARK


def find() -> str | None:
    with urllib.request.urlopen(URL, timeout=5) as answer:
        return MARK if MARK in json.loads(answer.read()) else None


if __name__ == "__main__":
    try:
        sys.stdout.write(effect("comment", post, None if os.environ["BLIND"] else find))
    except AdwError as error:
        sys.stderr.write(error.render())
        sys.exit(int(error.exit_code))
