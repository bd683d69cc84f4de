"""Plots: every script is drawn or told by number, hostile labels are text, the same numbers give the same bytes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from iwb_batch.core.run_facts import Estimate
from iwb_batch.report import fonts
from iwb_batch.report.plots import ROWS, DrawnFile, Plot, PlotRow, draw
from tests.cli.support import Cli

SCRIPTS = {
    "Devanagari": "क्षत्रिय और हिन्दी",
    "Tamil": "தமிழ்க் கவிதை",
    "Chinese": "数学与写作",
    "emoji": "😀 👩‍👩‍👧",
    "Bengali": "বাংলা",
    "Telugu": "తెలుగు",
    "Kannada": "ಕನ್ನಡ",
    "Malayalam": "മലയാളം",
    "Gujarati": "ગુજરાતી",
    "Gurmukhi": "ਪੰਜਾਬੀ",
    "Odia": "ଓଡ଼ିଆ",
    "Urdu": "اردو",
    "English": "Education & Learning",
}
PRIVATE = "\ue000 private"


def plot(*labels: str, name: str = "by-domain", title: str = "a run\nBy domain") -> Plot:
    rows = tuple(PlotRow(label, "3 of 4", Estimate(6.5, 6.0, 7.25, "t", 5)) for label in labels)
    return Plot(name, title, "mean", (1.0, 10.0), rows)


def drawn(*plots: Plot) -> dict[str, bytes]:
    return {file.name: file.content for file in draw(plots)}


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("label", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_each_script_has_a_font(label: str) -> None:
    assert fonts.can_draw(label)


def test_all_scripts_are_drawn_without_a_missing_glyph() -> None:
    # matplotlib warns about every missing glyph, and warnings are errors here.
    files = drawn(plot(*SCRIPTS.values()))
    assert set(files) == {"by-domain.png", "by-domain.svg"}
    assert size(files["by-domain.png"])[0] == 1200


def test_the_same_plot_gives_the_same_bytes_and_no_date() -> None:
    first, second = drawn(plot(*SCRIPTS.values())), drawn(plot(*SCRIPTS.values()))
    assert first == second
    svg = first["by-domain.svg"].decode("utf-8")
    assert "<dc:date>" not in svg
    assert "<text" not in svg, "text has to be outlines"
    assert "http" not in svg.replace("http://www.w3.org/", "").replace("http://purl.org/", "").replace(
        "http://creativecommons.org/", ""
    ).replace("https://creativecommons.org/", "")


def test_a_label_no_font_has_is_shown_by_number() -> None:
    assert not fonts.can_draw(PRIVATE)
    files = drawn(plot("Hindi", PRIVATE), plot(PRIVATE, "\ue001", name="by-tag"))
    assert files["labels.txt"].decode("utf-8").split("\n") == [f"[1] {PRIVATE}", "[2] \ue001", ""]


@pytest.mark.parametrize(
    "label",
    [r"$\frac{", "$$", "a\nb\0c", "<svg onload=alert(1)>", "\u202eabc", "_" * 500, "\ud800"],
    ids=["mathtext", "dollars", "control characters", "markup", "right to left override", "long", "surrogate"],
)
def test_hostile_labels_are_drawn_as_text(label: str) -> None:
    svg = drawn(plot(label, title=f"{label[:3]} run\nBy domain"))["by-domain.svg"]
    assert b"<svg onload" not in svg


def test_rows_without_a_number_leave_a_gap() -> None:
    rows = (PlotRow("a", "0 of 3", Estimate()), PlotRow("b", "1 of 1", Estimate(3.0)))
    assert len(drawn(Plot("by-tag", "t\nBy tag", "mean", (1.0, 10.0), rows))) == 2


def test_a_users_own_style_changes_nothing(tmp_path: Path) -> None:
    import matplotlib as mpl

    usual = drawn(plot("a"))
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 20, "savefig.dpi": 10, "svg.fonttype": "none"}):
        assert drawn(plot("a")) == usual


def test_report_writes_the_plots(cli: Cli, tmp_path: Path) -> None:
    done = cli("report", "first", "--plots", tmp_path / "new" / "plots")
    assert done.code == 4
    names = {path.name for path in (tmp_path / "new" / "plots").iterdir()}
    kinds = ("by-domain", "by-subdomain", "by-variant", "by-language", "scores-given")
    assert names == {f"{kind}.{suffix}" for kind in kinds for suffix in ("png", "svg")}
    assert "wrote" in done.err


def test_pairs_are_drawn_in_per_cent(cli: Cli, tmp_path: Path) -> None:
    assert cli("report", "pairs", "--plots", tmp_path).code == 0
    assert {path.stem for path in tmp_path.iterdir()} == {"by-language", "by-domain", "by-tag"}


def test_a_long_breakdown_goes_on_in_another_plot() -> None:
    from iwb_batch.core.run_facts import GroupRow
    from iwb_batch.report.plots import _breakdowns

    group = [GroupRow(f"tag {i}", 1, 1, Estimate(5.0)) for i in range(ROWS + 1)]
    found = list(_breakdowns("run", {"tag": group}, "mean", (1.0, 10.0)))
    assert [(p.name, len(p.rows)) for p in found] == [("by-tag", ROWS), ("by-tag-2", 1)]


def test_without_matplotlib_the_way_out_is_named(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    cli("report", "first", "--plots", tmp_path).refused(
        2, "--plots needs the package matplotlib", hint="iwb-batch[plots]"
    )


def test_files_are_named_for_what_they_hold() -> None:
    assert [type(file) for file in draw([plot("a")])] == [DrawnFile, DrawnFile]
