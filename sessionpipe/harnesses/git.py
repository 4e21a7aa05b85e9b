"""The repository a session works in, read from the git directory (protocol §3, ``repo``, ``branch``).

git itself is never run: it takes milliseconds, takes locks, and a repository's own settings can make
it run programs. What is read instead is what has been stable for decades: the ``.git`` folder or
file, ``HEAD``, ``commondir``, and the ``[remote "origin"]`` section of the config.

Left out on purpose: ``url.<base>.insteadOf`` and ``include`` (they belong to the person's machine, and
the spelling in the repository is the one that two machines share), ``GIT_DIR`` and its like.
"""

# Every hook pays for these calls, and a Path costs several times as much.
# ruff: noqa: PTH112, PTH113, PTH116, PTH117, PTH118, PTH120
from __future__ import annotations

import os
import re
import stat
from collections import OrderedDict
from typing import NamedTuple
from urllib.parse import urlsplit

_DEPTH = 64
_SMALL = 4 << 10
_CONFIG = 1 << 20
_REMEMBERED = 1024

#: What an answer rests on: paths, and how each looked (None: it was not there).
_Look = tuple[int, ...] | None
_Evidence = dict[str, _Look]


class _Answer(NamedTuple):
    evidence: tuple[tuple[str, _Look], ...]
    facts: dict[str, str]


_answers: OrderedDict[str, _Answer] = OrderedDict()


def git_facts(cwd: str) -> dict[str, str]:
    """What git would say about the folder ``cwd``, an absolute path: ``repo``, ``branch``, ``root``.

    ``repo``: the first URL of ``origin``, as ``host[:port]/path``; a repository that was cloned from a
    folder has that folder's path. ``branch``: absent on a detached HEAD. ``root``: the top of the
    working tree, as ``cwd`` spells it. A field nobody can tell is absent; {} outside a repository.

    An answer is remembered with the state of every file it rests on, and checked against that state.
    """
    answer = _answers.get(cwd)
    if answer is not None and all(_look(path) == seen for path, seen in answer.evidence):
        _answers.move_to_end(cwd)
        return dict(answer.facts)
    evidence: _Evidence = {}
    try:
        facts = _facts(cwd, evidence)
    except (OSError, ValueError):  # ValueError: a NUL in the path.
        return {}
    _answers[cwd] = _Answer(tuple(evidence.items()), facts)
    if len(_answers) > _REMEMBERED:
        _answers.popitem(last=False)
    return dict(facts)


def _look(path: str) -> _Look:
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(info.st_mode):
        # A folder's times change with every file in it; it is only asked whether it is the same one.
        return (info.st_dev, info.st_ino)
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


def _facts(cwd: str, evidence: _Evidence) -> dict[str, str]:
    if not os.path.isabs(cwd):
        return {}
    evidence[cwd] = _look(cwd)
    # Symbolic links are resolved as getcwd() does it: the parents of a link are not those of its folder.
    folder = real = os.path.realpath(cwd)
    for _ in range(_DEPTH):
        dot_git = os.path.join(folder, ".git")
        evidence[dot_git] = _look(dot_git)
        if (git_dir := _git_dir(dot_git, evidence)) is not None:
            facts = {"root": _as_spelled(cwd, real, folder)}
            if branch := _branch(_head(git_dir, evidence)):
                facts["branch"] = branch
            config = _read(os.path.join(_common_dir(git_dir, evidence), "config"), _CONFIG, evidence)
            if (url := origin_url(config or "")) and (repo := spell_remote(url)):
                facts["repo"] = repo
            return facts
        if os.path.isfile(dot_git):
            return {}  # It names a git directory that is none: git looks no further, either.
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    return {}


def _as_spelled(cwd: str, real: str, root: str) -> str:
    """``root`` as the beginning of ``cwd``, unless a link lies between the two."""
    plain = os.path.normpath(cwd)
    inside = os.path.relpath(real, root)
    if inside == os.curdir:
        return plain
    return plain[: -len(inside) - 1] if plain.endswith(os.sep + inside) else root


def _git_dir(dot_git: str, evidence: _Evidence) -> str | None:
    """The git directory that a ``.git`` is or names; None when it is neither, as git judges it."""
    if os.path.isdir(dot_git):
        found = dot_git
    else:
        text = _read(dot_git, _SMALL, evidence) or ""
        if not text.startswith("gitdir:"):
            return None
        found = os.path.join(os.path.dirname(dot_git), text.removeprefix("gitdir:").strip())
    common = _common_dir(found, evidence)
    for part in (os.path.join(common, "objects"), os.path.join(common, "refs")):
        if not os.path.isdir(part):
            evidence[part] = _look(part)
            return None
    return found if _head(found, evidence) is not None else None


def _common_dir(git_dir: str, evidence: _Evidence) -> str:
    """Where a worktree keeps what it shares; the git directory itself for any other."""
    text = _read(os.path.join(git_dir, "commondir"), _SMALL, evidence) or ""
    return os.path.join(git_dir, text.strip())


