"""A store root on disk: what a path stands for, its files, names, checkpoint and lock."""
