"""Random SQL over every relation, compared with the same SQL over independently decoded rows."""
