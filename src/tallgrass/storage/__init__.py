"""Where state is kept: the only SQL of the package.

``sqlite.py`` and ``postgres.py`` hold what differs between the two databases behind the small
protocol of ``unit_of_work.py``; the stores above them are written once. Statements are named blocks
in ``queries/``, tables are made by the numbered files in ``migrations/``.
"""
