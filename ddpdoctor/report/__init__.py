"""Findings and placements as text, JSON, SARIF, GitHub annotations and HTML."""
