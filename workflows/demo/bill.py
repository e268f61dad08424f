"""Split a bill among people: `python bill.py 100.00 3` prints what each one pays."""

import sys


def split(total_cents: int, people: int) -> list[int]:
    """Share a total among people, in cents; shares differ by one cent at most."""
    if people < 1:
        raise ValueError("at least one person has to pay")
    return [total_cents // people] * people


def cents(text: str) -> int:
    """Read an amount such as `12`, `12.5` or `12.50`."""
    whole, _, rest = text.partition(".")
    if len(rest) > 2:
        raise ValueError(f"{text}: an amount has two decimals")
    return int(whole) * 100 + int(rest.ljust(2, "0"))


def main() -> None:
    total, people = cents(sys.argv[1]), int(sys.argv[2])
    for number, share in enumerate(split(total, people), start=1):
        print(f"person {number} pays {share // 100}.{share % 100:02}")


if __name__ == "__main__":
    main()
