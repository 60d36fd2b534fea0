"""The big run: ``python -m tests.system.differential --sequences 10000 --seed 1``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from random import Random, SystemRandom

from .broker import VERSIONS, load_broker
from .compare import difference
from .sequences import make_sequence

_MOST_SEEDS = 2**32
_TOLD_EVERY = 1000


def main() -> int:
    """Run sequences on each version; print the seed, the counts and each difference.

    Returns:
        1 if there was a difference.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.system.differential", description=__doc__
    )
    parser.add_argument("--sequences", type=int, default=10_000, help="how many on each version")
    parser.add_argument("--seed", type=int, help="of all choices; by default a new one")
    parser.add_argument("--version", action="append", help="of RocketMQ; may be repeated")
    parser.add_argument("--most-differences", type=int, default=5, help="stop after so many")
    arguments = parser.parse_args()
    seed = SystemRandom().randrange(_MOST_SEEDS) if arguments.seed is None else arguments.seed
    brokers = [load_broker(version) for version in arguments.version or VERSIONS]
    print(f"seed {seed}, RocketMQ {', '.join(broker.version for broker in brokers)}")
    counts: Counter[str] = Counter()
    start = time.monotonic()
    for place in range(arguments.sequences):
        sequence = make_sequence(Random(f"{seed}/{place}"))
        counts[f"sequences on a {sequence['kind']}"] += 1
        counts["openings"] += len(sequence["segments"])
        counts["operations"] += sum(len(each["operations"]) for each in sequence["segments"])
        for broker in brokers:
            found = difference(sequence, broker)
            if found is not None:
                counts["differences"] += 1
                print(f"\nsequence {place}, {found}\n{json.dumps(sequence)}", flush=True)
        if counts["differences"] >= arguments.most_differences:
            break
        if not (place + 1) % _TOLD_EVERY:
            print(f"{place + 1} sequences, {time.monotonic() - start:.0f} s", flush=True)
    told = ", ".join(f"{counts[name]:,} {name}" for name in sorted(counts) if name != "differences")
    print(
        f"{place + 1:,} sequences ({told}), each on {len(brokers)} versions: "
        f"{counts['differences']} differences, {time.monotonic() - start:.0f} s"
    )
    return 1 if counts["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
