"""Reports: the numbers of ``core`` as tables, Markdown, CSV and JSON. Data in, text out; nothing is printed here."""
