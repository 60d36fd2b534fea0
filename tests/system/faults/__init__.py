"""Faults at random moments: processes that are killed, disks that are full, files that vanish."""
