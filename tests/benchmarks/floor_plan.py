"""The floor of W4: load a workflow file, look up every need, order the phases; `python -I`.

floor_plan.py FILE      `.json` by json, else YAML by libyaml
"""

import sys
from collections.abc import Mapping, Sequence


def load(path: str) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """The `phases` of the file."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".json"):
        import json

        document = json.loads(data)
    else:
        import yaml

        document = yaml.load(data, yaml.CSafeLoader)
    phases: Mapping[str, Mapping[str, Sequence[str]]] = document["phases"]
    return phases


def order(phases: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    """Names after what they need (Kahn)."""
    left = {name: len(phase.get("needs", ())) for name, phase in phases.items()}
    users: dict[str, list[str]] = {name: [] for name in phases}
    for name, phase in phases.items():
        for need in phase.get("needs", ()):
            users[need].append(name)
    found = [name for name, count in left.items() if not count]
    for name in found:
        for user in users[name]:
            left[user] -= 1
            if not left[user]:
                found.append(user)
    return found


if __name__ == "__main__":
    wanted = load(sys.argv[1])
    assert len(order(wanted)) == len(wanted), "a cycle"
