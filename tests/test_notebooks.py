"""Every notebook runs from its first cell to its last, without a warning, in seconds; what is kept of outputs is a showcase."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
SHOWCASE = "02_how_to_choose_a_limit"


def cells(notebook: Path, kind: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(notebook, 4).cells if cell.cell_type == kind]


def test_the_four_notebooks_are_there() -> None:
    assert [notebook.name[:2] for notebook in NOTEBOOKS] == ["01", "02", "03", "04"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_notebook_runs_to_its_end(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error::RuntimeWarning:fanwidth,error::DeprecationWarning:fanwidth")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MPLCONFIGDIR", os.environ.get("MPLCONFIGDIR", str(tmp_path)))
    book = nbformat.read(notebook, 4)
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [output.get("text", "") for cell in book.cells for output in cell.get("outputs", [])]
    assert not [text for text in texts if "Warning" in text]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_notebook_teaches(notebook: Path) -> None:
    """A question in the heading, what to take home at the end; outputs are kept in the showcase alone."""
    words = cells(notebook, "markdown")
    assert words[0].source.startswith("# ")
    assert any("take home" in cell.source for cell in words[-2:])
    kept = [cell for cell in cells(notebook, "code") if cell.outputs]
    assert bool(kept) == (notebook.stem == SHOWCASE)
