"""Fonts for plots: which of them can draw a label.

matplotlib's own font has no Devanagari, Tamil or Chinese. The extra ``plots`` brings the Noto fonts as
packages, so that plots look the same everywhere; without them fonts of the system are taken, and a
label that none of them can draw is shown by number.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

BASE = "DejaVu Sans"
"""matplotlib's own font: Latin, Greek, Cyrillic, Arabic."""
PACKAGES = ("manimgx_fonts", "noto_cjk_sans_otc")
"""Packages that carry nothing but Noto fonts: all scripts of India and emoji; Chinese, Japanese and Korean."""
CJK_FACE = "Noto Sans CJK SC"
SYSTEM = (
    *("Noto Sans Devanagari", "Noto Sans Tamil", "Noto Sans Bengali", "Noto Sans Telugu", "Noto Sans Kannada"),
    *("Noto Sans Malayalam", "Noto Sans Gujarati", "Noto Sans Gurmukhi", "Noto Sans Oriya", "Noto Sans Symbols"),
    *(CJK_FACE, "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Micro Hei", "Noto Emoji"),
    *("Nirmala UI", "Microsoft YaHei", "Segoe UI Emoji", "Segoe UI Symbol"),
    *("Kohinoor Devanagari", "Tamil Sangam MN", "PingFang SC", "Hiragino Sans GB", "Apple Symbols", "Arial Unicode MS"),
)
"""Families that Linux, Windows and macOS have for these scripts, looked for when the packages are not there."""


@cache
def families() -> tuple[str, ...]:
    """Font families to draw with, in order; each is known to matplotlib."""
    from matplotlib import font_manager

    found = [BASE]
    for package in PACKAGES:
        for path in _packaged(package):
            font_manager.fontManager.addfont(str(path))
            found += [entry.name for entry in font_manager.fontManager.ttflist if entry.fname == str(path)]
    known = {entry.name for entry in font_manager.fontManager.ttflist}
    found = [name for name in found if "CJK" not in name] + [name for name in found if name == CJK_FACE]
    found += [name for name in SYSTEM if name in known]
    return tuple(dict.fromkeys(found))


def _packaged(package: str) -> list[Path]:
    """Upright font files of a package, by name; none when it is not installed."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return []
    files = sorted(Path(spec.origin).parent.glob("*.tt[fc]"))
    return [path for path in files if "Italic" not in path.name]


@cache
def _faces() -> tuple[FT2Font, ...]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    paths = [font_manager.findfont(name, fallback_to_default=False) for name in families()]
    return tuple(FT2Font(str(path), face_index=getattr(path, "face_index", 0)) for path in paths)


def can_draw(label: str) -> bool:
    """True when every character has a glyph and the letters will be joined as their script wants it."""
    if any(_needs_shaping(c) for c in label) and not _shapes():
        return False
    return all(
        _has_glyph(c) for c in set(label) if not c.isspace() and unicodedata.category(c) not in ("Cf", "Mn", "Me")
    )


def _has_glyph(character: str) -> bool:
    return any(face.get_char_index(ord(character)) for face in _faces())


def _needs_shaping(character: str) -> bool:
    return unicodedata.category(character) in ("Mc", "Mn") or unicodedata.bidirectional(character) in ("R", "AL")


@cache
def _shapes() -> bool:
    """matplotlib lays out complex scripts from 3.11 on, with libraqm."""
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")
