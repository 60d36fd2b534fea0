"""Answers of the command, and the facts and pictures of an index that Python shows, too.

A command computes each :class:`~rmqindex.answers.answer.Answer` and never asks who reads it: one of
three renderers writes it, as text for people, as JSON or as CSV. A function for each kind of answer
makes one of what the rooms below return; what a person sees of an answer, its JSON document and its
columns stand together.
"""
