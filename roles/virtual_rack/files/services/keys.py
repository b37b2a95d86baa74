# Copyright (c) 2026, gpufleet.baremetal contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rack's secrets: passwords, certificate authority, BMC certificate, node key, signing keys.

Each is made once and then kept; a certificate near its end, or for other addresses, is made anew.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import json
import os
import secrets
import shutil
import string
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import bcrypt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_DAYS = 3650
BMC_DAYS = 800
RENEW_DAYS = 30
# The second signer is nobody's: tests sign with it to see the signature refused.
SIGNERS = {
    "images_signer": "Golden images of the rack <images@rack.invalid>",
    "wrong_signer": "Nobody the rack trusts <nobody@rack.invalid>",
}


def write(path: Path, content: bytes, mode: int) -> None:
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as stream:
        stream.write(content)
    fresh.replace(path)


def private_pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Keys:
    """Everything that is made, and the names of what was made this time."""

    def __init__(self, rack: Path, addresses: Iterable[str]) -> None:
        self.secrets = rack / "secrets"
        self.tls = rack / "tls"
        self.keys = rack / "keys"
        self.munge = rack / "slurm"
        self.addresses = [ipaddress.ip_address(address) for address in addresses]
        self.made: list[str] = []
        for folder, mode in ((self.secrets, 0o700), (self.tls, 0o755), (self.keys, 0o700), (self.munge, 0o755)):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
            folder.chmod(mode)

    def put(self, path: Path, content: bytes, mode: int = 0o600) -> None:
        write(path, content, mode)
        self.made.append(str(path))

    def password(self, name: str, text: str = "") -> None:
        path = self.secrets / name
        if not path.exists():
            # 16 characters: what every IPMI version can hold.
            alphabet = string.ascii_letters + string.digits
            self.put(path, (text or "".join(secrets.choice(alphabet) for _place in range(16))).encode())

    def maas_key(self) -> None:
        """A MAAS API key: consumer key, token key and token secret."""
        self.password("maas_api_key", ":".join(secrets.token_hex(9) for _part in range(3)))

    def munge_key(self) -> None:
        path = self.munge / "munge.key"
        if not path.exists():
            self.put(path, secrets.token_bytes(128), 0o400)

    def htpasswd(self, name: str, user: str, password_name: str) -> None:
        """A bcrypt login file; the same one is kept while it still fits the password."""
        path = self.secrets / name
        password = (self.secrets / password_name).read_bytes().strip()
        if path.exists():
            kept_user, _colon, kept = path.read_bytes().strip().partition(b":")
            if kept_user == user.encode() and bcrypt.checkpw(password, kept):
                return
        # Few rounds on purpose: it is checked on every request, and the password is 95 random bits.
        self.put(path, user.encode() + b":" + bcrypt.hashpw(password, bcrypt.gensalt(5)) + b"\n")

    def certificate_authority(self) -> None:
        key_path, path = self.tls / "ca.key", self.tls / "ca.pem"
        if path.exists() and key_path.exists() and lasts(path):
            return
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Virtual rack CA")])
        usage = key_usage(signs_certificates=True)
        builder = (
            builder_for(name, name, key.public_key(), CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        self.put(key_path, private_pem(key))
        self.put(path, builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), 0o644)
        (self.tls / "bmc.pem").unlink(missing_ok=True)

    def bmc_certificate(self) -> None:
        key_path, path = self.tls / "bmc.key", self.tls / "bmc.pem"
        if path.exists() and key_path.exists() and lasts(path) and self.covers(path):
            return
        ca = x509.load_pem_x509_certificate((self.tls / "ca.pem").read_bytes())
        ca_key = serialization.load_pem_private_key((self.tls / "ca.key").read_bytes(), None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Virtual rack BMC")])
        builder = (
            builder_for(name, ca.subject, key.public_key(), BMC_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(a) for a in self.addresses]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        )
        self.put(key_path, private_pem(key))
        self.put(path, builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), 0o644)

    def covers(self, path: Path) -> bool:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return set(names.get_values_for_type(x509.IPAddress)) == set(self.addresses)

    def ssh_key(self) -> None:
        path = self.keys / "node_ed25519"
        if path.exists() and path.with_suffix(".pub").exists():
            return
        key = ed25519.Ed25519PrivateKey.generate()
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        self.put(path, text)
        self.put(path.with_suffix(".pub"), public + b" rack\n", 0o644)

    def passport_key(self) -> None:
        path = self.keys / "passport_ed25519.pem"
        public_path = self.keys / "passport_ed25519.pub.pem"
        if path.exists() and public_path.exists():
            return
        key = ed25519.Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.put(path, private_pem(key))
        self.put(public_path, public, 0o644)

    def signer(self, name: str, identity: str) -> None:
        """An OpenPGP key in a home of its own; the public half beside it, binary and armoured."""
        home, public = self.keys / f"{name}.gnupg", self.keys / f"{name}.gpg"
        if public.exists() and home.is_dir():
            return
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        try:
            quick = ["--pinentry-mode", "loopback", "--passphrase", ""]
            gpg(home, *quick, "--quick-generate-key", identity, "ed25519", "sign", "never")
            self.put(self.keys / f"{name}.asc", gpg(home, "--armor", "--export"), 0o644)
            self.put(public, gpg(home, "--export"), 0o644)
        finally:
            # gpg leaves an agent behind for each home.
            subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


def gpg(home: Path, *arguments: str) -> bytes:
    argv = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--no-tty", *arguments]
    done = subprocess.run(argv, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def builder_for(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def lasts(path: Path) -> bool:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.timezone.utc)
    return left > datetime.timedelta(days=RENEW_DAYS)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rack", type=Path, required=True)
    parser.add_argument("--bmc-address", action="append", default=[])
    parser.add_argument("--ironic-user", required=True)
    asked = parser.parse_args()
    made = Keys(asked.rack, asked.bmc_address)
    made.password("bmc_password")
    made.password("ironic_password")
    made.maas_key()
    made.munge_key()
    made.htpasswd("ironic.htpasswd", asked.ironic_user, "ironic_password")
    made.certificate_authority()
    made.bmc_certificate()
    made.ssh_key()
    made.passport_key()
    for name, identity in SIGNERS.items():
        made.signer(name, identity)
    print(json.dumps({"changed": bool(made.made), "made": made.made}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
