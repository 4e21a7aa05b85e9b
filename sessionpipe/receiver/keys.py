"""The receiver's token, and the keys made from it: for the page's link, its cookie, its forms.

There is one secret, in one file. Whoever changes it has shut out everybody who came in by the old one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from sessionpipe.config import is_token
from sessionpipe.paths import make_private

#: Shorter ones can be tried out.
SHORTEST = 16


class Keys:
    """What opens what. Every comparison takes the same time however much of a guess is right."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self.link = self._made("link")
        self.cookie = self._made("cookie")

    def is_token(self, said: str) -> bool:
        """Whether ``said`` is the bearer token of senders and programs."""
        return hmac.compare_digest(said.encode("utf-8", "replace"), self._token)

    def is_link(self, said: str) -> bool:
        """Whether ``said`` is the secret part of the page's link."""
        return hmac.compare_digest(said.encode("utf-8", "replace"), self.link.encode())

    def is_cookie(self, said: str) -> bool:
        """Whether ``said`` is the cookie of a browser that came in by the link."""
        return hmac.compare_digest(said.encode("utf-8", "replace"), self.cookie.encode())

    def form(self, purpose: str) -> str:
        """What a form of ours carries, which no other page knows."""
        return self._made(f"form {purpose}")

    def is_form(self, said: str, purpose: str) -> bool:
        """Whether ``said`` came from a form of ours for this purpose."""
        return hmac.compare_digest(said.encode("utf-8", "replace"), self.form(purpose).encode())

    def _made(self, purpose: str) -> str:
        digest = hmac.new(self._token, b"sessionpipe receiver " + purpose.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest[:24]).decode()


def token_in(path: Path) -> tuple[str, bool]:
    """The token in the file ``path``, made with it when it is not there; and whether it was made.

    Raises OSError, and ValueError for a file that holds no token or that others may read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return _make(path), True
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_mode & 0o077:
            raise ValueError(f"others can read it; run `chmod 600 {path}`")
        text = file.read(4096).decode("utf-8", "replace").strip()
    if not is_token(text) or len(text) < SHORTEST:
        raise ValueError(
            f"it holds no token of at least {SHORTEST} visible characters; remove it for a new one"
        )
    return text, False


def _make(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    make_private(path.parent)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(fd)
    return token
