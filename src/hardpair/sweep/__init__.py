"""Sweeps: variants × seeds → runs → scores → a table and a figure; `compare` and `ablate` are lists of variants."""
