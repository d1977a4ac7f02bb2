"""The paper's seven tables as published, and beneath each, in tables of their own, what runs have measured."""

from hardpair.report.paper.paper_page import write_paper

__all__ = ["write_paper"]
