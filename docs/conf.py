"""The documentation site; ``make docs`` builds it."""

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent / "spec"
sys.path[:0] = [str(HERE / "_ext"), str(SPEC / "tools")]

import status_pages  # noqa: E402  (it lies outside of any package)

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _take_in_spec() -> None:
    """Bring ``docs/spec`` up to date with the specification, which lies outside of ``docs``."""
    wanted = {
        path.relative_to(SPEC): path.read_bytes()
        for pattern in ("*.md", "*.ksy", "figures/*.svg", "status/*.md", "vectors/README.md")
        for path in SPEC.glob(pattern)
    }
    taken = HERE / "spec"
    for path in taken.rglob("*.*"):
        if path.relative_to(taken) not in wanted:
            path.unlink()
    for name, data in wanted.items():
        path = taken / name
        # What is unchanged keeps its time, and is not built again.
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


_take_in_spec()

project = "rmqindex"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]
author = "The rmqindex authors"
copyright = "The rmqindex authors, Apache License 2.0"  # noqa: A001  (Sphinx's name)

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "requirement_links",
    "generated_tables",
    "prose_returns",
]
exclude_patterns = ["_build"]
nitpicky = True
# What other projects document; the build reads no inventories, since it needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(np|numpy|pa|pyarrow|pafs|pds|pyspark|pathlib|os|collections|datetime)\..*"),
    ("py:class", r"(NDArray|DataFrame|SparkSession|StructType|ByteSource|Path|PathLike|IntArray)"),
    ("py:class", r"(datetime|timedelta|tzinfo)"),
    # What is made and handed on by the package itself, and never by its callers.
    (
        "py:(class|exc)",
        (
            r"(rmqindex\.[a-z_.]+\.)?(FileMark|FileIdentity|Fingerprint|FileChangedError|IndexSource"
            r"|AppendUndo|AppendRecord|HeaderMark|PointMessage|ResolvedPath|LogRange|KeySet|KeyMatches|_Member"
            r"|UndoableAppend|Staging|Progress|KeyScope|Rank|Block|T|CommitLog|SnapshotFile"
            r"|LogArgument|Time|R|UnagreedTail|Lister|SupportsArrow|Records|Member|MessageRun|HasRuns"
            r"|StoreHold|HeaderMark|AbstractContextManager|ConsumerOffsets|MatchState|TransactionState)"
        ),
    ),
    ("py:class", r"re\.Pattern"),
    ("py:class", r"(DataSource.*|Row|Mode|Basis|TagChoice|How|Strategy|dict\[str)"),
    ("py:exc", r"(Analysis|Python|PySpark\w*)Exception"),
]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

# A test executes the notebooks; the site shows what they printed.
nb_execution_mode = "off"
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"rmqindex {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_ext" / "scorer.js")
html_copy_source = False
html_show_sourcelink = False
pygments_style = "tango"


def _write_badges(app: "Sphinx", _error: Exception | None) -> None:
    folder = app.outdir / "badges"
    folder.mkdir(exist_ok=True)
    for name, text in status_pages.badges().items():
        (folder / f"{name}.json").write_text(text, encoding="ascii")


def setup(app: "Sphinx") -> None:
    """Register with Sphinx."""
    app.connect("build-finished", _write_badges)
