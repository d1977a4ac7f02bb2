"""Encoders for other people's code: each form is reloaded without hardpair and compared before anybody sees it."""
