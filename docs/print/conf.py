"""The specification on one page, for print; ``make docs`` builds it."""

import runpy
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[1]
_site = runpy.run_path(str(_DOCS / "conf.py"))
globals().update({name: value for name, value in _site.items() if not name.startswith("_")})

project = "The RocketMQ IndexFile format"
release = next(
    line.split()[1]
    for line in (_DOCS / "spec" / "index.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("version:")
)
html_theme = "basic"
html_title = f"{project} {release}"
html_static_path = ["."]
html_css_files = ["print.css"]
html_sidebars: dict[str, list[str]] = {"**": []}
html_use_index = False
exclude_patterns = ["conf.py"]
