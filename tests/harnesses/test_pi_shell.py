"""harnesses.pi_shell: a command is an operation on files only where nobody could doubt it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.harnesses.pi_shell import FileOperation, recognize


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cat src/a.py", "src/a.py"),
        ("  cat a.py\n", "a.py"),
        ("cat -n 'a b.py'", "a b.py"),
        ('cat "a b.py" 2>/dev/null', "a b.py"),
        ("cat -- -odd", "-odd"),
        ("cat a#b~", "a#b~"),
        ("cat ~/notes.md", "~/notes.md"),
        ("cat 'a'\"b\"c", "abc"),
        ("nl a.py", "a.py"),
        ("head a.py", "a.py"),
        ("head -20 a.py", "a.py"),
        ("head -n 20 a.py", "a.py"),
        ("head -c 1k a.py", "a.py"),
        ("tail -n +5 a.py 2>&1", "a.py"),
        ("sed -n '1,20p' a.py", "a.py"),
        ("sed -n '5p; 7,$p' a.py", "a.py"),
    ],
)
def test_reading_a_file(command: str, path: str) -> None:
    assert recognize(command) == FileOperation("read", path)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("ls", "."),
        ("ls -la src", "src"),
        ("ls --color=never src", "src"),
        ("rg --files src", "src"),
        ("find src -type f", "src"),
        ("find", "."),
    ],
)
def test_listing_a_folder(command: str, path: str) -> None:
    assert recognize(command) == FileOperation("list", path)


@pytest.mark.parametrize(
    ("command", "pattern", "path"),
    [
        ("grep -rn handler src", "handler", "src"),
        ("grep 'a b' -i", "a b", None),
        ("grep -e handler src", "handler", "src"),
        ('grep -rn "foo\\|bar" --include=*.py src'.replace("*", "x"), "foo\\|bar", "src"),
        ("egrep -A 3 '^def ' a.py", "^def ", "a.py"),
        ("grep x a.py b.py", "x", None),
        ("rg -n 'f[a-z]+' src", "f[a-z]+", "src"),
        ("rg --glob='*.py' handler", "handler", None),
        ("find . -name '*.py'", "*.py", "."),
        ("find src -type f -iname 'test_*'", "test_*", "src"),
    ],
)
def test_searching(command: str, pattern: str, path: str | None) -> None:
    assert recognize(command) == FileOperation("search", path, pattern)


@pytest.mark.parametrize(
    "command",
    [
        "echo hello > f.txt",
        "echo 'a b' >> f.txt",
        'printf "%s\\n" x >f.txt',
        "cat > f.txt <<'EOF'\na $HOME `b`\nEOF",
        "cat <<EOF > f.txt\nplain\nEOF\n",
        'cat > f.txt << "END"\nEOF\nEND',
        "echo hello | tee f.txt",
        "cat <<'EOF' | tee -a f.txt\nx\nEOF",
    ],
)
def test_writing_a_file(command: str) -> None:
    assert recognize(command) == FileOperation("write", "f.txt")


@pytest.mark.parametrize(
    "command",
    [
        # More than one command, or one inside.
        "cat a; rm a",
        "cat a && rm a",
        "cat a | sh",
        "cat a &",
        "cat a\nrm a",
        "cat $(ls)",
        "cat `ls`",
        "(cat a)",
        "! cat a",
        # What the shell makes something of.
        "cat $FILE",
        'cat "$FILE"',
        "cat *.py",
        "cat a{b,c}",
        "cat ~other/a",
        "cat a\\ b",
        "FILE=a cat a",
        "cat <a",
        "cat <<< a",
        "cat a # note",
        "cat 'a",
        # Other descriptors and files that are none.
        "echo a 2> f",
        "echo a 3>f",
        "echo a &> f",
        "echo a >| f",
        "echo a > /dev/null",
        "cat a > /dev/null",
        "cat /dev/stdin",
        "cat -",
        "cat",
        # Options that do something else, or that nobody here knows.
        "tail -f a.log",
        "sed -i s/a/b/ a",
        "sed -n 's/a/b/p' a",
        "find . -name '*.py' -delete",
        "find . -exec rm {} +",
        "grep -f patterns a",
        "grep --include '*.py' x",
        "head --lines=3 a",
        # More files than one.
        "cat a b",
        "ls a b",
        "echo a > f > g",
        # A program that does more than to say something.
        "make > log.txt",
        "cat a > b",
        "cat a | tee b",
        "echo a | tee b | sh",
        "echo a | tee b > c",
        # Here-documents with something in or behind them.
        "cat > f <<EOF\n$(rm a)\nEOF",
        "cat > f <<'EOF'\na\nEOF\nrm a",
        "cat > f <<'EOF'\na",
        "cat > f <<-'EOF'\na\nEOF",
        "cat <<'EOF'\na\nEOF",
        "sh <<'EOF'\na\nEOF",
        # Nothing.
        "",
        " \n ",
        "> f",
        "echo >",
        "rm -rf a",
        "cat " + "a" * 5000,
    ],
)
def test_a_command_like_any_other(command: str) -> None:
    assert recognize(command) is None


@given(st.text() | st.text("cat ls>|<'\"$*;&\n\\EOF a.py-n#~"))
def test_nothing_is_too_odd_to_be_looked_at(command: str) -> None:
    found = recognize(command)
    assert found is None or found.kind in ("read", "write", "search", "list")


@given(st.text(min_size=1).filter(lambda text: not text.isspace()), st.sampled_from(";&|`$(){}<>*?[]!\\"))
def test_a_sign_the_shell_acts_on_is_never_overlooked(path: str, sign: str) -> None:
    assert recognize(f"cat {path}{sign}x") is None or sign in ">|"
