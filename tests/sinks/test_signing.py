"""Standard Webhooks signatures, checked the way a receiver checks them."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from sessionpipe.sinks import signing

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def test_a_receiver_that_follows_the_scheme_accepts_the_signature() -> None:
    headers = signing.headers(SECRET, "msg_1", 1_790_000_000, b'{"events":[]}')
    version, _, signature = headers["webhook-signature"].partition(",")
    expected = hmac.new(KEY, b'msg_1.1790000000.{"events":[]}', hashlib.sha256).digest()
    assert (version, base64.b64decode(signature)) == ("v1", expected)
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("msg_1", "1790000000")


def test_the_schemes_published_example() -> None:
    secret = "whsec_" + "MfKQ9r8GKYqrTwjU" + "PD8ILPZIo2LaLaSw"
    headers = signing.headers(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_secret_without_its_padding_is_the_same_secret() -> None:
    assert signing.key("whsec_QUI") == signing.key("whsec_QUI=") == b"AB"


@pytest.mark.parametrize("secret", ["QUJD", "whsec_", "whsec_*?*", "whsec_Q"])
def test_what_is_no_secret_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(ValueError, match="signing secret") as caught:
        signing.key(secret)
    assert secret not in str(caught.value).replace("whsec_ followed", "")
