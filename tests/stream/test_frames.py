"""stream.frames: what is handed on is what is read, however it is cut up."""

from __future__ import annotations

import os
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.stream.frames import Chunk, End, Frame, Gap, Incoming, Signal, encode

MS = st.integers(0, 2**53)
FRAMES = st.one_of(
    st.builds(Chunk, MS, st.binary(max_size=64)),
    st.builds(Gap, MS, st.integers(0, 2**60)),
    st.builds(Signal, MS, st.integers(1, 64)),
)
ENDS = st.builds(End, MS, st.booleans(), st.none() | st.integers(0, 255))


def read(pieces: list[bytes]) -> list[Frame]:
    reading, writing = os.pipe()
    incoming = Incoming(reading)
    frames: list[Frame] = []
    for piece in pieces:
        if piece:
            os.write(writing, piece)
            frames += incoming.read()
    os.close(writing)
    frames += list(incoming)
    incoming.close()
    return frames


@given(st.lists(FRAMES), ENDS, st.lists(st.integers(0, 4000), max_size=6))
def test_frames_come_out_as_they_went_in(frames: list[Frame], end: End, cuts: list[int]) -> None:
    whole = b"".join(encode(frame) for frame in (*frames, end))
    places = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    pieces = [whole[a:b] for a, b in pairwise(places)]
    assert read(pieces) == [*frames, end]


def test_a_writer_that_is_gone_without_a_word_was_killed() -> None:
    *frames, end = read([encode(Chunk(1, b"a")), encode(Chunk(2, b"torn"))[:-1]])
    assert frames == [Chunk(1, b"a")]
    assert isinstance(end, End) and end.signalled and end.status is None
