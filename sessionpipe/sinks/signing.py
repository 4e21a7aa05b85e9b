"""Signing a request as Standard Webhooks does (the HTTP binding, ``POST {events}``). Pure.

The id is the message's and is the same on every attempt; timestamp and signature are made anew for
each.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"


def key(secret: str) -> bytes:
    """The key in a ``whsec_…`` secret. Raises ValueError when it is none; the message holds nothing of it."""
    try:
        if not secret.startswith(PREFIX):
            raise ValueError
        encoded = secret.removeprefix(PREFIX)
        decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("the signing secret is not whsec_ followed by base64") from None
    if not decoded:
        raise ValueError("the signing secret is empty")
    return decoded


def headers(secret: str, message_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The three headers that sign ``body`` under ``message_id`` at ``timestamp_s`` (unix seconds)."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    signature = base64.b64encode(hmac.new(key(secret), signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": f"v1,{signature}",
    }
