"""What a session is configured with, and what the user's own files and options change of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import UsageError
from engine.pipeline import settings
from engine.pipeline.scratch import Scratch
from engine.pipeline.settings import SparkSettings
from tests.support import harness


def test_local_mode_on_the_loopback_address(tmp_path: Path) -> None:
    conf = settings.configuration(SparkSettings(cores=3), tmp_path, {})
    assert conf["spark.master"] == "local[3,4]"
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.local.dir"] == str(tmp_path)


def test_a_cluster_decides_the_addresses_itself(tmp_path: Path) -> None:
    conf = settings.configuration(SparkSettings(master="spark://head:7077"), tmp_path, {})
    assert "spark.driver.host" not in conf
    assert settings.is_local("spark://127.0.0.1:7077")
    assert settings.is_local("local-cluster[2,1,1024]")
    assert not settings.is_local("yarn")


def test_options_win_over_the_file_and_the_file_over_us(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master   spark://head:7077\nspark.ui.enabled=true\nspark.driver.memory: 5g\n\nodd\n"
    )
    environment = {"SPARK_CONF_DIR": str(tmp_path)}
    conf = settings.configuration(SparkSettings(conf=(("spark.driver.memory", "6g"),)), tmp_path, environment)
    assert conf["spark.driver.memory"] == "6g"
    assert "spark.ui.enabled" not in conf
    assert "spark.master" not in conf
    assert "spark.driver.host" not in conf
    chosen = settings.configuration(SparkSettings(master="local[1]"), tmp_path, environment)
    assert chosen["spark.master"] == "local[1]"


def test_the_users_flags_come_behind_ours(tmp_path: Path) -> None:
    name = "spark.driver.extraJavaOptions"
    flags = settings.configuration(SparkSettings(conf=((name, "-Dmine=1"),), quick=True), tmp_path, {})[name].split()
    assert flags[-1] == "-Dmine=1"
    assert set(settings.QUICK_FLAGS.split()) < set(flags)


@pytest.mark.parametrize("text", ["spark.ui.enabled", "=x", "driver.memory=4g", "spark.x y=1"])
def test_settings_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        settings.parse_conf((text,))


def test_settings_hold_equal_signs() -> None:
    assert settings.parse_conf(("spark.a=b=c", "spark.d=")) == (("spark.a", "b=c"), ("spark.d", ""))


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_memory_fits_the_machine(cores: int) -> None:
    found = settings.driver_memory_mib(cores)
    assert 512 <= found <= max(512, settings.memory_bytes() // 4 >> 20)


def test_a_scratch_directory_goes_with_its_owner(tmp_path: Path) -> None:
    living = Scratch(tmp_path)
    words = (
        "import os, sys; from pathlib import Path; from engine.pipeline.scratch import Scratch;"
        " Scratch(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", words, tmp_path], env=harness.environment(), check=False)
    assert killed.returncode == -9
    assert len(list(tmp_path.iterdir())) == 2
    third = Scratch(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living.path, third.path])
    third.remove()
    third.remove()
    living.remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("master", "needed"),
    [("local", False), ("local[4]", False), ("local[*, 3]", False), ("local-cluster[2,1,1024]", True),
     ("spark://127.0.0.1:7077", True), ("yarn", True)],
)  # fmt: skip
def test_executors_of_their_own_need_the_package(master: str, needed: bool) -> None:
    assert settings.needs_package(master) is needed


def test_partitions_follow_the_data() -> None:
    """65 small environments are not 200 tasks; a large one has more tasks than cores."""
    assert settings.shuffle_partitions(3_000_000, 2) == 2
    assert settings.shuffle_partitions(0, 1) == 1
    assert settings.shuffle_partitions(4 << 30, 8) == 256
