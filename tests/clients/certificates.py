"""Makes a certificate authority for the tests, and two servers' certificates signed by it."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write(folder: Path) -> None:
    """Writes ca.pem, and two certificates for localhost with keys: cert.pem and other.pem."""
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("test authority")
    ca = _certificate(ca_name, ca_key.public_key(), ca_name, ca_key, is_ca=True)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    form, secret = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    for cert_file, key_file in (("cert.pem", "key.pem"), ("other.pem", "other-key.pem")):
        key = ec.generate_private_key(ec.SECP256R1())
        cert = _certificate(_name("localhost"), key.public_key(), ca_name, ca_key, is_ca=False)
        (folder / cert_file).write_bytes(cert.public_bytes(pem))
        (folder / key_file).write_bytes(key.private_bytes(pem, form, secret))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject, public_key, issuer, issuer_key, is_ca: bool) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
    )
    if not is_ca:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
