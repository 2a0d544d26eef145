"""A certificate authority for one test run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# TLS compares with the wall clock, whatever ours says.
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FAR_AHEAD = LONG_AGO + timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Pair:
    """PEM files."""

    cert: str
    key: str


class Authority:
    """Signs certificates into a directory."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            self._begun(self._name, self._key.public_key(), FAR_AHEAD)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.cert = str(directory / f"{name}.pem")
        Path(self.cert).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def signs(self, host: str, *, until: datetime = FAR_AHEAD) -> Pair:
        """A certificate for `host`, which a client may use as well."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        certificate = (
            self._begun(subject, key.public_key(), until)
            .add_extension(names, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        stem = f"{self._name.rfc4514_string()}-{host}-{until.year}"
        cert_file, key_file = self._directory / f"{stem}.crt", self._directory / f"{stem}.key"
        cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return Pair(str(cert_file), str(key_file))

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(LONG_AGO)
            .not_valid_after(until)
        )