_REF = re.compile(r"ref:\s*(refs/.+)")
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def _head(git_dir: str, evidence: _Evidence) -> str | None:
    """What HEAD holds: the name of a ref, or a hash; None when it is no HEAD."""
    text = (_read(os.path.join(git_dir, "HEAD"), _SMALL, evidence) or "").rstrip()
    if match := _REF.fullmatch(text):
        return match[1]
    return text if _HASH.fullmatch(text) else None


def _branch(head: str | None) -> str | None:
    branch = (head or "").removeprefix("refs/heads/")
    # ".invalid" is what HEAD holds where refs are kept in a table (reftable), which isn't read here.
    unknown = branch == head or branch == ".invalid" or not branch.isprintable()
    return None if unknown else branch or None


def _read(path: str, limit: int, evidence: _Evidence) -> str | None:
    """A regular file of at most ``limit`` bytes, noted as evidence whether it is there or not."""
    evidence[path] = _look(path)
    try:
        # Looked at before it is opened: opening a device can have effects, opening a pipe can block.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    try:
        data = os.read(fd, limit + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return None
    finally:
        os.close(fd)
    return data.decode("utf-8", "replace") if len(data) <= limit else None


# --- the config -----------------------------------------------------------------------------------

_SECTION = re.compile(r'\[([A-Za-z0-9.-]*)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", "\\": "\\", '"': '"', "\n": ""}
_SPACES = " \t\r\n"


def origin_url(text: str) -> str | None:
    """The first ``url`` of ``[remote "origin"]`` in a git config, read as git reads one.

    None when there is none, and when git would refuse the file: an empty field beats a wrong one. An
    empty value forgets those before it.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n") + "\n"
    urls: list[str] = []
    section = ""
    at = 0
    while at < len(text):
        char = text[at]
        if char in _SPACES:
            at += 1
        elif char in "#;":
            at = text.index("\n", at)
        elif char == "[":
            if (header := _SECTION.match(text, at)) is None:
                return None
            section = header[1].lower()
            if header[2] is not None:
                section += "." + re.sub(r"\\(.)", r"\1", header[2])
            at = header.end()
        else:
            if (key := _KEY.match(text, at)) is None:
                return None
            at = _skip_blanks(text, key.end())
            value = None
            if text[at] == "=":
                value, at = _value(text, at + 1)
            if value is None and text[at] != "\n":
                return None
            if section == "remote.origin" and key[0].lower() == "url":
                if value is None:
                    return None
                urls = [*urls, value] if value else []
    return urls[0] if urls else None


def _value(text: str, at: int) -> tuple[str | None, int]:
    """The value at ``at`` and where its line ends; None, and anywhere else, for one git would refuse."""
    out: list[str] = []
    kept = 0  # How much of out remains when the blanks at its end are dropped.
    quoted = False
    at = _skip_blanks(text, at)
    while at < len(text) and text[at] != "\n":
        char = text[at]
        at += 1
        if char == "\\":
            if (escaped := _ESCAPES.get(text[at])) is None:
                return None, 0
            out.append(escaped)
            at += 1
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            at = text.index("\n", at)
            break
        else:
            out.append(char)
            if char in _SPACES and not quoted:
                continue
        kept = len(out)
    return (None, 0) if quoted else ("".join(out[:kept]), at)


def _skip_blanks(text: str, at: int) -> int:
    while text[at] in " \t":
        at += 1
    return at


# --- the remote -----------------------------------------------------------------------------------

_SCP = re.compile(r"(?:[^@/\[]*@)?(\[[^\]/]+\]|[^:/\[\]]+):(.*)", re.DOTALL)
_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_PORTS = {
    "https": 443,
    "http": 80,
    "ssh": 22,
    "git+ssh": 22,
    "ssh+git": 22,
    "git": 9418,
    "ftp": 21,
    "ftps": 990,
}


def spell_remote(url: str) -> str | None:
    """A remote's URL as ``host[:port]/path``, so that every way to clone it is spelled the same.

    No scheme, no user, password or query (those hold credentials), no default port, no ``.git``. The
    path of a folder comes back as it is. None for what is not understood, such as a remote helper's
    address, whose credentials could be anywhere.
    """
    if not url.isprintable() or _HELPER.match(url):
        return None
    scheme, separator, rest = url.partition("://")
    if separator and scheme.lower() == "file":
        return "/" + rest.partition("/")[2]
    if separator:
        return _spell_url(url, scheme.lower())
    match = _SCP.fullmatch(url)
    if match is None or _DRIVE.match(url):
        return url
    host = match[1].lower()
    if host.startswith("["):
        # An IPv6 address, or ssh's short form for a port: [user@host:port]:path
        inner = host[1:-1].rpartition("@")[2]
        host = f"[{inner}]" if inner.count(":") > 1 else inner.removesuffix(":22")
    return _joined(host, match[2])


def _spell_url(url: str, scheme: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if scheme not in _PORTS or not host:
        return None
    if ":" in host:
        host = f"[{host}]"
    return _joined(host if port in (None, _PORTS[scheme]) else f"{host}:{port}", parts.path)


def _joined(host: str, path: str) -> str | None:
    path = path.partition("?")[0].partition("#")[0].strip("/").removesuffix(".git").rstrip("/")
    # An @ inside a path may well end a password that had a slash in it.
    if not path or re.search("[^/]@", path):
        return None
    return f"{host}/{path}"
