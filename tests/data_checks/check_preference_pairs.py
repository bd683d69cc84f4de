"""The real Chinese pairs and made English ones through both orders, and the labels that come without texts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from iwb_batch import benchmarks
from iwb_batch.core.row import Row as DataRow
from iwb_batch.inputs.rows import read_rows
from tests.cli import support
from tests.cli.support import Cli, Emulation, jsonl
from tests.pairs.support import (
    BENCHMARK,
    PROMPTS_EN,
    Row,
    always_first,
    array,
    judged,
    knows,
    numbers,
    pairs_of,
    prefers_longer,
    scores_alone,
    swapped,
)

ZH = "writing_preference_bench/wpb_zh_official_pairs_reconstructed.json"
LABELS = "writing_preference_bench/labels_263_longjudgebench.jsonl"
PUBLISHED_GAP = {"en": 1.31, "zh": 1.45}


@pytest.fixture
def chinese(data: Path) -> list[Row]:
    """The real pairs."""
    return [dict(row.values) for row in read_rows(data / ZH)]


@pytest.fixture
def files(tmp_path: Path, chinese: list[Row]) -> list[str]:
    """The two files as options: 200 made English pairs, and the real Chinese ones."""
    english = pairs_of(PROMPTS_EN, "The dark purred.", "The lamp was lit.", 200)
    written = (array(tmp_path / "WP_english.json", english), array(tmp_path / "WP_chinese.json", chinese))
    return [word for path in written for word in ("--dataset", str(path))]


def rows_of(options: list[str]) -> list[Row]:
    """The pairs of both files."""
    return [row for path in options[1::2] for row in json.loads(Path(path).read_bytes())]


def check_known_judges(cli: Cli, emulate: Emulation, tmp_path: Path, files: list[str], say: list[str]) -> None:
    """Always A, the truth, the longer text: each has to come out as it must."""
    rows = rows_of(files)
    judged(cli, emulate, always_first(), *files, "--run", "first")
    first = numbers(cli)
    support.check_schema(first, "report-pairs.schema.json")
    assert (first["accuracy"]["score"], first["first_position_rate"], first["consistency"]) == (0.5, 1.0, 0.0)
    judged(cli, emulate, knows(rows), *files, "--run", "truth")
    truth = numbers(cli)
    assert (truth["accuracy"]["score"], truth["both_right"], truth["consistency"]) == (1.0, 1.0, 1.0)
    judged(cli, emulate, prefers_longer(), *files, "--run", "longer", "--max-resubmits", "0")
    longer = numbers(cli)
    assert longer["accuracy"]["score"] == longer["longer_baseline"]
    say += [f"{row['label']}: longer wins {row['score']:.3f} of {row['n_items']}" for row in longer["by"]["language"]]


def check_exchanged_labels(cli: Cli, emulate: Emulation, tmp_path: Path, chinese: list[Row]) -> None:
    """With the labels exchanged the judge that knew the truth is always wrong."""
    file = array(tmp_path / "zh.json", swapped(chinese))
    judged(cli, emulate, knows(chinese), "--dataset", str(file))
    found = numbers(cli)
    assert (found["n_pairs"], found["accuracy"]["score"], found["consistency"]) == (len(chinese), 0.0, 1.0)
    assert all(row["label"] is not None for row in found["by"]["domain"])


def check_one_text_at_a_time(cli: Cli, emulate: Emulation, tmp_path: Path, chinese: list[Row], say: list[str]) -> None:
    """Scores by length in ten steps: never better than the baseline by more than its ties cost."""
    file = array(tmp_path / "zh.json", chinese)
    judge = scores_alone(lambda text: min(10, 1 + len(text) // 500))
    judged(cli, emulate, judge, "--dataset", str(file), "--protocol", "pointwise")
    found = numbers(cli)
    support.check_schema(found, "report-pointwise.schema.json")
    assert found["correct"] + found["wrong"] + found["ties"] == len(chinese)
    assert found["accuracy"]["score"] <= found["longer_baseline"]
    say.append(f"length in ten steps: {found['correct']} right, {found['wrong']} wrong, {found['ties']} ties")


def check_rewards(cli: Cli, tmp_path: Path, chinese: list[Row], data: Path) -> None:
    """Lengths as rewards are the baseline."""
    rewards = [
        {"row": n, "chosen": len(row["chosen"]["response"]), "rejected": len(row["rejected"]["response"])}
        for n, row in enumerate(chinese)
    ]
    options = ("--dataset", data / ZH, "--subset", "zh", "--scores", jsonl(tmp_path / "length.jsonl", rewards))
    found = cli("reward-accuracy", *options, "--format", "json").json()
    support.check_schema(found, "reward-accuracy.schema.json")
    assert found["accuracy"]["score"] == found["longer_baseline"]
    assert found["n_pairs"] == len(chinese)


def check_labels_without_texts(data: Path, say: list[str]) -> None:
    """Language, score gap and repetition of prompt_id, which need no response text."""
    benchmark = benchmarks.get(BENCHMARK)
    gaps: dict[str, list[int]] = {}
    ids: Counter[str] = Counter()
    names: set[tuple[str, str, str]] = set()
    for number, row in enumerate(read_rows(data / LABELS)):
        values: dict[str, Any] = dict(row.values)
        stand_in = DataRow({"prompt": values["instruction"], "tag": None}, row.where, row.number)
        language = str(benchmark.labels(stand_in, number)["language"])
        gaps.setdefault(language, []).append(values["scores"]["chosen"] - values["scores"]["rejected"])
        ids[values["id"]] += 1
        models = values["preference"]
        names.add((values["id"], models["chosen_model"], models["rejected_model"]))
    assert {language: len(found) for language, found in gaps.items()} == {"en": 142, "zh": 121}
    assert all(1 <= gap <= 3 for found in gaps.values() for gap in found)
    assert len(names) == sum(ids.values()) == 263
    assert max(ids.values()) > 1
    for language, found in sorted(gaps.items()):
        mean = sum(found) / len(found)
        say.append(
            f"{language}: mean gap {mean:.3f} of {len(found)} labels"
            f" (published for all pairs: {PUBLISHED_GAP[language]}),"
            f" by gap {dict(sorted(Counter(found).items()))}"
        )
    say.append(f"prompt_id: {len(ids)} of 263 are different, the most frequent one occurs {max(ids.values())} times")
