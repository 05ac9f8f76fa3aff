"""Keys of the sites, for signatures and for secrets that each pair of sites shares.

A site has an Ed25519 key, which signs its messages, and an X25519 key, from which it derives a
common secret with each other site. Sites exchange the public keys once, before the first analysis
and not through the lead; `PublicKeys.fingerprint` is short enough to be compared by telephone. All
cryptographic primitives are those of the package `cryptography`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..data.html_representations import FieldsInHtml, TextInHtml
from ..errors import DataError
from .fixed_point_sums import BYTES, add, from_bytes, negate

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

__all__ = ["PublicKeys", "SiteKeys"]

INSTALL = "federated analyses need the package cryptography: pip install 'steropes[federated]'"
PURPOSE = b"steropes federated mask"
ROWS = b"steropes federated rows"


def _text(content: bytes) -> str:
    """Encode bytes in base64."""
    return base64.b64encode(content).decode()


def _key(given: Mapping[str, str], name: str, where: str) -> bytes:
    """Decode and validate a key."""
    try:
        content = base64.b64decode(given[name], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        content = b""
    if len(content) != 32:
        raise DataError(f"{where}: {name!r} must be a key of 32 bytes in base64")
    return content


@lru_cache(maxsize=4096)  # each round's signatures are checked again in all later rounds
def _is_signed(signing: bytes, signature: bytes, content: bytes) -> bool:
    """Verify an Ed25519 signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, content)
    except InvalidSignature:
        return False
    return True


