"""The comparison of two checkouts (`scripts/same.py`), by snapshots in files."""

import json
import sys

import pytest
from scripts import same

OLD = {"errors/a": [[400, "x"]], "errors/b": [[500, "y"]], "routes/GET /": [200, None]}


def compared(folder, monkeypatch, new, allowed=""):
    for name, snapshot in (("old", OLD), ("new", new)):
        (folder / name).write_text(json.dumps(snapshot))
    (folder / "allowed").write_text(allowed)
    paths = [str(folder / name) for name in ("old", "new", "allowed")]
    monkeypatch.setattr(sys, "argv", ["same.py", *paths[:2], "--allow", paths[2]])
    return same.main()


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"errors/b": [[503, "y"]]}, ["errors/b differs", "500", "503"]),
        ({"errors/c": [[410, "z"]]}, ["errors/c differs", "none", "410"]),
        ({"routes/GET /": [404, None]}, ["routes/GET / differs", "200", "404"]),
    ],
)
def test_a_difference_is_printed_and_is_an_error_unless_it_is_allowed(
    tmp_path, monkeypatch, capsys, change, shown
):
    assert compared(tmp_path, monkeypatch, OLD | change) == 1
    printed = capsys.readouterr().out
    assert all(text in printed for text in shown)
    (entry,) = change
    pattern = f"{entry.partition('/')[0]}/*  # on purpose"
    assert compared(tmp_path, monkeypatch, OLD | change, pattern) == 0


def test_an_entry_that_is_gone_is_a_difference(tmp_path, monkeypatch):
    assert compared(tmp_path, monkeypatch, {k: v for k, v in OLD.items() if k != "errors/a"}) == 1
    assert compared(tmp_path, monkeypatch, OLD) == 0
