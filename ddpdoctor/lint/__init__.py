"""The static analyzer: runs a program in the abstract, as some rank k > 0."""
