"""The original WritingBench (X-PLUG, ``benchmark_all.jsonl``), judged by the same protocol."""

from __future__ import annotations

from iwb_batch.benchmarks._rubric import RubricBenchmark

BENCHMARK = RubricBenchmark(
    name="writing-bench",
    default_dataset=None,
    domain_key="domain1",
    subdomain_key="domain2",
    language_key="lang",
)
