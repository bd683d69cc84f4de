"""Indic WritingBench v1 (``sarvam/indic_writing_bench_v1``): one config for each language, split ``test``."""

from __future__ import annotations

from iwb_batch.benchmarks._rubric import RubricBenchmark

BENCHMARK = RubricBenchmark(
    name="indic-writing-bench",
    default_dataset="sarvam/indic_writing_bench_v1",
    domain_key="domain",
    subdomain_key="subdomain",
    language_key="language",
    variant_key="variant",
)
