"""Use cases: each command is one function here. Effects happen here; decisions come from core."""
