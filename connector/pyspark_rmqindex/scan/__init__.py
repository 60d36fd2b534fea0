"""Entries as rows: filters, plans and the reader that runs them in tasks."""
