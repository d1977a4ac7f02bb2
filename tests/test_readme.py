"""The README: short lines, links that lead somewhere, and code that runs as it stands (with fewer epochs)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from noise_photos import write_photos

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL) for kind in ("sh", "python")}


def test_lines_are_short_and_links_lead_somewhere():
    assert max(map(len, TEXT.splitlines())) <= 120
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(links) > 10
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_every_verb_and_target_in_it_exists(hardpair):
    helped = hardpair("--help").stdout
    for verb in set(re.findall(r"`hardpair (\w+)", TEXT)):
        assert f"hardpair {verb}" in helped, verb
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z]+(?:-[a-z]+)?) ", TEXT)):
        assert f"\n{target}:" in makefile, target


@pytest.fixture
def place(tmp_path):
    """A folder in which path/to/photos is there, with classes."""
    write_photos(tmp_path / "path/to/photos")
    return tmp_path


@pytest.mark.slow
def test_your_own_images_on_the_command_line(place):
    (block,) = [block for block in BLOCKS["sh"] if "PHOTOS=" in block]
    script = block.replace("hardpair pretrain", "hardpair pretrain --epochs 1 --width .125")
    assert script != block
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=place,
        env={**os.environ, "PATH": folders},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (place / "runs/mine/report.html").exists()


@pytest.mark.slow
def test_your_own_images_from_python(place, monkeypatch):
    (block,) = [block for block in BLOCKS["python"] if "hp.pretrain" in block]
    code = block.replace("epochs=20", "epochs=1, width=1 / 16")
    assert code != block
    monkeypatch.chdir(place)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["features"].shape == (300, names["encoder"].num_features)
