"""Texts, tables, documents and plots of what the other rooms found."""
