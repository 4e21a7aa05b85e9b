"""The git directory read as git would read it; git itself is only the judge here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses.git import git_facts, origin_url, spell_remote

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(*arguments: str, cwd: Path, check: bool = True) -> str:
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=cwd,
        check=check,
        capture_output=True,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cwd),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.invalid",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.invalid",
        },
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    root = tmp_path / "work"
    root.mkdir()
    git("init", "-q", "-b", "main", cwd=root)
    git("commit", "-q", "--allow-empty", "-m", "first", cwd=root)
    git("remote", "add", "origin", "https://example.com/owner/name.git", cwd=root)
    return root


def hand_made(root: Path, *, head: str = "ref: refs/heads/main\n", config: str = "") -> Path:
    """A git directory without git, for what git would not make."""
    folder = root / ".git"
    for part in ("objects", "refs"):
        (folder / part).mkdir(parents=True)
    (folder / "HEAD").write_text(head)
    (folder / "config").write_text(config)
    return folder


# --- where ----------------------------------------------------------------------------------------


def test_a_repository_tells_its_origin_branch_and_root(repository: Path) -> None:
    assert git_facts(str(repository)) == {
        "repo": "example.com/owner/name",
        "branch": "main",
        "root": str(repository),
    }


def test_a_folder_below_the_root_is_in_the_repository(repository: Path) -> None:
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    assert git_facts(str(deep))["root"] == str(repository)


def test_a_new_repository_has_a_branch_before_its_first_commit(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    git("init", "-q", "-b", "trunk", cwd=tmp_path)
    assert git_facts(str(tmp_path)) == {"branch": "trunk", "root": str(tmp_path)}


def test_a_branch_may_have_slashes(repository: Path) -> None:
    git("checkout", "-q", "-b", "feature/x/ü", cwd=repository)
    assert git_facts(str(repository))["branch"] == "feature/x/ü"


def test_a_detached_head_is_no_branch(repository: Path) -> None:
    git("checkout", "-q", "--detach", cwd=repository)
    assert "branch" not in git_facts(str(repository))


def test_a_worktree_has_its_own_branch_and_shares_the_origin(repository: Path, tmp_path: Path) -> None:
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"), cwd=repository)
    assert git_facts(str(tmp_path / "side")) == {
        "repo": "example.com/owner/name",
        "branch": "side",
        "root": str(tmp_path / "side"),
    }


def test_a_submodule_is_a_repository_of_its_own(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git("clone", "-q", str(repository), str(other), cwd=tmp_path)
    git("submodule", "add", "-q", str(other), "sub", cwd=repository)
    assert git_facts(str(repository / "sub")) == {
        "repo": str(other),
        "branch": "main",
        "root": str(repository / "sub"),
    }


def test_outside_a_repository_there_is_nothing(tmp_path: Path) -> None:
    assert git_facts(str(tmp_path)) == {}


@pytest.mark.parametrize(
    "cwd", ["", "relative", "/nowhere/at/all", "/nul\0byte", "/\ud800", "/" + "x/" * 5000]
)
def test_a_folder_that_cannot_be_is_in_no_repository(cwd: str) -> None:
    assert git_facts(cwd) == {}


def test_a_link_to_a_folder_inside_is_in_the_repository(repository: Path, tmp_path: Path) -> None:
    (repository / "deep").mkdir()
    (tmp_path / "link").symlink_to(repository / "deep")
    assert git_facts(str(tmp_path / "link"))["root"] == str(repository)


def test_a_root_is_spelled_as_the_folder_is(repository: Path, tmp_path: Path) -> None:
    (repository / "deep").mkdir()
    (tmp_path / "alias").symlink_to(repository)
    assert git_facts(str(tmp_path / "alias" / "deep"))["root"] == str(tmp_path / "alias")
    assert git_facts(str(tmp_path / "alias"))["root"] == str(tmp_path / "alias")


# --- what is broken, or made to hurt ----------------------------------------------------------------


def test_a_git_folder_that_is_none_does_not_hide_the_repository_above(repository: Path) -> None:
    inner = repository / "inner"
    (inner / ".git").mkdir(parents=True)
    assert git_facts(str(inner))["root"] == str(repository)


def test_a_git_file_that_names_nothing_ends_the_search(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    (inner / ".git").write_text("gitdir: ../nowhere\n")
    assert git_facts(str(inner)) == {}


@pytest.mark.parametrize(
    "text", ["", "gitdir", "gitdir:", "gitdir: \0", "gitdir: " + "../" * 9000, "\xff" * 9]
)
def test_a_broken_git_file_is_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / ".git").write_text(text)
    assert git_facts(str(tmp_path)) == {}


def test_a_git_file_that_leads_to_what_is_no_repository_tells_nothing(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "HEAD").write_text("ref: refs/heads/secret\n")
    (elsewhere / "config").write_text('[remote "origin"]\nurl = https://example.com/secret\n')
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / ".git").write_text("gitdir: ../elsewhere\n")
    assert git_facts(str(inner)) == {}


def test_loops_of_links_and_of_git_files_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / ".git").symlink_to(tmp_path / "a")
    assert git_facts(str(tmp_path / "inner")) == {}
    assert git_facts(str(tmp_path / "a")) == {}
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / ".git").write_text("gitdir: .git\n")
    assert git_facts(str(tmp_path / "self")) == {}


@pytest.mark.parametrize("name", ["HEAD", "config", "commondir"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "loop"])
def test_a_file_that_is_none_neither_blocks_nor_raises(tmp_path: Path, name: str, kind: str) -> None:
    target = hand_made(tmp_path) / name
    target.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(target)
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(target)
    facts = git_facts(str(tmp_path))
    assert "repo" not in facts
    assert ("branch" in facts) == (name != "HEAD")


@pytest.mark.parametrize("name", [".git/HEAD", ".git/config"])
def test_a_huge_file_is_not_read(tmp_path: Path, name: str) -> None:
    hand_made(tmp_path, config='[remote "origin"]\nurl = https://example.com/a/b\n')
    with (tmp_path / name).open("ab") as file:
        file.truncate(1 << 34)  # sparse
    facts = git_facts(str(tmp_path))
    assert facts.get("repo") is None or facts.get("branch") is None


@pytest.mark.parametrize(
    "head",
    ["", "ref: ", "ref: refs/heads/", "ref: refs/heads/.invalid", "ref: refs/remotes/origin/main", "ref: ../../x",
     "ref: refs/heads/a\nb", "ref: refs/heads/\x1b[31m", "deadbeef", "\0" * 40],
)  # fmt: skip
def test_a_head_that_names_no_branch_gives_none(tmp_path: Path, head: str) -> None:
    hand_made(tmp_path, head=head)
    assert "branch" not in git_facts(str(tmp_path))


@given(junk=st.binary(max_size=300), name=st.sampled_from(["HEAD", "config", "commondir"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_in_any_of_the_files_raise(tmp_path: Path, junk: bytes, name: str) -> None:
    if not (tmp_path / ".git").exists():
        hand_made(tmp_path)
    (tmp_path / ".git" / name).write_bytes(junk)
    git_facts(str(tmp_path))


# --- a remembered answer ----------------------------------------------------------------------------


def test_an_answer_follows_the_repository(repository: Path, tmp_path: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    assert git_facts(str(inner))["branch"] == "main"
    git("checkout", "-q", "-b", "next", cwd=repository)
    assert git_facts(str(inner))["branch"] == "next"
    git("remote", "set-url", "origin", "git@example.com:other/name", cwd=repository)
    assert git_facts(str(inner))["repo"] == "example.com/other/name"
    git("init", "-q", "-b", "own", cwd=inner)
    assert git_facts(str(inner)) == {"branch": "own", "root": str(inner)}
    shutil.rmtree(inner / ".git")
    shutil.rmtree(repository / ".git")
    assert git_facts(str(inner)) == {}


def test_a_repository_made_later_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    folder.mkdir()
    assert git_facts(str(folder)) == {}
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert git_facts(str(folder)) == {}
    (folder / ".git" / "refs").mkdir()
    (folder / ".git" / "objects").mkdir()
    assert git_facts(str(folder)) == {"branch": "main", "root": str(folder)}


def test_an_answer_is_the_callers_to_change(repository: Path) -> None:
    git_facts(str(repository))["repo"] = "changed"
    assert git_facts(str(repository))["repo"] == "example.com/owner/name"


# --- the config ---------------------------------------------------------------------------------------


@needs_git
@pytest.mark.parametrize(
    "config",
    [
        '[remote "origin"]\n\turl = https://example.com/a\n',
        '[REMOTE "origin"]\n\tURL = https://example.com/a\n',
        '[remote "Origin"]\n\turl = https://example.com/a\n',
        "[remote.origin]\nurl = x\n",
        "[Remote.ORIGIN]\nurl = x\n",
        '[remote "or\\igin"]\nurl = x\n',
        '[remote "origin"] url = x\n',
        '[remote "origin"]\nurl = x # comment\n',
        '[remote "origin"]\nurl = "x # no comment" ; comment\n',
        '[remote "origin"]\nurl = a\\\nb\n',
        '[remote "origin"]\nurl = a\\tb\n',
        '[remote "origin"]\nurl = a\\qb\n',
        '[remote "origin"]\nurl = "unended\n',
        '[remote "origin"]\nurl\n',
        '[remote "origin"]\nurl # comment\n',
        '[remote "origin"]\nurl =\n',
        '[remote "origin"]\nurl = first\nurl = second\n',
        '[remote "origin"]\npushurl = p\nurl = u\n',
        '[remote "origin"]\r\nurl = crlf\r\n',
        '\ufeff[remote "origin"]\nurl = bom\n',
        "url = before any section\n",
        '[remote "origin"]\nurl = x\n[broken\n',
        '[remote "origin"]\nurl = x\n1key = y\n',
        '[remote "origin" ]\nurl = x\n',
        '[remote  "origin"]\nurl = x\n',
        '[ remote "origin"]\nurl = x\n',
        '[remote "origin"]\nurl = ends\\',
        '[remote "origin"]\nurl = x; [remote "other"]\n',
        '[remote "origin"]\nurl =   inner  blanks   \n',
        '; [remote "origin"]\n#url = x\n',
        '[url "https://elsewhere/"]\ninsteadOf = https://example.com/\n[remote "origin"]\nurl = https://example.com/a\n',
    ],
)
def test_a_config_is_read_as_git_reads_it(tmp_path: Path, config: str) -> None:
    assert origin_url(config) == first_url(tmp_path, config)


_PIECES = st.sampled_from(
    ['[remote "origin"]', "[remote.origin]", '[remote "b"]', "[core]", "url", "URL", "=", " = ", "\n", "\n", "\t", " ",
     '"', "\\", "\\n", "\\\n", "#", ";", "x", "https://h/p", "key", "[", "]", "é"]
)  # fmt: skip


@needs_git
@given(pieces=st.lists(_PIECES, max_size=14))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_config_is_read_as_git_reads_it(tmp_path: Path, pieces: list[str]) -> None:
    config = "".join(pieces)
    ours, theirs = origin_url(config), first_url(tmp_path, config)
    # A tab inside a value is a blank to git before 2.45.
    assert (ours and ours.replace("\t", " ")) == (theirs and theirs.replace("\t", " "))


def first_url(folder: Path, config: str) -> str | None:
    """What git itself reads; None when it refuses the file or there is no url."""
    file = folder / "config-to-read"
    file.write_bytes(config.encode())
    urls = git(
        "config", "--null", "--file", str(file), "--get-all", "remote.origin.url", cwd=folder, check=False
    )
    # Newer versions take an empty url for "forget those before"; this one lists it.
    kept: list[str] = []
    for url in urls.split("\0")[:-1] if urls else []:
        kept = [*kept, url] if url else []
    valued = git("config", "--file", str(file), "--list", "--null", cwd=folder, check=False).split("\0")
    return None if "remote.origin.url" in valued else (kept[0] if kept else None)


# --- the remote -----------------------------------------------------------------------------------------


def secret() -> str:
    return "s" + "3cr3t" * 4


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("https://example.com/owner/name.git", "example.com/owner/name"),
        ("https://Example.COM/Owner/Name/", "example.com/Owner/Name"),
        ("http://example.com:80/a/b", "example.com/a/b"),
        ("https://example.com:8443/a/b.git/", "example.com:8443/a/b"),
        ("ssh://git@example.com/a/b.git", "example.com/a/b"),
        ("ssh://git@example.com:2222/a/b.git", "example.com:2222/a/b"),
        ("git+ssh://git@example.com/a/b", "example.com/a/b"),
        ("git://example.com/a/b", "example.com/a/b"),
        ("git@example.com:a/b.git", "example.com/a/b"),
        ("example.com:a/b", "example.com/a/b"),
        ("git@example.com:/a/b", "example.com/a/b"),
        ("git@[::1]:a/b", "[::1]/a/b"),
        ("[git@example.com:22]:a/b", "example.com/a/b"),
        ("[example.com:2222]:a/b", "example.com:2222/a/b"),
        ("https://[2001:DB8::1]:8443/a/b", "[2001:db8::1]:8443/a/b"),
        ("https://example.com/a/b?token=x#y", "example.com/a/b"),
        ("https://example.com/~user/b", "example.com/~user/b"),
        ("/srv/git/name.git", "/srv/git/name.git"),
        ("../name", "../name"),
        ("./with:colon", "./with:colon"),
        ("file:///srv/git/name.git", "/srv/git/name.git"),
        ("C:\\src\\name", "C:\\src\\name"),
        ("https://", None),
        ("https:///path", None),
        ("https://example.com", None),
        ("https://example.com/.git", None),
        ("ext::sh -c x", None),
        ("codecommit::eu-west-1://profile@name", None),
        ("unheard-of://host/path", None),
        ("https://example.com:port/a", None),
        ("https://[broken/a", None),
        ("line\nbreak", None),
    ],
)  # fmt: skip
def test_a_remote_is_spelled_the_same_however_it_is_cloned(url: str, spelled: str | None) -> None:
    assert spell_remote(url) == spelled


@pytest.mark.parametrize(
    "form",
    [
        "https://user:{}@example.com/a/b.git",
        "https://{}@example.com/a/b.git",
        "https://user:p@{}@example.com/a/b",
        "ssh://user:{}@example.com:2222/a/b",
        "user:{}@example.com:a/b",
        "{}@example.com:a/b",
        "https://example.com/a/b?private_token={}",
        "https://example.com/a/b#{}",
        "https://user:12/{}@example.com/a/b",
        "https://user:{}/slash@example.com/a/b",
        "user:12/{}@example.com:a/b",
        "[user:{}@example.com:22]:a/b",
        "[{}@example.com:22]:a/b",
        "ext::ssh -p {} host",
        "helper::https://user:{}@example.com/a",
    ],
)
def test_no_credential_survives_in_any_form(form: str) -> None:
    assert secret() not in (spell_remote(form.format(secret())) or "")


@given(st.text(max_size=80) | st.from_regex(r"(https|ssh)://[^\n]{0,60}", fullmatch=True))
def test_no_url_raises(url: str) -> None:
    spell_remote(url)
