"""Cache sizes as JE computes them: every figure of every case is JE's own (``JeCacheSizes.java``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.evictor.je_cache_size import JE_25, RELEASES, CacheLoad, je_cache_size
from engine.evictor.je_off_heap import je_off_heap_size

FLAGS = {"-orderedinsertion": "ordered", "-duplicates": "duplicates", "-ttl": "expires", "-replicated": "replicated"}
NUMBERS = {
    "-records": "records",
    "-key": "key_bytes",
    "-data": "data_bytes",
    "-keyprefix": "prefix_bytes",
    "-nodemax": "node_max",
    "-je.tree.maxEmbeddedLN": "embedded_max",
    "-je.tree.compactMaxKeyLength": "compact_key_max",
    "-je.log.fileMax": "file_max",
}
# Parameters of JE on which no figure depends.
WITHOUT_EFFECT = ("-je.maxMemory",)


def cases_of(name: str) -> list[str]:
    lines = Path(__file__).with_name(name).read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


CASES = cases_of("je_cache_sizes.txt")


def load_of(words: list[str]) -> CacheLoad:
    found: dict[str, Any] = {"large_heap": words[0] == "large"}
    rest = iter(words[1:])
    for word in rest:
        if word in FLAGS:
            found[FLAGS[word]] = True
        else:
            value = int(next(rest))
            if word not in WITHOUT_EFFECT:
                found[NUMBERS[word]] = value
    return CacheLoad(**found)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("heap", ["small", "large"])
def test_figures_are_those_of_je(heap: str, release: str) -> None:
    tried = 0
    for case in CASES:
        options, *figures = case.split(" | ")
        if not options.startswith(heap):
            continue
        load = load_of(options.split())._replace(release=release)
        internal, every, *rest = map(int, figures[RELEASES.index(release)].split())
        found = je_cache_size(load)
        assert (found.internal_bytes, *found.nodes[:3], found.bins, found.upper_nodes, found.levels) == (
            internal,
            *rest,
        ), case
        # Without -data JE prints no size with records.
        assert found.all_bytes == (None if load.data_bytes is None else every), case
        tried += 1
    assert tried > 70


def test_off_heap_figures_are_those_of_je() -> None:
    cases = cases_of("je_off_heap_sizes.txt")
    for case in cases:
        options, main, other = case.split(" | ")
        words = options.replace(" -offheap", "").split()
        main_cache = None
        if "-maincache" in words:
            at = words.index("-maincache")
            main_cache = int(words[at + 1])
            del words[at : at + 2]
        load = load_of(words)
        internal, every, *_ = map(int, main.split())
        least, off_internal, off_every, *_, environment = map(int, other.split())
        found = je_off_heap_size(load, main_cache)
        assert load.environment_bytes == environment, case
        assert (found.main_internal_bytes, found.main_least_bytes, found.off_heap_internal_bytes) == (
            internal,
            least,
            off_internal,
        ), case
        figures = (found.main_all_bytes, found.off_heap_all_bytes)
        assert figures == ((None, None) if load.data_bytes is None else (every, off_every)), case
        # Only a tree whose upper nodes do not fit is reckoned smaller.
        assert found.records == load.records or main_cache is not None
    assert len(cases) > 150


def test_ordered_keys_take_less_in_small_files() -> None:
    """As DbCacheSize, run by itself, prints it for a million records of 16 and 100 bytes."""
    load = CacheLoad(1_000_000, 16, 100, ordered=True)
    assert je_cache_size(load).internal_bytes == 25_917_800
    assert je_cache_size(load._replace(file_max=16_777_214)).internal_bytes == 25_917_800
    assert je_cache_size(load._replace(file_max=16_777_215)).internal_bytes == 29_949_800


def test_the_example_of_jes_documentation() -> None:
    """554,719 records of 16 and 100 bytes; the figures of the javadoc are of an older release, by 0.2 and 0.05 %."""
    found = je_cache_size(CacheLoad(554_719, 16, 100))
    assert (found.internal_bytes, found.all_bytes) == (23_983_600, 107_256_480)
    assert found.internal_bytes == pytest.approx(23_933_736, rel=0.003)
    assert found.all_bytes == pytest.approx(107_206_616, rel=0.001)


@pytest.mark.parametrize(
    ("load", "figures"),
    [
        (CacheLoad(1_000_000, 16, 200, release=JE_25), (3_160_640, 43_342_440, None, 305_455_848)),
        (
            CacheLoad(1_000_000, 16, 200, release=JE_25, replicated=True),
            (3_166_872, 44_780_648, 52_421_128, 306_894_056),
        ),
        (
            CacheLoad(1_000_000, 16, 200, release=JE_25, replicated=True, large_heap=True),
            (3_175_064, 46_759_736, 54_579_992, 330_805_816),
        ),
    ],
)
def test_what_dbcachesize_of_25_3_prints(load: CacheLoad, figures: tuple[int, int, int | None, int]) -> None:
    """Environment, internal nodes, these and record versions, all nodes."""
    found = je_cache_size(load)
    assert (load.environment_bytes, found.internal_bytes, found.version_bytes, found.all_bytes) == figures


@pytest.mark.parametrize(
    ("key", "replicated", "width"),
    [(223, False, 1), (224, False, 2), (222, True, 1), (223, True, 2), (65_502, False, 2), (65_503, False, 3)],
)
def test_the_logged_size_of_a_child_in_25_3(key: int, replicated: bool, width: int) -> None:
    """Where JE 25.3.17 began to take another byte for each place of an upper node."""
    load = CacheLoad(1000, key, node_max=8, replicated=replicated, release=JE_25)
    later, now = je_cache_size(load).nodes.upper, je_cache_size(load._replace(release="18.3")).nodes.upper
    assert later - now == 8 + 24 + 16 + 8 * width
