"""Where batches are sent: one small port (base) and its adapters."""
