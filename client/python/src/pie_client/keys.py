"""Private keys, and how each kind signs a challenge."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

_LEAST_RSA_BITS = 2048
_CURVES = {"secp256r1": "ECDSA P-256", "secp384r1": "ECDSA P-384"}
_ACCEPTED = "RSA (2048 bits or more), Ed25519, ECDSA (P-256, P-384)"

PrivateKey = rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey


class ParsedPrivateKey:
    """A private key. `parse` reads PEM (PKCS#8, PKCS#1, SEC1) and OpenSSH's format."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.kind = _kind_of(key)

    @classmethod
    def parse(cls, text: str | bytes, password: str | None = None) -> ParsedPrivateKey:
        """Parses the text of a key. Raises ValueError if it is not accepted."""
        data = text.encode() if isinstance(text, str) else text
        secret = password.encode() if password is not None else None
        is_openssh = b"BEGIN OPENSSH PRIVATE KEY" in data
        load = (
            serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key
        )
        try:
            key = load(data, secret)
        except TypeError as error:  # the password is missing or not needed
            raise ValueError(f"cannot read the private key: {error}") from error
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ValueError(
                f"cannot read the private key ({error}); use {_ACCEPTED}, as PEM or in OpenSSH's "
                "format"
            ) from error
        return cls(key)  # type: ignore[arg-type]  # the constructor refuses other kinds

    @classmethod
    def load(cls, path: str | os.PathLike[str], password: str | None = None) -> ParsedPrivateKey:
        """Reads a key file."""
        return cls.parse(Path(path).expanduser().read_bytes(), password)

    def sign(self, message: bytes) -> bytes:
        """Returns the signature of a message, in the form that the server expects for this kind
        of key."""
        key = self._key
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(message, padding.PKCS1v15(), hashes.SHA256())
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(message, ec.ECDSA(hashes.SHA256()))
        return key.sign(message)

    def __repr__(self) -> str:
        return f"ParsedPrivateKey({self.kind})"


def _kind_of(key: object) -> str:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "Ed25519"
    if isinstance(key, rsa.RSAPrivateKey):
        if key.key_size < _LEAST_RSA_BITS:
            raise ValueError(f"an RSA key of {key.key_size} bits is too short: use {_ACCEPTED}")
        return f"RSA {key.key_size}"
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    raise ValueError(f"keys of this kind are not accepted: use {_ACCEPTED}")
