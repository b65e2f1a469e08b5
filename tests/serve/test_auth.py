"""Authentication: challenges signed by keys of every kind, tokens, and clients without either."""

from __future__ import annotations

import base64
import hashlib
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import PIE, self_signed
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from raw_client import RawClient, Refused

PUBLIC = {
    "pem": (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    "openssh": (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH),
}
KEYS = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
}


def sign(key, challenge: bytes) -> str:
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(challenge, padding.PKCS1v15(), hashes.SHA256())
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        signature = key.sign(challenge, ec.ECDSA(hashes.SHA256()))
    else:
        signature = key.sign(challenge)
    return base64.b64encode(signature).decode()


def pie(home: Path, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PIE, *arguments],
        env={"PIE_HOME": str(home), "HOME": str(home)},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def add(home: Path, user: str, key, form: str = "pem") -> None:
    public = key.public_key().public_bytes(*PUBLIC[form]).decode()
    done = pie(home, "auth", "add", user, "-", stdin=public)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def guarded(start):
    return start(config="[auth]\nenabled = true\n")


async def prove(server, user: str, key) -> RawClient:
    client = await RawClient.connect(server.uri, user=None)
    challenge = await client.ask("auth_identify", username=user)
    await client.ask("auth_prove", signature=sign(key, base64.b64decode(challenge)))
    return client


@pytest.mark.parametrize("form", PUBLIC)
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_opens(guarded, on, kind, form):
    key = KEYS[kind]()
    add(guarded.home, "ada", key, form)

    async def talk():
        async with await prove(guarded, "ada", key) as client:
            return await client.ask("ping")

    assert on(talk()) == "Pong"


def test_other_keys_and_users_do_not(guarded, on):
    key, other = KEYS["ed25519"](), KEYS["ed25519"]()
    add(guarded.home, "grace", key)

    async def talk():
        texts = set()
        for user, used in (("grace", other), ("nobody", key), ("ada", key)):
            with pytest.raises(Refused) as refused:
                await prove(guarded, user, used)
            texts.add(str(refused.value))
        assert len(texts) == 1, "every refusal has the same text"

    on(talk())


def test_a_signature_is_good_once(guarded, on):
    key = KEYS["ed25519"]()
    add(guarded.home, "ada", key)

    async def talk():
        client = await RawClient.connect(guarded.uri, user=None)
        challenge = await client.ask("auth_identify", username="ada")
        signature = sign(key, base64.b64decode(challenge))
        again = await RawClient.connect(guarded.uri, user=None)
        await again.ask("auth_identify", username="ada")
        with pytest.raises(Refused):
            await again.ask("auth_prove", signature=signature)  # the signature of another challenge
        with pytest.raises(Refused):
            await again.ask("auth_prove", signature=signature)  # the challenge was used up
        await client.ask("auth_prove", signature=signature)
        await client.close()
        await again.close()

    on(talk())


def test_the_token(guarded, on):
    async def talk():
        async with await RawClient.connect(guarded.uri, user=None) as client:
            with pytest.raises(Refused):
                await client.ask("auth_by_token", token="guess")
            await client.ask("auth_by_token", token=guarded.token)
            return await client.ask("ping")

    assert on(talk()) == "Pong"
    mode = (guarded.home / f"server-{guarded.port}.token").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_removed_key_opens_no_more(guarded, on):
    key = KEYS["ed25519"]()
    add(guarded.home, "eve", key)
    assert "eve" in pie(guarded.home, "auth", "list").stdout
    assert pie(guarded.home, "auth", "remove", "eve").returncode == 0
    assert "eve" not in pie(guarded.home, "auth", "list").stdout
    with pytest.raises(Refused):
        on(prove(guarded, "eve", key))


def test_a_file_that_others_can_read_is_refused(tmp_path):
    add(tmp_path, "ada", KEYS["ed25519"]())
    users = tmp_path / "authorized_users.toml"
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    users.chmod(0o644)
    done = pie(tmp_path, "auth", "list")
    assert done.returncode == 1 and "chmod 600" in done.stderr


@pytest.mark.parametrize(
    "text", ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
)
def test_what_is_no_public_key_is_refused(tmp_path, text):
    done = pie(tmp_path, "auth", "add", "ada", "-", stdin=text)
    assert done.returncode == 1 and "key" in done.stderr


def test_an_open_address_needs_auth(tmp_path):
    done = pie(tmp_path, "serve", "--dummy", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert "authentication is off" in done.stderr


def test_a_proof_is_bound_to_the_certificate(start, on, tmp_path):
    cert, private = self_signed(tmp_path)
    tls = f'[server]\ntls_cert = "{cert}"\ntls_key = "{private}"\n'
    server = start(config=f"{tls}[auth]\nenabled = true\n")
    key = KEYS["ed25519"]()
    add(server.home, "ada", key)
    trusting = ssl.create_default_context(cafile=cert)
    own = hashlib.sha256(ssl.PEM_cert_to_DER_cert(cert.read_text())).digest()

    async def proves(added: bytes) -> bool:
        client = await RawClient.connect(server.uri, user=None, ssl=trusting)
        challenge = base64.b64decode(await client.ask("auth_identify", username="ada"))
        assert challenge.startswith(b"PIE-BIND")
        answer = await client.request("auth_prove", signature=sign(key, challenge + added))
        await client.close()
        return answer["ok"]

    async def talk():
        assert await proves(own)
        assert await proves(b""), "published clients sign the challenge alone"
        assert not await proves(bytes(32)), "this one was for another server"

    on(talk())


def test_failed_attempts_do_not_flood_the_log(start, on):
    server = start(config="[auth]\nenabled = true\n")

    async def talk():
        client = await RawClient.connect(server.uri, user=None)
        for _ in range(50):
            await client.request("auth_by_token", token="wrong")
        await client.close()

    on(talk())
    lines = (server.home / "server.log").read_text().splitlines()
    assert sum("authentication failed" in line for line in lines) == 20
