"""What comes in: rows of data files, data sets, responses. Every fault names its file and line."""
