"""Comparing methods: the same encoder, images and compute for each; one table and one figure."""
