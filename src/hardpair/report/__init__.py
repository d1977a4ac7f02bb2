"""What a run shows: one self-contained page and a table for the terminal, made from the files of the run alone."""

from hardpair.report.paper import write_paper
from hardpair.report.run_page import write_report
from hardpair.report.scores import summary_table

__all__ = ["summary_table", "write_paper", "write_report"]
