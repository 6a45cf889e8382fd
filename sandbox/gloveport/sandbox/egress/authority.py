"""The certificates of one lease, by which its proxy opens TLS where the list says so.

Purpose: a root that one jail alone trusts, and a certificate for each host that it may be opened for.
Invariant: the root's key lives in this process's memory and dies with the lease; a certificate names one host.
Must never: be written anywhere but as a certificate, or be trusted outside its jail.
"""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gloveport.sandbox.egress.resolver import is_address

LASTS: Final = timedelta(days=2)
SKEW: Final = timedelta(minutes=10)
HOSTS_MAX: Final = 256
_SYSTEM_BUNDLES: Final = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
ALPN: Final = "http/1.1"


class LeaseAuthority:
    """Issues certificates for the hosts of one lease. `now`: the time that they count from."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._leaf_key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gloveport: this sandbox alone")])
        self._root = self._issue_root()
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def root_pem(self) -> bytes:
        """The root's certificate."""
        return self._root.public_bytes(serialization.Encoding.PEM)

    def bundle(self) -> bytes:
        """What a jail trusts: the machine's own roots, and this one."""
        system = next((Path(path).read_bytes() for path in _SYSTEM_BUNDLES if os.path.isfile(path)), b"")
        return system + b"\n" + self.root_pem

    def context_for(self, host: str) -> ssl.SSLContext:
        """What a server needs to be this host to the jail."""
        known = self._contexts.get(host)
        if known is None:
            if len(self._contexts) >= HOSTS_MAX:
                self._contexts.clear()
            known = self._contexts[host] = self._make_context(host)
        return known

    def _make_context(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols([ALPN])
        key = self._leaf_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        # The library reads chains from files alone: one that has no name any more when this returns.
        with tempfile.NamedTemporaryFile() as file:
            file.write(self._issue_leaf(host).public_bytes(serialization.Encoding.PEM) + key)
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = self._now()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + LASTS)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )

    def _issue_root(self) -> x509.Certificate:
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())

    def _issue_leaf(self, host: str) -> x509.Certificate:
        name = x509.IPAddress(ipaddress.ip_address(host)) if is_address(host) else x509.DNSName(host)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "one host")])
        return (
            self._builder(subject, self._leaf_key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
