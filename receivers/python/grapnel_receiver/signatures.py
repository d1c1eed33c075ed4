"""Verifies the headers webhook-signature (Standard Webhooks) and grapnel-signature."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Callable, Iterable, Mapping, Sequence, Tuple, Union

from .events import Event

Text = Union[str, bytes]
# As received: bytes, or Latin-1 text as WSGI has it. A mapping works, too, unless it has dropped a
# header that came twice.
Headers = Union[Iterable[Tuple[Text, Text]], Mapping[str, str]]
TOLERANCE_S = 300
SIGNATURES_MAX = 32  # of one header: a stranger must not make us verify hundreds


class VerificationError(Exception):
    """The request is not from your Grapnel, or not as Grapnel sent it. Respond 401."""


Check = Callable[[bytes, bytes, bytes], bool]  # version, signature in base64, content


def _decode(secret: str, prefix: str) -> bytes:
    try:
        key = base64.b64decode(secret[len(prefix):].encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        key = b""
    if not key:
        raise ValueError(f"after {prefix} a secret has base64; this one has not")
    return key


def _hmac_key(secret: str) -> Check:
    key = _decode(secret, "whsec_")

    def check(version: bytes, signature: bytes, content: bytes) -> bool:
        want = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())
        return version == b"v1" and hmac.compare_digest(signature, want)

    return check


def _ed25519_key(secret: str) -> Check:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise ValueError("a key whpk_… needs the package cryptography: "
                         "install grapnel-receiver[ed25519]") from None
    key = _decode(secret, "whpk_")
    if len(key) != 32:
        raise ValueError(f"a key whpk_… has 32 bytes; this one has {len(key)}")
    public = Ed25519PublicKey.from_public_bytes(key)

    def check(version: bytes, signature: bytes, content: bytes) -> bool:
        if version != b"v1a":
            return False
        try:
            public.verify(base64.b64decode(signature, validate=True), content)
        except (InvalidSignature, ValueError):
            return False
        return True

    return check


def _key(secret: str) -> Check:
    if secret.startswith("whsec_"):
        return _hmac_key(secret)
    if secret.startswith("whpk_"):
        return _ed25519_key(secret)
    if secret.startswith("whsk_"):
        raise ValueError("whsk_… is the private key, which only Grapnel needs; "
                         "give the receiver the public key, whpk_…")
    raise ValueError("a secret begins with whsec_ or whpk_")


def _bytes(text: Text) -> bytes:
    """WSGI and http.server decode headers as Latin-1."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError("a header was decoded as UTF-8; pass the headers as bytes") from None


def _pairs(headers: Headers) -> list[tuple[bytes, bytes]]:
    items: Iterable[Tuple[Text, Text]]
    items = headers.items() if isinstance(headers, Mapping) else headers
    return [(_bytes(name).lower(), _bytes(value).strip(b" \t")) for name, value in items]


def _one(pairs: list[tuple[bytes, bytes]], name: str) -> bytes:
    values = [value for n, value in pairs if n == name.encode()]
    if len(values) != 1:
        raise VerificationError(f"the request has {len(values)} headers {name}, not one")
    return values[0]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


class Verifier:
    """Holds the secrets, each "whsec_…" or "whpk_…": two or more while you change one."""

    def __init__(self, secrets: Sequence[str], tolerance_s: int = TOLERANCE_S):
        if isinstance(secrets, str) or not secrets:
            raise ValueError("secrets is a list with at least one secret")
        self._keys = [_key(secret) for secret in secrets]
        self._tolerance_s = tolerance_s

    def _is_signed(self, value: bytes, content: bytes) -> bool:
        """Tries each key with each signature, so the time does not tell which one was right."""
        signatures = value.split(b" ")
        if len(signatures) > SIGNATURES_MAX:
            raise VerificationError(f"a header has more than {SIGNATURES_MAX} signatures")
        good = False
        for signature in signatures:
            version, _, text = signature.partition(b",")
            for key in self._keys:
                good |= key(version, text, content)
        return good

    def _standard(self, pairs: list[tuple[bytes, bytes]], body: bytes,
                  now_s: float) -> tuple[bytes, bytes]:
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise TypeError("body is the request's bytes, before any parser")
        time_text = _one(pairs, "webhook-timestamp")
        if not re.fullmatch(rb"[0-9]{1,12}", time_text):
            raise VerificationError("webhook-timestamp is not a number")
        if abs(int(now_s) - int(time_text)) > self._tolerance_s:
            raise VerificationError(
                f"webhook-timestamp is more than {self._tolerance_s} s from this machine's clock")
        event_id = _one(pairs, "webhook-id")
        if not event_id:
            raise VerificationError("webhook-id is empty")
        if not self._is_signed(_one(pairs, "webhook-signature"),
                               event_id + b"." + time_text + b"." + bytes(body)):
            raise VerificationError("webhook-signature is wrong")
        return event_id, time_text

    def verify_standard(self, headers: Headers, body: bytes, now_s: float) -> Event:
        """Of a sender that has no grapnel-signature, such as Grapnel's alerts: the event has
        no other fields than id, timestamp and body."""
        event_id, time_text = self._standard(_pairs(headers), body, now_s)
        return Event(_text(event_id), int(time_text), bytes(body), {})

    def verify(self, headers: Headers, body: bytes, now_s: float) -> Event:
        pairs = _pairs(headers)
        event_id, time_text = self._standard(pairs, body, now_s)
        ours = sorted((n, v) for n, v in pairs
                      if n.startswith(b"grapnel-") and n != b"grapnel-signature")
        lines = [(b"grapnel-signature", b"v1"), (b"webhook-id", event_id),
                 (b"webhook-timestamp", time_text),
                 (b"body-sha256", hashlib.sha256(body).hexdigest().encode()), *ours]
        content = b"".join(n + b" " + v + b"\n" for n, v in lines)
        if not self._is_signed(_one(pairs, "grapnel-signature"), content):
            raise VerificationError("grapnel-signature is wrong")
        return _event(_text(event_id), int(time_text), bytes(body),
                      {_text(n): _text(v) for n, v in ours})


def _number(headers: Mapping[str, str], name: str) -> int:
    if not re.fullmatch("[0-9]{1,20}", headers[name]):
        raise VerificationError(f"{name} is not a number")
    return int(headers[name])


def _event(event_id: str, timestamp: int, body: bytes, headers: Mapping[str, str]) -> Event:
    numbered = "grapnel-sequence" in headers
    if numbered and not {"grapnel-series", "grapnel-previous", "grapnel-workspace"} <= set(headers):
        raise VerificationError("grapnel-sequence came without series, previous or workspace")
    return Event(
        event_id, timestamp, body, headers,
        source=headers.get("grapnel-source"), type=headers.get("grapnel-type"),
        workspace=headers.get("grapnel-workspace"), time=headers.get("grapnel-time"),
        attempt=_number(headers, "grapnel-attempt") if "grapnel-attempt" in headers else 1,
        series=headers.get("grapnel-series"),
        sequence=_number(headers, "grapnel-sequence") if numbered else None,
        previous=_number(headers, "grapnel-previous") if numbered else None,
        source_sequence=headers.get("grapnel-source-sequence"),
        gap=headers.get("grapnel-gap"), late="grapnel-late" in headers,
        replay="grapnel-replay" in headers)
