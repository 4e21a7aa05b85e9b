"""Putting hook entries into other programs' files, and taking them out byte for byte.

What goes where is data (:mod:`sessionpipe.install.targets`); how one file changes is pure
(:mod:`~sessionpipe.install.entries`, :mod:`~sessionpipe.install.owned`, :mod:`~sessionpipe.install.setting`);
how it gets to disk is :mod:`~sessionpipe.install.files`, and how it stands there
:mod:`~sessionpipe.install.standing`. This module walks over the harnesses and says what it did.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sessionpipe import compiled
from sessionpipe.install import files, launcher, native
from sessionpipe.install.entries import Memory, is_empty
from sessionpipe.install.leftalone import LeftAlone, NoFile
from sessionpipe.install.memory import Manifest, Record, digest, inherited
from sessionpipe.install.netfs import network_file_system
from sessionpipe.install.standing import KINDS, FileState, file_state
from sessionpipe.install.targets import Target, account_home, answers, home, targets
from sessionpipe.paths import State, make_private

_OUR_NAME = b"sessionpipe-hook"


class Report(NamedTuple):
    """What was done about one file, or would be on a dry run.

    ``did`` is one of ``created added updated unchanged`` (install), ``restored removed deleted``
    (uninstall: the file is byte for byte what it was before us, or has changed since, or was ours
    alone), ``left alone`` with the reason in ``why``, ``skipped`` too, where another file makes good for
    it, ``kept`` (the launcher, for the harnesses in ``why``), or ``not found`` where ``why`` says
    (``path`` is None then).
    ``diff`` is a unified diff, made on a dry run only; ``note`` is what the person must do now.
    """

    harness: str
    path: Path | None
    did: str
    why: str = ""
    diff: str = ""
    note: str = ""


class UnknownHarness(ValueError):
    """A harness that no adapter knows how to install."""


class Elsewhere(ValueError):
    """Some harnesses were pointed away from the home, and others would be changed in it."""


class Busy(OSError):
    """Another ``install`` or ``uninstall`` is at work."""


def install(
    names: Sequence[str], *, dry_run: bool, env: Mapping[str, str], state: State, config: Path
) -> list[Report]:
    """Write the launcher, and the hooks of ``names`` or of every harness that is there.

    A harness named explicitly gets its config folder made. Raises :class:`UnknownHarness`, and
    :class:`OSError` or :class:`ValueError` when the launcher itself can't be had.
    """
    wanted = _chosen(names)
    launcher.command(_launcher(state), "x", "y")
    if not dry_run:
        make_private(state.root)
    with _alone(state, dry_run):
        reports = [_install_launcher(state, config, dry_run)]
        manifest = Manifest(state)
        for name in wanted:
            found = list(_install_harness(name, env, manifest, state, dry_run, named=bool(names)))
            reports += found or [Report(name, None, "not found", targets()[name][0].absence(env))]
    return reports


def uninstall(
    names: Sequence[str], *, dry_run: bool, env: Mapping[str, str], state: State, everywhere: bool = False
) -> list[Report]:
    """Take the hooks of ``names``, or all, out again; the launcher goes with the last of them.

    Without ``names``, entries of another installation that still works are left alone, and so is
    everything (:class:`Elsewhere`) when a variable moves one harness out of the account's home while
    others would be changed in it, unless ``everywhere``.
    """
    wanted = _chosen(names)
    manifest = Manifest(state)
    if not names and not everywhere:
        _refuse_mixed(wanted, env, manifest, state)
    reports: list[Report] = []
    with _alone(state, dry_run):
        for target in _targets(wanted):
            for path in _places(target, env, manifest):
                reports += _uninstall_file(target, path, manifest, state, dry_run, named=bool(names))
        if not names:
            reports += _without_adapter(manifest)
        gone = {report.path for report in reports if report.did != "left alone"}
        every = [target for target in _targets(targets()) if _uses(target, env, manifest, state, gone)]
        users = dict.fromkeys(target.harness for target in every)
        if users and not any(report.did == "left alone" for report in reports):
            reports.append(Report("sessionpipe", state.launcher, "kept", f"for {', '.join(users)}"))
        elif not users and os.path.lexists(state.launcher):
            if not dry_run:
                launcher.remove(state)
                compiled.remove(state)
            reports.append(Report("sessionpipe", state.launcher, "deleted"))
    return reports


def _without_adapter(manifest: Manifest) -> Iterator[Report]:
    """Files that a person's own adapter wrote to, which is no longer there to say what of them was ours."""
    for name, record in manifest.records.items():
        if record.harness in targets():
            continue
        with suppress(LeftAlone):
            if _OUR_NAME in (files.read(Path(name)).data or b""):
                why = f"its adapter is gone: put {record.harness}.toml back, or take out what runs sessionpipe-hook"
                yield Report(record.harness, Path(name), "left alone", why)


