"""The kinds of sinks: what each is called, what it may be told, and where its code is.

A kind is an entry point of the group :data:`GROUP`: its name is the ``kind`` of a sink in
``config.toml`` and the scheme of what is typed after ``sinks add``; its value makes the sink
(:mod:`sessionpipe.sinks.base`). Ours are registered like anybody's, but stand here too: a worker
that has none but ours must not look through every installed package first, and no package can take
the name of one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

GROUP = "sessionpipe.sinks"

#: What a kind can be called: a URL's scheme, as written in lower case.
NAME = re.compile(r"[a-z][a-z0-9+.-]{0,31}")

TOKEN = ("token", "token_env", "token_file")
SECRET = ("secret", "secret_file")


class Kind(NamedTuple):
    """A kind of sink.

    ``code`` is ``module:attribute``, None for one that a package brings. ``place`` is the setting that
    says where it sends; ``takes`` are further settings it may have beside those of every sink.
    ``network``: it speaks to another host, so that a process without a network can't serve it.
    """

    name: str
    code: str | None
    place: Literal["url", "path"] | None
    takes: tuple[str, ...] = ()
    network: bool = False


OURS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("http", "sessionpipe.sinks.http:HttpSink", "url", (*TOKEN, *SECRET), network=True),
        Kind("file", "sessionpipe.sinks.file:FileSink", "path"),
        Kind("stdout", "sessionpipe.sinks.stdout:StdoutSink", None),
        Kind("otlp", "sessionpipe.sinks.otlp:OtlpSink", "url", (*TOKEN, "headers"), network=True),
    )
}


def kind_of(name: str) -> Kind:
    """The kind of that name: one of ours, or whatever an installed package may bring."""
    return OURS.get(name) or Kind(name, None, "url", (*TOKEN, *SECRET, "headers"))
