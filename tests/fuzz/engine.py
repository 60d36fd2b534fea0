"""One run of libFuzzer on one target, in a process of its own: ``python -m tests.fuzz.engine``."""

from __future__ import annotations

import importlib
import random
import sys
import warnings

_UNITS = ("rmqindex", "pyspark_rmqindex")


def main() -> None:
    """Run the target that the first argument names; the others are libFuzzer's."""
    import atheris

    name, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=list(_UNITS)):
        from .memory import in_memory, limit_memory

        target = importlib.import_module(f".targets.{name}", __package__)
    warnings.simplefilter("error")
    options = [sys.argv[0], f"-max_len={target.MAX_LENGTH}", *arguments]
    mutate = getattr(target, "mutate", None)

    def mutator(data, max_size, seed):
        chooser = random.Random(seed)
        if mutate is None or not data or chooser.random() < 0.3:
            return atheris.Mutate(data, max_size)
        return mutate(data, chooser)[:max_size]

    with in_memory():
        for seed in target.seeds():
            target.check(seed)
        limit_memory()
        keywords = {} if mutate is None else {"custom_mutator": mutator}
        atheris.Setup(options, target.check, **keywords)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
