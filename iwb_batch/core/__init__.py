"""Pure decisions: no file, no clock, no environment; random numbers come from a generator passed in."""
