"""Write ``spec/vectors`` from what RocketMQ's own classes produced.

``python spec/tools/make_vectors.py [DIRECTORY]`` writes the same files every time.
Accept vectors are RocketMQ's own files with RocketMQ's own answers, which are in
``tests/data/rocketmq_classes``, or such a file with one field changed to another legal value;
reject vectors are such files with a rule broken. Where RocketMQ was not asked, the answers come
from ``oracle.py`` and ``logs_oracle.py``, which the tests hold against all of RocketMQ's answers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from annex_vectors import write_annexes  # noqa: E402
from edge_vectors import write_edges  # noqa: E402
from file_vectors import write_files  # noqa: E402
from log_vectors import write_logs  # noqa: E402
from mutations import write_mutations  # noqa: E402
from queue_vectors import write_queues  # noqa: E402
from set_vectors import write_sets  # noqa: E402
from table_vectors import write_tables  # noqa: E402
from vectorlib import Vectors  # noqa: E402


def main(root: Path) -> None:
    """Write everything below a directory."""
    out = Vectors(root)
    write_files(out)
    write_mutations(out)
    write_sets(out)
    write_tables(out)
    write_edges(out)
    write_logs(out)
    write_queues(out)
    write_annexes(out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the vectors.")
    parser.add_argument("directory", nargs="?", type=Path, default=HERE.parent / "vectors")
    main(parser.parse_args().directory)
