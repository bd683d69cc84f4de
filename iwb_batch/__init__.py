"""iwb-batch: judge model-written text with an LLM through the Azure OpenAI Batch API."""

__version__ = "0.1.0"
