"""Stands in for a coding agent: a plain program that knows one bug and how to mend it.

adw.yaml names it as AGENT; the workflow `sdlc` calls it as `agent.py plan|build|review`. What a
real agent would do by thinking, it does by rote; files, exit codes and checks are the real thing.
"""

import json
import os
import subprocess
import sys
import time

BUGGY = "    return [total_cents // people] * people\n"
HALF = "    share, left = divmod(total_cents, people)\n    return [share] * people\n"
WHOLE = (
    "    share, left = divmod(total_cents, people)\n"
    "    return [share + 1] * left + [share] * (people - left)\n"
)
HOLD_S = 30.0  # longest wait in the middle of build
EDIT_S = 1.0  # what is left of build then


def plan() -> None:
    """Write the plan that this phase owes: one file of specs/ with the ADW ID in its name."""
    with open(os.path.join(os.environ["ADW_STATE_ROOT"], "TASK.md"), encoding="utf-8") as file:
        task = file.read()
    slug = os.environ["ADW_BRANCH"].partition(os.environ["ADW_ID"] + "-")[2]
    path = f"specs/issue-{os.environ['ADW_ISSUE_NUMBER']}-adw-{os.environ['ADW_ID']}-{slug}.md"
    os.makedirs("specs", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f"{task.rstrip()}\n\n## Plan\n\n"
            "1. In `split`, divide with remainder.\n"
            "2. The first ones, as many as cents remain, pay one cent more.\n"
            "3. Review: shares add up for every total and every number of people.\n"
        )
    tell("planned")
    print(f"wrote {path}")


def build() -> None:
    """Change bill.py in two edits, and be interruptible between them."""
    plan_path = json.loads(os.environ["ADW_INPUTS"])["plan"]
    with open(plan_path, encoding="utf-8") as file:
        if "divide with remainder" not in file.read():
            sys.exit(f"{plan_path} is no plan that this agent can follow")
    edit(BUGGY, HALF)
    print("wrote the first half of the change", flush=True)
    with open(os.path.join(os.environ["ADW_ARTIFACTS"], "half-done"), "w", encoding="utf-8"):
        pass
    # `adw demo` kills the orchestrator now. It holds this program here until the next orchestrator
    # has come, so that a slow machine sees the same as a fast one.
    deadline = time.monotonic() + HOLD_S
    while os.path.exists(os.environ["HOLD"]) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(EDIT_S)
    edit(HALF, WHOLE)
    print("wrote the second half")


def review() -> None:
    """Hold the change against the issue and the plan, not against the tests."""
    args = ["git", "status", "--porcelain", "--untracked-files=all"]
    listed = subprocess.run(args, check=True, capture_output=True, text=True).stdout
    changed = sorted(line[3:] for line in listed.splitlines())
    expected = sorted(["bill.py", os.environ["ADW_PLAN_FILE"]])
    if changed != expected:
        sys.exit(f"review: {changed} changed, {expected} expected")
    sys.path.insert(0, os.getcwd())
    from bill import split

    for total in range(1001):
        for people in range(1, 13):
            shares = split(total, people)
            if sum(shares) != total or max(shares) - min(shares) > 1:
                sys.exit(f"review: {total} cents among {people} gives {shares}")
    tell("reviewed")
    print("12,012 bills add up; bill.py and the plan changed, nothing else did")


def edit(old: str, new: str) -> None:
    """Change a piece of bill.py. A phase may be cut off and run again: what is done is left."""
    with open("bill.py", encoding="utf-8") as file:
        text = file.read()
    if new in text or WHOLE in text:
        return
    if text.count(old) != 1:
        sys.exit("bill.py is not what this agent knows")
    with open("bill.py.new", "w", encoding="utf-8") as file:
        file.write(text.replace(old, new))
    os.replace("bill.py.new", "bill.py")


def tell(summary: str) -> None:
    with open(os.environ["ADW_RESULT"], "w", encoding="utf-8") as file:
        json.dump({"summary": summary}, file)


KNOWN = {"plan": plan, "build": build, "review": review}

if __name__ == "__main__":
    phase = sys.argv[1]
    with open(os.environ["DIARY"], "a", encoding="utf-8") as diary:
        diary.write(f"{phase}\n")
    if phase not in KNOWN:
        sys.exit(f"this agent cannot {phase}")
    KNOWN[phase]()