@dataclass(frozen=True)
class PublicKeys(FieldsInHtml):
    """The public keys of a site.

    Attributes
    ----------
    signing : bytes
        Ed25519 key that verifies signatures.
    agreement : bytes
        X25519 key for the agreement on secrets.

    Examples
    --------
    >>> from steropes.federated import SiteKeys
    >>> keys = SiteKeys.generate()
    >>> keys.public.verify(keys.sign(b"message"), b"message")
    True
    >>> len(keys.public.fingerprint.split())
    16
    """

    signing: bytes
    agreement: bytes

    @property
    def fingerprint(self) -> str:
        """Sixteen groups of four hexadecimal digits, to be compared over another channel."""
        text = hashlib.sha256(self.signing + self.agreement).hexdigest()
        return " ".join(text[i : i + 4] for i in range(0, 64, 4))

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON.

        Returns
        -------
        dict of str to str
            Both keys in base64.
        """
        return {"signing": _text(self.signing), "agreement": _text(self.agreement)}

    @classmethod
    def from_dict(cls, given: object, where: str) -> PublicKeys:
        """Create keys from the result of `to_dict`.

        Parameters
        ----------
        given : dict of str to str
            The plain values.
        where : str
            Name of the keys in errors.

        Returns
        -------
        PublicKeys
            The keys.

        Raises
        ------
        DataError
            A key is missing or has not 32 bytes.
        """
        if not isinstance(given, Mapping):
            raise DataError(f"{where} must be an object with 'signing' and 'agreement'")
        return cls(_key(given, "signing", where), _key(given, "agreement", where))

    def verify(self, signature: bytes, content: bytes) -> bool:
        """Return whether this site signed some content.

        Parameters
        ----------
        signature : bytes
            The signature to verify.
        content : bytes
            The content that it belongs to.

        Returns
        -------
        bool
            True for a valid signature.
        """
        return _is_signed(self.signing, signature, content)


class SiteKeys(TextInHtml):
    """The private keys of a site.

    Parameters
    ----------
    signing, agreement : bytes
        Seeds of the Ed25519 and the X25519 key, 32 bytes each.

    Examples
    --------
    >>> from steropes.federated import SiteKeys
    >>> keys = SiteKeys.generate()
    >>> SiteKeys.from_dict(keys.to_dict(), "keys").public == keys.public
    True
    """

    def __init__(self, signing: bytes, agreement: bytes) -> None:
        self._signing, self._agreement = signing, agreement

    def __repr__(self) -> str:
        """Return a text without the keys."""
        return "SiteKeys()"

    @classmethod
    def generate(cls) -> SiteKeys:
        """Generate new keys with the operating system's source of randomness."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        except ImportError:
            raise ImportError(INSTALL) from None
        return cls(
            Ed25519PrivateKey.generate().private_bytes_raw(),
            X25519PrivateKey.generate().private_bytes_raw(),
        )

    @cached_property
    def _signer(self) -> Ed25519PrivateKey:
        """The key that signs."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError:
            raise ImportError(INSTALL) from None
        return Ed25519PrivateKey.from_private_bytes(self._signing)

    @cached_property
    def _agreer(self) -> X25519PrivateKey:
        """The key for the agreement on secrets."""
        try:
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
        except ImportError:
            raise ImportError(INSTALL) from None
        return X25519PrivateKey.from_private_bytes(self._agreement)

    @property
    def row_secret(self) -> bytes:
        """A secret that never leaves the site, for digests of its rows in the ledger."""
        return hmac.digest(self._signing, ROWS, "sha256")

    @property
    def public(self) -> PublicKeys:
        """The public keys."""
        return PublicKeys(
            self._signer.public_key().public_bytes_raw(),
            self._agreer.public_key().public_bytes_raw(),
        )

    def to_dict(self) -> dict[str, str]:
        """Return the private keys as plain values, for a file that only the owner can read.

        Returns
        -------
        dict of str to str
            Both keys in base64.
        """
        return {"signing": _text(self._signing), "agreement": _text(self._agreement)}

    @classmethod
    def from_dict(cls, given: object, where: str) -> SiteKeys:
        """Create keys from the result of `to_dict`.

        Parameters
        ----------
        given : dict of str to str
            The plain values.
        where : str
            Name of the keys in errors.

        Returns
        -------
        SiteKeys
            The keys.

        Raises
        ------
        DataError
            A key is missing or has not 32 bytes.
        """
        if not isinstance(given, Mapping):
            raise DataError(f"{where} must be an object with 'signing' and 'agreement'")
        return cls(_key(given, "signing", where), _key(given, "agreement", where))

    def sign(self, content: bytes) -> bytes:
        """Sign some content.

        Parameters
        ----------
        content : bytes
            The content.

        Returns
        -------
        bytes
            A signature of 64 bytes.
        """
        return self._signer.sign(content)

    def mask(
        self, site: str, others: Mapping[str, PublicKeys], context: bytes, n: int
    ) -> np.ndarray:
        """Compute the sum of a site's pairwise masks, (n, 3) limbs.

        In each pair, the site with the first name adds the pair's mask and the other subtracts it,
        so that the masks of all sites sum to zero (Bonawitz and others, 2017, §4).

        Parameters
        ----------
        site : str
            Name of the site with these keys.
        others : dict of str to PublicKeys
            Public keys of all other sites that take part.
        context : bytes
            Purpose of the mask; different contexts have independent masks.
        n : int
            Number of numbers.

        Returns
        -------
        array of uint64, shape (n, 3)
            The sum modulo 2¹⁹².
        """
        out = np.zeros((n, 3), np.uint64)
        for name, public in others.items():
            pair = "\n".join(sorted((site, name))).encode()
            one = from_bytes(self._stream(public, context + b"\n" + pair, n * BYTES))
            out = add(out, one if site < name else negate(one))
        return out

    def _stream(self, public: PublicKeys, context: bytes, length: int) -> bytes:
        """Generate bytes that only two sites can compute, by X25519, HKDF and ChaCha20."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        secret = self._agreer.exchange(X25519PublicKey.from_public_bytes(public.agreement))
        key = HKDF(SHA256(), 32, salt=None, info=PURPOSE + b"\n" + context).derive(secret)
        cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None)
        return cipher.encryptor().update(bytes(length))
