"""Names of the two languages preference data come in, and the short codes used for them."""

from __future__ import annotations

import re

_CODES = {"english": "en", "eng": "en", "en": "en", "chinese": "zh", "zh": "zh", "cn": "zh", "zho": "zh"}


def language_code(name: str) -> str:
    """``en`` or ``zh`` for the usual names of English and Chinese; any other name as it is."""
    return _CODES.get(name.casefold(), name)


def language_in(text: str | None) -> str | None:
    """The one language a file or config name speaks of, in words of ASCII letters; None when none or both."""
    words = re.split(r"[^a-z]+", text.casefold()) if text else []
    found = {_CODES[word] for word in words if word in _CODES}
    return found.pop() if len(found) == 1 else None
