"""Large strings beside the journal, and back."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.journal.artifacts import ArtifactStore
from sessionpipe.journal.resolve import Artifacts, audit, decode

LARGE = "é" * 2049  # 4098 bytes


def stored(store: ArtifactStore, value: Any, root: Path) -> Any:
    """``value`` recorded and read again."""
    encoded = store.encode(value)
    assert [what for what, _ in audit(encoded) if what != "reference"] == []
    there = Artifacts(root, ("artifacts",))
    return decode(encoded, lambda one: there.read(there.reference(one)).decode())


def test_a_string_over_the_limit_is_a_file_named_by_its_digest(tmp_path: Path) -> None:
    digest = hashlib.sha256(LARGE.encode()).hexdigest()
    path = f"artifacts/sha256-{digest}.txt"
    assert ArtifactStore(tmp_path).encode({"a": [LARGE]}) == {
        "a": [{"$artifact": {"path": path, "mediaType": "text/plain", "bytes": 4098, "sha256": digest}}]
    }
    assert (tmp_path / path).read_text("utf-8") == LARGE
    assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "artifacts").stat().st_mode) == 0o700


def test_at_the_limit_it_stays(tmp_path: Path) -> None:
    assert ArtifactStore(tmp_path).encode("é" * 2048) == "é" * 2048
    assert not (tmp_path / "artifacts").exists()


def test_the_same_string_is_stored_once(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    assert store.encode(LARGE) == store.encode([LARGE])[0]
    assert len(list((tmp_path / "artifacts").iterdir())) == 1


def test_a_person_s_own_object_that_looks_like_a_reference_comes_back(tmp_path: Path) -> None:
    own = {"$artifact": {"path": "artifacts/x", "text": LARGE}, "$escaped": {"$escaped": 1}}
    assert stored(ArtifactStore(tmp_path), own, tmp_path) == own


def test_half_a_surrogate_pair_becomes_text(tmp_path: Path) -> None:
    assert stored(ArtifactStore(tmp_path), LARGE + "\ud83d", tmp_path) == LARGE + "?"


keys = st.sampled_from(["a", "$artifact", "$escaped", "é"])
leaves = st.none() | st.integers() | st.sampled_from(["", "short", LARGE, "x" * 5000])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@given(value=values)
def test_any_value_comes_back(tmp_path_factory: Any, value: Any) -> None:
    root = tmp_path_factory.mktemp("bundle")
    assert stored(ArtifactStore(root), value, root) == value
