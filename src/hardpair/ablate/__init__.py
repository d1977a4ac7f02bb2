"""The paper's ablations: one recipe with one thing changed, over seeds; a table and a figure for each."""
