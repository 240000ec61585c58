"""The figures of the last full benchmark, as the documents and the front page show them.

Where there is no report, or only one of a quick run, there is nothing to show: the documents keep
what they have.
"""

from __future__ import annotations

from bench import report, report_plot, report_text

#: Beside the page that shows it.
PLOT = "benchmarks.svg"


def page() -> str | None:
    """Return the tables of the reference page."""
    rows = _rows()
    return f"![Plot of the figures]({PLOT})\n\n{report_text.body(rows)}" if rows else None


def summary() -> str | None:
    """Return the short table of the front page."""
    rows = _rows()
    return report_text.summary(rows) if rows else None


def plot() -> str | None:
    """Return the plot as SVG."""
    rows = _rows()
    return report_plot.svg(rows) if rows else None


def _rows() -> list[report.Row]:
    rows = report.read()
    return rows if all(each.run == report.FULL for each in rows) else []
