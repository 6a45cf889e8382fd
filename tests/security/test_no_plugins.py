"""A package that offers itself as a plug-in of a library is not loaded into the daemon."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kit.daemon import Daemon

import gloveport

PLUGIN = "from pathlib import Path\nPath(__file__).with_name('loaded').touch()\nplugin = None\n"
CONTROL = "import pydantic\nclass Shape(pydantic.BaseModel):\n    field: int\n"


def install(folder: Path) -> Path:
    """A package with the entry point that pydantic loads; the file that tells it was loaded."""
    metadata = folder / "eager-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: eager\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[pydantic]\neager = eager:plugin\n")
    (folder / "eager.py").write_text(PLUGIN)
    return folder / "loaded"


def test_the_daemon_loads_no_plugin(tmp_path: Path) -> None:
    """Where it is installed, any other program that makes a model loads it; the daemon serves without."""
    loaded = install(tmp_path)
    path = os.pathsep.join([*(os.path.dirname(root) for root in gloveport.__path__), str(tmp_path)])
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    daemon = Daemon(home)
    try:
        daemon.start(PYTHONPATH=path)
        assert not loaded.exists()
    finally:
        daemon.kill()
        shutil.rmtree(home)
    control = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    subprocess.run([sys.executable, "-W", "ignore", "-c", CONTROL], env=control, check=False, capture_output=True)
    assert loaded.exists()
