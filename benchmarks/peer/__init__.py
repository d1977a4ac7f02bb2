"""The parts of peer_learning.py: lightly's methods, training of both sides, and the scores."""
