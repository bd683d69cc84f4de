"""Preference pairs, and judges whose verdicts are known beforehand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cli.support import Cli, Done, Emulation, Resource, Scripted, verdict

Row = dict[str, Any]
BENCHMARK = "writing-preference-bench"
TAGS = ("童话-寓言", "诗歌", "演讲稿")
PROMPTS_EN = ("Write a fable about a lamp.", "Write four lines about rain.", "Open a village fair with a speech.")
PROMPTS_ZH = ("写一个关于路灯的寓言。", "写四行关于雨的诗。", "为村里的集市写一段开幕词。")


def pair(prompt: str, chosen: str, rejected: str, *, number: int = 0, **changes: Any) -> Row:
    """One pair in the released layout."""

    def side(text: str, score: int, model: str) -> Row:
        return {
            "response": text,
            "score": score,
            "model": model,
            "completion_tokens": 7,
            "prompt_tokens": 5,
            "word_len": len(text),
        }

    row = {
        "prompt": prompt,
        "prompt_id": f"prompt-{number // 2}",
        "tag": TAGS[number % 3],
        "chosen": side(chosen, 3, f"heron-{number}"),
        "rejected": side(rejected, 1, f"finch-{number}"),
    }
    return {**row, **changes}


def pairs_of(prompts: Sequence[str], good: str, plain: str, n: int) -> list[Row]:
    """``n`` pairs; in two of three the chosen text is the longer one, and no two lengths are equal."""
    rows = []
    for number in range(n):
        chosen, rejected = f"{good} {number}", f"{plain} {number}"
        if number % 3 == 2:
            rejected += plain * 9
        else:
            chosen += good * 9
        rows.append(pair(prompts[number % 3], chosen, rejected, number=number))
    return rows


def english(n: int = 6) -> list[Row]:
    """English pairs."""
    return pairs_of(PROMPTS_EN, "The dark purred.", "The lamp was lit.", n)


def chinese(n: int = 3) -> list[Row]:
    """Chinese pairs."""
    return pairs_of(PROMPTS_ZH, "黑暗像一只猫。", "路灯亮了。", n)


def array(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows as one JSON array, indented by 2, without a final newline: the released form."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(json.dumps(rows, ensure_ascii=False, indent=2).encode())
    return path


def both_files(folder: Path) -> tuple[Path, Path]:
    """The English and the Chinese file, under names as released."""
    return array(folder / "WP_bench_english.json", english()), array(folder / "WP_bench_chinese.json", chinese())


def swapped(rows: Sequence[Row]) -> list[Row]:
    """The same pairs with the labels exchanged."""
    return [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in rows]


def shown(prompt: str) -> tuple[str, str]:
    """The two texts of a pairwise prompt, in the order shown."""
    found = re.search(
        r"\[Answer A begins\]\n(.*)\n\[Answer A ends\]\n\n\[Answer B begins\]\n(.*)\n\[Answer B ends\]",
        prompt,
        re.DOTALL,
    )
    assert found is not None
    return found[1], found[2]


def shown_alone(prompt: str) -> str:
    """The text of a pointwise prompt."""
    found = re.search(r"\[Answer begins\]\n(.*)\n\[Answer ends\]", prompt, re.DOTALL)
    assert found is not None
    return found[1]


def prefer(letter: str) -> str:
    """The content of a verdict on two texts."""
    return json.dumps({"preference": letter, "reason": "It lives."})


def always_first() -> Scripted:
    """A judge that never looks."""
    return Scripted(lambda _prompt: prefer("A"))


def knows(rows: Sequence[Row]) -> Scripted:
    """A judge that knows which text of each pair people chose."""
    truth = {(row["chosen"]["response"], row["rejected"]["response"]) for row in rows}
    return Scripted(lambda prompt: prefer("A" if shown(prompt) in truth else "B"))


def prefers_longer() -> Scripted:
    """A judge that counts characters, and has nothing to say about two texts of one length."""

    def content(prompt: str) -> str:
        first, second = shown(prompt)
        return "They are equal." if len(first) == len(second) else prefer("A" if len(first) > len(second) else "B")

    return Scripted(content)


def scores_alone(score: Callable[[str], int]) -> Scripted:
    """A judge that scores one text at a time."""
    return Scripted(lambda prompt: verdict(score(shown_alone(prompt))))


def judged(cli: Cli, emulate: Emulation, judge: Scripted, *options: str | Path, faults: Any = None) -> Resource:
    """Submit pairs and collect until done."""
    resource = emulate(judge=judge, faults=faults)
    sent = cli("submit", "--benchmark", BENCHMARK, "--wait", "0", *options)
    assert sent.code == 0, sent.err
    done = cli.collect()
    assert done.code in (0, 4), done.err
    return resource


def numbers(cli: Cli, *more: str) -> Mapping[str, Any]:
    """The report of the newest run as JSON."""
    done: Done = cli("report", "--format", "json", *more)
    assert done.code in (0, 4), done.err
    value: Mapping[str, Any] = done.json()
    return value
