"""What rmqindex is measured against, side by side in one run: ``python -m benchmarks``."""
