"""What a library call does, one module for each group of words of the tables in rules/apis."""
