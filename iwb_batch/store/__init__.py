"""run.db: the only package that holds SQL. One function for each step, each step one transaction."""
