"""``reward-accuracy``: how often a reward model scores the text people chose above the other one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from iwb_batch import benchmarks
from iwb_batch.core.pair_numbers import Longer, RewardRow, reward_report
from iwb_batch.core.words import counted
from iwb_batch.errors import InputError
from iwb_batch.inputs.scores import NAME_KEYS, SHOWN, PairKey, ScoreFile, read_scores
from iwb_batch.model import Item
from iwb_batch.report import pairs
from iwb_batch.report.formats import Format
from iwb_batch.workflow.items import of_subset, open_items

BENCHMARK = "writing-preference-bench"
Invalid = Literal["refuse", "count", "drop"]


def reward_accuracy(
    sources: Sequence[str], scores: Path, *, invalid: Invalid, form: Format, subset: str | None = None
) -> str:
    """The report as text. All pairs of the data are in N.

    ``invalid``: a pair without two finite scores is an error, or wrong, or left out of N. InputError: a bad
    row of the data or of the scores; with ``refuse``, the pairs without two finite scores.
    """
    benchmark = benchmarks.get(BENCHMARK)
    dataset, numbers = open_items(benchmark, sources, subset=subset, split="test", revision=None)
    known = [(index, benchmark.item(row, index)) for index, row in numbers.apply(dataset.rows())]
    wanted = {index for index, _ in of_subset(numbers.apply(dataset.rows()), dataset, benchmark)}
    found = read_scores(scores, [PairKey(index, _name(item)) for index, item in known])
    items = [item for index, item in known if index in wanted]
    if invalid == "refuse":
        _refuse_invalid(scores.name, found, wanted)
    report = reward_report([_row(item, found) for item in items], invalid_policy=invalid)
    return pairs.render_reward(report, form, model=scores.stem)


def _name(item: Item) -> tuple[str, str, str] | None:
    prompt_id, chosen, rejected = (item.extra.get(key) for key in NAME_KEYS)
    return None if prompt_id is None or chosen is None or rejected is None else (prompt_id, chosen, rejected)


def _row(item: Item, found: ScoreFile) -> RewardRow:
    score = found.scores.get(item.index)
    chosen, rejected = item.extra["chosen"], item.extra["rejected"]
    longer: Longer = "equal"
    if len(chosen) != len(rejected):
        longer = "chosen" if len(chosen) > len(rejected) else "rejected"
    return RewardRow(
        item_index=item.index,
        language=item.language,
        domain=item.domain,
        tag=item.tag,
        cluster=item.cluster,
        chosen=score.chosen if score is not None else None,
        rejected=score.rejected if score is not None else None,
        item_id=item.item_id,
        longer=longer,
        equal_texts=chosen == rejected,
    )


def _refuse_invalid(name: str, found: ScoreFile, wanted: set[int]) -> None:
    bad = [f"row {s.row} (line {s.line})" for s in found.invalid if s.row in wanted]
    missing = [f"row {row}" for row in found.missing if row in wanted]
    faults = [f"no finite number for {_listed(bad)}"] * bool(bad)
    faults += [f"no score for {_listed(missing)}"] * bool(missing)
    if faults:
        raise InputError.at(
            name,
            "; ".join(faults),
            hint="--invalid count keeps such pairs as wrong, --invalid drop leaves them out of N; both are reported",
        )


def _listed(places: Sequence[str]) -> str:
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    return f"{counted(len(places), 'pair')}: {', '.join(places[:SHOWN])}{more}"
