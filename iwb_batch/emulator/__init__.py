"""A local Azure OpenAI Batch server: the demo's, the tests' and the user's rehearsal.

The core (``service``) is free of any web framework; ``app`` puts it behind HTTP and needs the extra
``emulator``. Nothing is imported here, so that a start of the CLI costs nothing.
"""
