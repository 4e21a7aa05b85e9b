"""The bodies of requests: bounded in size and time, a form's fields, a signature."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from sessionpipe.receiver.incoming import Refused
from sessionpipe.sinks import signing

#: What is read, and thrown away, of a body that is too large, so that its sender gets to hear it.
DRAINED = 8 << 20
#: How long a body may take.
BODY_S = 20.0
#: By how much a signature's time may be off (Standard Webhooks).
SKEW_S = 300


async def read(request: Request, most: int) -> tuple[bytes, bool]:
    """The body up to ``most`` bytes, and whether that is all of it."""
    kept = bytearray()
    size = 0
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= most:
                    kept += chunk
                elif size > DRAINED:
                    raise HTTPException(413, "too many bytes", {"connection": "close"})
    except TimeoutError:
        raise HTTPException(408, "too slow", {"connection": "close"}) from None
    return bytes(kept), size <= most


def form(body: bytes) -> dict[str, str]:
    """The fields of a form."""
    return dict(parse_qsl(body.decode("utf-8", "replace")))


def check_signature(headers: Mapping[str, str], body: bytes, secret: str, now_s: int) -> None:
    """Refuse a body that is not signed with ``secret`` now, as Standard Webhooks has it (the HTTP binding)."""
    message_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    fresh = stamp.isascii() and stamp.isdigit() and len(stamp) < 16 and abs(now_s - int(stamp)) <= SKEW_S
    if not message_id or not fresh:
        raise Refused(401, "signature_missing_or_old")
    message = f"{message_id}.{stamp}.".encode() + body
    right = hmac.new(signing.key(secret), message, hashlib.sha256).digest()
    for signature in headers.get("webhook-signature", "").split()[:8]:
        version, _, encoded = signature.partition(",")
        with contextlib.suppress(binascii.Error, ValueError):
            if version == "v1" and hmac.compare_digest(base64.b64decode(encoded), right):
                return
    raise Refused(401, "wrong_signature")