def inspect(*, env: Mapping[str, str], state: State) -> list[tuple[str, list[FileState]]]:
    """Each harness that is there, with its files and how our hooks stand in them."""
    manifest, run, found = Manifest(state), _launcher(state), []
    for name, places in targets().items():
        states = [
            file
            for target in places
            for path in _places(target, env, manifest)
            # Where the harness reads another file in its stead, nothing is missing.
            if (file := file_state(target, path, run, env)).state != "missing" or not target.instead(path)
        ]
        if states:
            found.append((name, states))
    return found


def _install_launcher(state: State, config: Path, dry_run: bool) -> Report:
    known = answers()
    did = "unchanged"
    if not launcher.current(state, config, known):
        did = "updated" if os.path.lexists(state.launcher) else "created"
        if not dry_run:
            launcher.write(state, config, known)
    if not dry_run:
        native.build(state)
    kind = network_file_system(state.root)
    why = f"on {kind}, a network file system, nothing can be promised about losing events" if kind else ""
    note = "" if dry_run else "; ".join(filter(None, launcher.trouble(state.launcher)))
    return Report("sessionpipe", state.launcher, did, why, note=note)


def _install_harness(
    name: str, env: Mapping[str, str], manifest: Manifest, state: State, dry_run: bool, *, named: bool
) -> Iterator[Report]:
    for target in targets()[name]:
        for path in target.files(env, missing=named):
            if target.instead(path):
                yield from _uninstall_file(target, path, manifest, state, dry_run, named=named)
                continue
            report = _install_file(target, path, _launcher(state), manifest, dry_run)
            if not dry_run and report.did in ("created", "added", "updated"):
                stands = file_state(target, path, _launcher(state), env)
                if stands.state == "inactive":
                    note = f"{name} will not run them: {path.name}: {stands.why}; {stands.mend}."
                    report = report._replace(note=note)
            yield report


def _install_file(target: Target, path: Path, run: Path, manifest: Manifest, dry_run: bool) -> Report:
    kind = KINDS[target.kind]
    try:
        seen = files.read(path)
        text = seen.text
        found = kind.look(text, target, run) if text.strip() else "missing"
        record = manifest.records.get(_key(path))
        if found == "missing":
            before = None if seen.data is None else digest(seen.data)
            folders = [*(record.folders if record else []), *map(str, files.missing_folders(path))]
            record = Record(target.harness, before, seen.data is None, folders, Memory())
        elif record is None:
            others = kind.launchers(text, target)
            record = inherited(others, Path(_key(path))) or Record(target.harness)
        new = kind.merge(text, target, run, record.memory)
        if new == text:
            return Report(target.harness, path, "unchanged")
        files.check_writable(seen)
        did = "created" if seen.data is None else "added" if found == "missing" else "updated"
        if dry_run:
            return Report(target.harness, path, did, diff=_diff(path, text, new))
        manifest.records[_key(path)] = record
        manifest.save()
        files.sweep(seen.real)
        if seen.data is None:
            files.create(path, new.encode())
        else:
            files.write(seen, new.encode())
    except LeftAlone as error:
        return Report(target.harness, path, "skipped" if target.optional else "left alone", str(error))
    return Report(target.harness, path, did, note=target.note)


def _uninstall_file(
    target: Target, path: Path, manifest: Manifest, state: State, dry_run: bool, *, named: bool
) -> Iterator[Report]:
    kind, record = KINDS[target.kind], manifest.records.get(_key(path))
    seen = None
    try:
        seen = files.read(path)
        if record is not None and not dry_run:
            files.sweep(seen.real)
        text = seen.text
        others = _others(kind.launchers(text, target), state) if text.strip() and not named else set()
        if others:
            raise LeftAlone(f"its entries belong to the installation in {others.pop().parent.parent}")
        new = kind.strip(text, target, record.memory if record else None) if text.strip() else text
        # One that we made, and that another installation has taken our entries out of, is still ours to take.
        left = record is not None and record.created and seen.data is not None and is_empty(new)
        if new != text or left:
            yield _give_back(target, seen, text, new, record, dry_run)
        elif seen.data is None and record is not None and not dry_run:
            files.remove_folders([Path(folder) for folder in record.folders])
    except LeftAlone as error:
        # One that holds nothing of ours is nobody's concern here, unless we once wrote it.
        nothing = isinstance(error, NoFile) if seen is None else _OUR_NAME not in (seen.data or b"")
        if not nothing or (seen is None and record is not None):
            yield Report(target.harness, path, "left alone", str(error))
            return
    if record is not None and not dry_run:
        manifest.forget(_key(path))
        manifest.save()


