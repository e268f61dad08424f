"""Local issues: what is read, what is refused, and the branch that follows."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adw.errors import UnknownName, UsageError, WorkflowError
from adw.forge.local import (
    MAX_BODY_BYTES,
    MAX_TITLE,
    Issue,
    branch_name,
    known_issues,
    parse_issue,
    read_issue,
    read_task,
)
from tests.support.marked import marked


def issue(text: str) -> Issue:
    return parse_issue(text.encode(), "issues/47.md", 47)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "issues"
    folder.mkdir()
    for name in ("9.md", "46.md", "47.md", "047.md", "README.md", "48.txt"):
        (folder / name).write_text(f"---\ntitle: From {name}\n---\nbody\n", encoding="utf-8")
    return tmp_path


def test_front_matter_and_body() -> None:
    text = "---\ntitle: OAuth2 login\nlabels: [ui, Bug]\nclass: feature\n---\n\nLine 1\n\nLine 2\n"

    assert issue(text) == Issue(47, "OAuth2 login", ("ui", "Bug"), "feature", "Line 1\n\nLine 2\n")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Add a `--json` flag\n\ntext", "Add a `--json` flag"),
        ("\n\n  ## Closed heading ##\n", "Closed heading"),
        ("Fix the crash\n\n# Steps\n", "Fix the crash"),
        ("#47 is broken\n", "#47 is broken"),
        ("#\n\nreal\n", "real"),
        ("---\nlabels: []\n---\n# In the body\n", "In the body"),
        ("---\ntitle:\n---\nIn the body\n", "In the body"),
        ("---\n---\nIn the body\n", "In the body"),
        ("\ufeff---\r\ntitle: Windows\r\n---\r\nbody\r\n", "Windows"),
        ("---\ntitle: on\n---\n", "on"),
    ],
)
def test_the_title_is_the_front_matters_else_the_first_line(text: str, title: str) -> None:
    assert issue(text).title == title


def test_a_text_without_front_matter_is_the_body_as_it_is() -> None:
    text = "\n# T\n\n---\nnot: front matter\n---\n\x1b[31m\u202e ok\r\nold\rend\n\n"

    assert issue(text).body == text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_follows_the_front_matter_is_the_body_as_it_is(end: str) -> None:
    text = f"---{end}title: T{end}labels: [a]{end}---{end}{end}"

    found = issue(f"{text}one\r\ntwo\rthree\n\n")

    assert (found.body, found.labels) == ("one\r\ntwo\rthree\n\n", ("a",))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("class: bug", "bug"),
        ("class: chore\nlabels: [bug]", "chore"),
        ("labels: [ui, Feature]", "feature"),
        ("labels: ui, bug", "bug"),
        ("labels: [bug, feature]", "bug"),
        ("labels: [debug]", None),
        ("class: null\nlabels:", None),
        ("assignee: me\nsource: {a: b}", None),
    ],
)
def test_the_class_is_the_front_matters_else_a_labels(head: str, expected: str | None) -> None:
    assert issue(f"---\n{head}\n---\nT\n").issue_class == expected


@pytest.mark.hostile("H3")
def test_h3_a_title_is_one_line_without_control_characters() -> None:
    found = issue('---\ntitle: "x\\r\\ny\\u2028z\\x1b[31m\\u202e\\tw"\n---\n')

    assert found.title == "x y z[31m w"
    assert issue("x\u2028y\x1b\u200b\U000e0041z").title == "x yz"


@pytest.mark.hostile("H3")
def test_h3_a_long_title_is_cut() -> None:
    found = issue("# " + "x" * (300 * 1024))

    assert found.title == "x" * (MAX_TITLE - 1) + "…"
    assert issue("x" * MAX_TITLE).title == "x" * MAX_TITLE


@pytest.mark.hostile("H1")
def test_h1_a_title_is_only_text() -> None:
    title = "x`; touch P; $(id) `id` ${IFS}"
    found = issue(f"# {title}\n")

    assert found.title == title
    assert branch_name(found, "cc73faf1") == "adw-47-cc73faf1-x-touch-p-id-id-ifs"


@given(st.text(max_size=400))
@pytest.mark.hostile("H3")
def test_any_title_becomes_one_clean_line_or_is_refused(text: str) -> None:
    try:
        title = parse_issue(text.encode("utf-8", "replace"), "t.md", None).title
    except WorkflowError:
        return

    assert 0 < len(title) <= MAX_TITLE
    assert title.isprintable() or all(
        unicodedata.category(c)[0] != "C" and c not in "\n\r\u2028\u2029" for c in title
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "»---\ntitle: x\n",
            ["the front matter has no end", "hint: write a line `---` after it"],
        ),
        (
            "»",
            ["neither a title nor a text is found", "hint: write `title:` into the front matter"],
        ),
        (
            "---\nlabels: []\n---\n»\n\n",
            ["neither a title nor a text is found", "hint: write `title:` into the front matter"],
        ),
        (
            "---\nclass: »bugs\n---\nx",
            [
                "`bugs` is found, `feature`, `bug` or `chore` is expected",
                "hint: did you mean `bug`?",
            ],
        ),
        (
            "---\nclass: »[bug]\n---\nx",
            ["`['bug']` is found, `feature`, `bug` or `chore` is expected", None],
        ),
        ("---\n»clas: bug\n---\nx", ["unknown key `clas`", "hint: did you mean `class`?"]),
        ("---\ntitle: a\n»title: b\n---\nx", ["the key `title` occurs twice"]),
        (
            "---\ntitle: »1.10\n---\nx",
            ["`1.10` is a number, a string is expected", 'hint: write "1.10" in quotes'],
        ),
        ("---\ntitle: »{a: b}\n---\nx", ["a mapping is found, a string is expected"]),
        ("---\ntitle: »''\n---\nx", ["the title is empty"]),
        ('---\ntitle: »"a\\0b"\n---\nx', ["a NUL character is found in the title"]),
        ("a»\x00b\n", ["a NUL character is found", "hint: save the file as UTF-8"]),
        (
            "---\ntitle: a\n---\nb\r\nc»\x00",
            ["a NUL character is found", "hint: save the file as UTF-8"],
        ),
        (
            "---\nlabels: [a, »3]\n---\nx",
            ["`3` is a number, a string is expected", 'hint: write "3" in quotes'],
        ),
        ("---\nlabels: »{a: b}\n---\nx", ["a mapping is found, a list is expected"]),
        ("---\n»- a\n---\nx", ["a list is found, a mapping is expected"]),
        ("---\ntitle: »&a x\n---\nx", ["the anchor `&a` is not allowed"]),
        ("---\ntitle: »*a\n---\nx", ["the alias `*a` is not allowed"]),
    ],
)
def test_a_fault_is_told_with_its_place(text: str, expected: list[str | None]) -> None:
    plain, [(line, column)] = marked(text)

    with pytest.raises(WorkflowError) as caught:
        issue(plain)

    head, at, *rest = caught.value.render().splitlines()
    found = [head.removeprefix("error: "), *(r.strip() for r in rest)]
    assert found == [e for e in expected if e is not None] or None in expected
    assert at == f"  at: issues/47.md:{line}:{column}"


def test_bytes_that_are_not_utf8_are_told_so() -> None:
    with pytest.raises(WorkflowError) as caught:
        parse_issue("# T\nGrü".encode() + b"\xdf\n", "issues/47.md", 47)

    assert caught.value.render() == (
        "error: byte 0xdf is not valid UTF-8\n"
        "  at: issues/47.md:2:4\n"
        "  hint: save the file as UTF-8"
    )


def test_an_issue_is_found_by_its_number(repo: Path) -> None:
    assert read_issue(str(repo), 47).title == "From 47.md"
    assert known_issues(str(repo)) == [9, 46, 47]


def test_an_unknown_issue_names_those_that_exist(repo: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        read_issue(str(repo), 48)

    assert caught.value.render() == "error: unknown issue `48`\n  hint: known: 9, 46, 47"


def test_a_repository_without_issues_is_told_where_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        read_issue(str(tmp_path), 1)

    assert caught.value.render() == (
        "error: unknown issue `1`\n"
        f"  why: there is no issue in `{tmp_path}/issues`\n"
        "  hint: write it to issues/1.md"
    )


def test_many_issues_are_counted(tmp_path: Path) -> None:
    (tmp_path / "issues").mkdir()
    for number in range(1, 21):
        (tmp_path / "issues" / f"{number}.md").touch()

    with pytest.raises(UnknownName) as caught:
        read_issue(str(tmp_path), 99)

    assert caught.value.line("hint") == (
        "known: 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 and 8 more"
    )


def test_what_is_no_file_or_too_large_is_one_clear_error(repo: Path) -> None:
    os.mkfifo(repo / "issues" / "1.md")
    (repo / "issues" / "2.md").write_bytes(b"x" * (MAX_BODY_BYTES + 1))
    (repo / "issues" / "3.md").write_bytes(b"x" * MAX_BODY_BYTES)

    for number, reason in ((1, "not a regular file"), (2, "larger than 1048576 bytes")):
        with pytest.raises(UsageError) as caught:
            read_issue(str(repo), number)
        assert caught.value.render() == (
            f"error: cannot read `{repo}/issues/{number}.md`: {reason}"
        )
    assert len(read_issue(str(repo), 3).body) == MAX_BODY_BYTES


@pytest.mark.hostile("H4")
def test_h4_a_body_of_four_byte_characters_is_read(repo: Path) -> None:
    body = "😀" * 65_536
    (repo / "issues" / "1.md").write_text(f"---\ntitle: t\n---\n{body}", encoding="utf-8")

    assert read_issue(str(repo), 1).body == body


def test_a_task_file_has_no_number(tmp_path: Path) -> None:
    path = tmp_path / "task.md"
    path.write_text("---\nclass: chore\n---\n# Tidy up\n", encoding="utf-8")

    task = read_task(str(path))

    assert task == Issue(None, "Tidy up", (), "chore", "# Tidy up\n")
    assert branch_name(task, "cc73faf1") == "chore-cc73faf1-tidy-up"

    with pytest.raises(UsageError) as caught:
        read_task(str(tmp_path / "no.md"))
    assert caught.value.render() == (
        f"error: cannot read the task file `{tmp_path}/no.md`: no such file"
    )


@pytest.mark.parametrize(
    ("issue_class", "prefix"),
    [("feature", "feat"), ("bug", "bug"), ("chore", "chore"), (None, "adw")],
)
def test_the_branch_says_class_issue_run_and_title(issue_class: str | None, prefix: str) -> None:
    found = Issue(47, "OAuth2", (), issue_class, "")

    assert branch_name(found, "cc73faf1") == f"{prefix}-47-cc73faf1-oauth2"
