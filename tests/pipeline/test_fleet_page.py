"""The HTML page in a real browser: it shows what it should, without anything from elsewhere."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.errors import NotFoundError
from engine.format.lsn import format_lsn
from engine.pipeline.fleet.profile import MARKED, PROBLEMS, Profile, unreadable
from engine.pipeline.inventory import Member
from engine.verify.log_rules import COMMITTED_BEHIND, MARKER
from jetool.fleet_page.page import page
from jetool.fleet_page.svg import Scale, byte_ticks, bytes_text, number_ticks, time_label, time_ticks
from tests.pipeline.test_fleet_profile import profile_of
from tests.support.harness import run
from tests.support.tools import BROWSERS, needs
from tests.support.waiting import PATIENCE_S

# Run in the page; what it finds comes back in the document.
PROBE = """
<script>
addEventListener('load', function () {
  var d = document, out = {};
  function all(s) { return [].slice.call(d.querySelectorAll(s)); }
  out.wide = all('body *').filter(function (x) {
    return !x.closest('.scroll,svg') && x.getBoundingClientRect().right > innerWidth + 1 }).map(function (x) {
    return x.tagName + '.' + x.className });
  out.cut = all('.map text,.narrow-map text').filter(function (x) {
    var b = x.getBoundingClientRect(), s = x.closest('svg').getBoundingClientRect();
    return b.width && (b.right > s.right + 3 || b.left < s.left - 3) }).map(function (x) { return x.textContent });
  out.tiny = all('.map text,.narrow-map text').filter(function (x) {
    var h = x.getBoundingClientRect().height; return h && h < 10 }).map(function (x) { return x.textContent });
  out.drawn = all('.map,.narrow-map').filter(function (x) { return x.getBoundingClientRect().width }).length;
  out.maps = all('svg.map').length;
  out.rows = all('#overview tbody tr').length;
  out.shown = d.getElementById('shown').textContent;
  out.sections = all('details').length;
  out.unlabelled = all('svg:not([aria-label]):not([aria-hidden])').length;
  out.files = all('svg.map').map(function (x) { return x.querySelectorAll('g > rect.file, g > rect.unknown').length });
  out.rollbacks = all('svg.map rect.rollback').length;
  out.open_rollbacks = all('svg.map rect.rollback.open').length;
  out.checkpoints = all('svg.map .ckpt').length;
  out.damage = all('svg.map path.hit-head').length;
  function lum(c) { return c.map(function (v) { v /= 255;
    return v <= .03928 ? v / 12.92 : Math.pow((v + .055) / 1.055, 2.4) }).reduce(function (s, v, i) {
    return s + v * [.2126, .7152, .0722][i] }, 0) }
  function rgb(t) { var m = t.match(/[\\d.]+/g).map(Number); return m.length > 3 && !m[3] ? null : m.slice(0, 3) }
  function back(x) { for (; x; x = x.parentElement) {
    var c = rgb(getComputedStyle(x).backgroundColor); if (c) return c }
    return [255, 255, 255] }
  out.faint = all('h1,h2,h3,p,td,th,dt,dd,.state,summary,li,footer').filter(function (x) {
    if (!x.textContent.trim()) return false;
    var a = lum(rgb(getComputedStyle(x).color)), b = lum(back(x));
    return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5 }).map(function (x) {
    return x.tagName + '.' + x.className + ':' + x.textContent.slice(0, 20) });
  var q = d.getElementById('find'); q.value = 'corrupt'; q.dispatchEvent(new Event('input'));
  out.filtered = d.getElementById('shown').textContent;
  out.hidden = all('details').filter(function (x) { return x.hidden }).length;
  q.value = ''; q.dispatchEvent(new Event('input'));
  var p = d.getElementById('problems'); p.click(); out.problems = d.getElementById('shown').textContent; p.click();
  var log = all('#overview thead button')[2]; log.click();
  out.sorted = all('#overview tbody tr').map(function (r) { return +r.cells[2].dataset.v });
  location.hash = '#e' + (out.sections - 1);
  setTimeout(function () {
    out.opened = d.getElementById('e' + (out.sections - 1)).open;
    var e = d.createElement('pre'); e.id = 'probe'; e.textContent = JSON.stringify(out); d.body.appendChild(e) }, 50);
});
</script>
"""
CASES = (
    "rollback-four-periods", "corrupt-middle", "torn-zero-tail", "multi-ckpt", "cleaned", "vlsn-range", "missing-file",
    "restore-required",
)  # fmt: skip


def browser() -> str:
    needs("browser")
    return next(path for path in map(shutil.which, BROWSERS) if path)


@pytest.fixture(scope="module")
def profiles(corpus: Path) -> list[Profile]:
    root = corpus / "je/je-18.3.20"
    found = [profile_of(env) for env in sorted((root / "ha-rollback-thrice").glob("node?/env"))]
    found += [profile_of(root / name / "env") for name in CASES]
    return [*found, unreadable(Member("/gone/env", "/gone/env"), str(NotFoundError("no such directory")))]


def probed(tmp_path: Path, text: str, *, dark: bool, width: int = 1280) -> dict[str, Any]:
    """What the probe finds in the page."""
    if dark:
        text = text.replace("@media(prefers-color-scheme:dark)", "@media all")
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", PROBE + "</body>"))
    words = [
        browser(), "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", f"--window-size={width},1000",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
        path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=4 * PATIENCE_S)
    match = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert match, done.stderr[-2000:]
    return dict(json.loads(html.unescape(match[1])))


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 1280), (False, 420)])
def test_the_page_in_a_browser(tmp_path: Path, profiles: list[Profile], dark: bool, width: int) -> None:
    found = probed(tmp_path, page(profiles, 1_795_000_000_000, "0"), dark=dark, width=width)
    count = len(profiles)
    assert found["wide"] == []
    assert found["faint"] == []
    assert found["unlabelled"] == 0
    assert (found["rows"], found["sections"], found["maps"]) == (count, count, count - 1)
    assert found["files"] == [len(profile.files) for profile in profiles if profile.files]
    assert found["rollbacks"] == sum(len(profile.periods) for profile in profiles)
    assert found["open_rollbacks"] == sum(profile.open_periods for profile in profiles)
    assert found["checkpoints"] == sum(len(profile.checkpoints) for profile in profiles)
    assert found["damage"] == 1
    assert found["cut"] == []
    # One of the two drawings of a map is shown, with letters that can be read.
    assert found["tiny"] == []
    assert found["drawn"] == count - 1
    # The script: filter, problems, sorting, links into sections.
    assert found["shown"] == f"{count} of {count} shown"
    assert found["filtered"] == f"1 of {count} shown"
    assert found["hidden"] == count - 1
    problems = sum(profile.state in PROBLEMS for profile in profiles)
    assert found["problems"] == f"{problems} of {count} shown"
    assert found["sorted"] == sorted(profile.log_bytes for profile in profiles)
    assert found["opened"] is True


def test_damage_has_its_code_its_consequence_and_what_to_run(corpus: Path) -> None:
    root = corpus / "je/je-18.3.20"
    damaged, missing, marked, whole = (
        profile_of(root / name / "env") for name in ("corrupt-middle", "missing-file", "restore-required", "multi-ckpt")
    )
    assert damaged.commits_after_damage == 3
    text = page([damaged], 0, "0")
    for part in (
        "<b>JE-TAIL-002</b>", "in 00000005.jdb at 0x5/0x80e", "; 3 commits after it", "place, 3 commits after it",
        html.escape(COMMITTED_BEHIND.consequence), "set je.haltOnCommitAfterChecksumException=true",
        f"<code>jetool doctor {damaged.member.env}</code>",
        f"<code>jetool recover {damaged.member.env} -n --accept-loss</code>",
    ):  # fmt: skip
        assert part in text
    assert "<b>JE-LOG-010</b>" in page([missing], 0, "0")
    assert "accept-loss" not in page([missing], 0, "0")
    text = page([marked], 0, "0")
    assert marked.state == MARKED
    assert ">damaged<" not in text
    assert "Restore marker" in text
    assert html.escape(MARKER.remedy) in text
    assert "<h3>Next</h3>" not in page([whole], 0, "0")


@pytest.mark.parametrize("name", ["corrupt-middle", "corrupt-older-file", "corrupt-before-range", "torn-zero-tail"])
def test_codes_are_those_of_verify(corpus: Path, name: str) -> None:
    env = corpus / "je/je-18.3.20" / name / "env"
    found = run("verify", env, "--log", "--tail", "--json").json()["findings"]
    known = {(one["code"], one["lsn"]) for one in found if one["severity"] == "error"}
    shown = {(place.rule.code, format_lsn(place.lsn)) for place in profile_of(env).damages}
    assert shown <= known
    assert bool(shown) == bool(known)


def test_ticks_of_less_than_a_second_differ() -> None:
    for span in (4, 30, 60, 240, 400, 999, 3_000, 9_000):
        ticks = time_ticks(1.7e12 + 7, 1.7e12 + 7 + span)
        labels = list(map(time_label(span), ticks))
        assert len(set(labels)) == len(labels) > 1, (span, labels)
    assert time_label(240)(1.7e12 + 50) == "22:13:20.05"
    assert time_label(3_000)(1.7e12 + 1000) == "22:13:21"


def test_nothing_comes_from_elsewhere(profiles: list[Profile]) -> None:
    text = page(profiles, 0, "0")
    assert not re.findall(r"https?://|\bsrc=|@import|url\(|<link|<iframe|<img", text)
    assert text.startswith("<!DOCTYPE html>")


def test_names_from_disk_are_text(profiles: list[Profile]) -> None:
    evil = "<script>alert(1)</script>\"'&"
    marked = profiles[0]._replace(member=Member(evil, evil), group=evil)
    text = page([marked, profiles[1]], 0, "0")
    assert "<script>alert" not in text
    assert html.escape(evil) in text


def test_a_page_stays_small(profiles: list[Profile]) -> None:
    """Two hundred environments, one of ten thousand files."""
    big = profiles[-3]
    files = tuple(
        found._replace(facts=found.facts._replace(number=number))
        for number, found in enumerate([big.files[0]] * 10_000)
    )
    many = [*profiles[:1] * 199, big._replace(files=files, log_bytes=10_000 * files[0].facts.size_bytes)]
    assert len(page(many, 0, "0")) < 12_000_000


@pytest.mark.parametrize(
    ("make", "low", "high"),
    [(number_ticks, 0.0, 7.0), (number_ticks, 130, 393), (time_ticks, 1.7e12, 1.7e12 + 9e9), (time_ticks, 5, 6)],
)
def test_ticks_are_within_and_few(make: Callable[[float, float], list[float]], low: float, high: float) -> None:
    ticks = make(low, high)
    assert ticks == sorted(ticks)
    assert 1 <= len(ticks) <= 11
    assert all(low <= tick <= high for tick in ticks)


def test_numbers_as_people_read_them() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1536, 8192, 41 << 20, 3 << 40)] == [
        "0 B", "1023 B", "1.5 KiB", "8 KiB", "41 MiB", "3 TiB",
    ]  # fmt: skip
    assert byte_ticks(40_000, 4) == [0, 16384, 32768]
    assert Scale(0, 0, 5, 9).at(7) == 5
    assert Scale(0, 10, 0, 100).at(2.5) == 25


def test_hostile_names_do_not_steer_the_page(tmp_path: Path, corpus: Path) -> None:
    hostile = "a\udcff\x1b[31m\x00\u202eb\u2066\x85<script>\u2028&"
    found = profile_of(corpus / "je/je-18.3.20/vlsn-range/env")
    member = Member(f"/data/{hostile}/env", hostile, hostile)
    text = page([found._replace(member=member, group=hostile, problem=hostile)], 0, "0")
    assert text.encode().decode() == text
    assert not [one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one != "\n"]
    assert "\\udcff\\u001b[31m\\u0000\\u202eb\\u2066\\u0085&lt;script&gt;\\u2028&amp;" in text
