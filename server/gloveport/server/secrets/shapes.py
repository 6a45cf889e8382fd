"""What keys look like.

Purpose: a table of shapes of common credentials, each a linear-time pattern with the group that is the secret.
Invariant: a shape is narrow enough that ordinary source text does not have it: a fixed prefix, a fixed length, or
    a label beside a value that looks random.
Must never: hold a real credential, or grow a shape that matches any long word.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

_LABEL: Final = r"[A-Za-z0-9_.\-]{0,40}(?:api[_\-]?key|secret|token|passwd|password|access[_\-]?key|private[_\-]?key)"


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of credential. Group 1 of `pattern` is the secret. `random_bits_min` is the least entropy a match
    must have, in bits per character; above 0, it must also hold a digit and a letter.
    """

    kind: str
    pattern: str
    random_bits_min: float = 0.0

    def accepts(self, secret: str) -> bool:
        """Whether a match looks random enough to be one."""
        if not self.random_bits_min:
            return True
        mixed = any(c.isdigit() for c in secret) and any(c.isalpha() for c in secret)
        return mixed and entropy_bits(secret) >= self.random_bits_min


SHAPES: Final = (
    Shape("aws access key", r"\b((?:AKIA|ASIA)[0-9A-Z]{16})\b"),
    Shape("github token", r"\b(gh[pousr]_[A-Za-z0-9]{36,})\b"),
    Shape("github token", r"\b(github_pat_[A-Za-z0-9_]{60,})\b"),
    Shape("gitlab token", r"\b(glpat-[A-Za-z0-9_\-]{20,})"),
    Shape("model key", r"\b(sk-[A-Za-z0-9_\-]{20,})", 3.5),
    Shape("slack token", r"\b(xox[abeoprs]-[A-Za-z0-9\-]{20,})", 3.0),
    Shape("slack token", r"\b(xapp-[0-9]-[A-Za-z0-9\-]{20,})"),
    Shape("stripe key", r"\b([rs]k_(?:live|test)_[A-Za-z0-9]{20,})\b"),
    Shape("google key", r"\b(AIza[0-9A-Za-z_\-]{35})(?:[^0-9A-Za-z_\-]|$)"),
    Shape("npm token", r"\b(npm_[A-Za-z0-9]{36})\b"),
    Shape("pypi token", r"\b(pypi-AgE[A-Za-z0-9_\-]{50,})"),
    Shape("hugging face token", r"\b(hf_[A-Za-z0-9]{34,40})\b"),
    Shape("sendgrid key", r"\b(SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43})"),
    Shape("digitalocean token", r"\b(do[oprt]_v1_[a-f0-9]{64})\b"),
    Shape("azure storage key", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    Shape("json web token", r"\b(eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{16,})"),
    Shape("private key", r"(?s)(-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----.*?-----END [A-Z ]{0,20}PRIVATE KEY-----)"),
    Shape(
        "password in an address",
        r"\b[a-z][a-z0-9+.\-]{1,20}://[^/\s:@'\"<>{}$]{1,64}:([^/\s:@'\"<>{}$]{6,255})@",
        2.0,
    ),
    Shape(
        "authorization header",
        r"(?i)\bauthorization['\"]?\s{0,4}[:=]\s{0,4}['\"]?(?:bearer|basic|token)\s{1,4}([A-Za-z0-9._~+/=\-]{16,})",
        3.0,
    ),
    Shape(
        "labelled value",
        rf"(?i)\b{_LABEL}['\"]?\s{{0,4}}(?::|=|:=|=>)\s{{0,4}}['\"]([A-Za-z0-9_.~+/=\-]{{16,}})['\"]",
        3.5,
    ),
    Shape(
        "labelled value",
        r"(?m)^(?:export )?[A-Z0-9_]{0,60}(?:KEY|TOKEN|SECRET|PASSWORD)=([A-Za-z0-9_.~+/=\-]{12,})\s*$",
        3.0,
    ),
)


def entropy_bits(text: str) -> float:
    """Shannon entropy, in bits per character; 0 for an empty text."""
    total = len(text)
    return -sum(n / total * math.log2(n / total) for n in Counter(text).values())
