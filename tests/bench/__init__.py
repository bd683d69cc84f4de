"""``make bench``: the cost of the tool beside naive scripts, strong libraries and floors, as ratios of one run."""