def _give_back(
    target: Target, seen: files.Snapshot, text: str, new: str, record: Record | None, dry_run: bool
) -> Report:
    data = new.encode()
    restored = record is not None and record.before == digest(data)
    emptied = is_empty(new) and (record.created if record else target.own)
    ours_alone = not restored and (target.kind == "file" or emptied)
    did = "restored" if restored else "deleted" if ours_alone else "removed"
    files.check_writable(seen)
    if dry_run:
        return Report(target.harness, seen.path, did, diff=_diff(seen.path, text, "" if ours_alone else new))
    if ours_alone:
        files.delete(seen)
        files.remove_folders([Path(folder) for folder in record.folders] if record else [])
    else:
        files.write(seen, data)
    return Report(target.harness, seen.path, did)


def _chosen(names: Sequence[str]) -> list[str]:
    known = targets()
    if unknown := [name for name in names if name not in known]:
        raise UnknownHarness(f"no harness called {unknown[0]}; known are {', '.join(known)}")
    return list(dict.fromkeys(names)) or list(known)


def _targets(names: Iterable[str]) -> Iterator[Target]:
    """Every place of the harnesses."""
    for name in names:
        yield from targets()[name]


def _places(target: Target, env: Mapping[str, str], manifest: Manifest) -> list[Path]:
    """The files of ``target`` to look at: where they are now, and where we once wrote one."""
    places = {os.path.realpath(path): path for path in target.files(env)}
    for path in manifest.paths(target.harness, str(target.table["file"])):
        places.setdefault(os.path.realpath(path), path)
    return list(places.values())


def _others(found: Iterable[Path], state: State) -> set[Path]:
    """Those of ``found`` that are launchers of other installations, and still there."""
    return {path for path in found if path != _launcher(state) and os.access(path, os.X_OK)}


def _uses(
    target: Target,
    env: Mapping[str, str],
    manifest: Manifest,
    state: State,
    gone: Collection[Path | None] = (),
) -> bool:
    """Whether a file of ``target``, those in ``gone`` aside, still runs our launcher."""
    for path in _places(target, env, manifest):
        with suppress(LeftAlone):
            seen = files.read(path)
            if path in gone or _OUR_NAME not in (seen.data or b""):
                continue
            try:
                if _launcher(state) in KINDS[target.kind].launchers(seen.text, target):
                    return True
            except LeftAlone:
                return True  # It can't be told apart, so the launcher stays.
    return False


def _refuse_mixed(names: Sequence[str], env: Mapping[str, str], manifest: Manifest, state: State) -> None:
    account = account_home()
    if account is None or os.path.realpath(home(env)) != os.path.realpath(account):
        return
    wanted = list(_targets(names))
    moved = {target.harness: name for target in wanted if (name := target.elsewhere(env))}
    at_home = [
        target.harness
        for target in wanted
        if target.harness not in moved and _uses(target, env, manifest, state)
    ]
    if moved and at_home:
        raise Elsewhere(
            f"{next(iter(moved.values()))} points out of the home folder, and yet {', '.join(at_home)} "
            "would be changed in it; name the harnesses to uninstall, or add --everywhere"
        )


@contextmanager
def _alone(state: State, dry_run: bool) -> Iterator[None]:
    if dry_run or not state.root.is_dir():
        yield
        return
    from filelock import FileLock, Timeout

    try:
        with FileLock(state.root / "install.lock", timeout=10):
            yield
    except Timeout:
        raise Busy("another sessionpipe install or uninstall is at work; try again") from None


def _diff(path: Path, old: str, new: str) -> str:
    import difflib

    lines = difflib.unified_diff(old.split("\n"), new.split("\n"), str(path), str(path), lineterm="")
    return "\n".join(lines)


def _key(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100  # the name we were given, not what it links to


def _launcher(state: State) -> Path:
    return Path(os.path.abspath(state.launcher))  # noqa: PTH100


__all__ = ["Busy", "Elsewhere", "FileState", "Report", "UnknownHarness", "inspect", "install", "uninstall"]
