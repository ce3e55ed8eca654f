"""The native build of the inner engine: twice to five times as fast, all or nothing, never in the way.

``pip install .`` compiles the modules of ``NATIVE`` by mypyc when a C compiler is at hand. The pure code is always
complete and always installed too. It is what runs

* without a compiler, or when compiling fails for whatever reason: the installation succeeds all the same,
* with ``JETOOL_PURE=1`` in the environment,
* in editable installs and from a checkout, and so in the test-suite.

So these modules keep to what mypyc compiles, and to what means the same compiled: no attribute that a class does not
declare, no function replaced from outside, no class of theirs extended elsewhere, arguments of the types that they are
annotated with, causes of errors by ``engine.errors.caused_by``. CI runs their tests on both builds.

One extension is written in C (``engine/native``): the walks over headers, in which every pass over a log spends its
time; the search for expiring records; maps of files, which have to survive SIGBUS; and the inner loops of look-ups and
scans: the slots of a BIN, the search among keys, the data of a record, the threads that read data ahead; the merge of
redo's runs; the lines of ``dump-log``, the rows of ``txns`` and the blocks of ``load``. Nothing needs it to be there.

All or nothing, since mypyc makes one shared object for all modules and a shim for each, and a shim without the shared
object cannot be imported. ``jetool --version`` says which build runs.

mypyc writes a C file for each module, and all cores compile side by side: a minute on two cores, where one file for all
modules took seven. The files of ``engine/native`` are compiled while mypyc, which uses one core, is still at work. A
shim holds an init function, which Python finds by the module's last name, so the shims of modules with different last
names are compiled as one file (``engine/native/shims.h``), and each module gets a copy. Standard error says what goes
on (``pip install -v`` shows it).
"""

from __future__ import annotations

import collections
import contextlib
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

# The inner engine: what runs for every record and every entry. Leaf codecs, trees, locks, transactions, the writer; not
# the classes that applications use or extend (``engine.db``), which stay Python's own.
NATIVE = (
    "engine/cleaner/file_report.py",
    "engine/cleaner/file_summary.py",
    "engine/cleaner/migration.py",
    "engine/cleaner/file_processor.py",
    "engine/cleaner/migration_candidates.py",
    "engine/cleaner/tracker.py",
    "engine/db/record_keys.py",
    "engine/db/scan.py",
    "engine/derby/cache.py",
    "engine/derby/format/btree.py",
    "engine/derby/format/codec.py",
    "engine/derby/format/describe.py",
    "engine/derby/format/instant.py",
    "engine/derby/format/log_file.py",
    "engine/derby/format/operations/container.py",
    "engine/derby/format/operations/layout.py",
    "engine/derby/format/operations/page.py",
    "engine/derby/format/operations/registry.py",
    "engine/derby/format/operations/transaction.py",
    "engine/derby/format/page.py",
    "engine/derby/format/record.py",
    "engine/derby/format/row.py",
    "engine/derby/log.py",
    "engine/derby/log_walk.py",
    "engine/derby/log_writer.py",
    "engine/derby/loggable.py",
    "engine/derby/page_actions.py",
    "engine/derby/pages.py",
    "engine/derby/presence.py",
    "engine/derby/recovery/compensate.py",
    "engine/derby/recovery/moved_rows.py",
    "engine/derby/recovery/redo.py",
    "engine/derby/recovery/undo.py",
    "engine/derby/xact_table.py",
    "engine/evictor/eviction_policy.py",
    "engine/evictor/evictor.py",
    "engine/format/bytecursor.py",
    "engine/format/entry/ln.py",
    "engine/format/entry/node.py",
    "engine/format/entry/txn_end.py",
    "engine/format/fast/bin.py",
    "engine/format/fast/fate_table.py",
    "engine/format/fast/filters.py",
    "engine/format/fast/header.py",
    "engine/format/fast/ln.py",
    "engine/format/fast/packed_ints.py",
    "engine/format/fast/txn_end.py",
    "engine/format/fast/txns.py",
    "engine/format/header.py",
    "engine/format/lsn.py",
    "engine/log/access.py",
    "engine/log/entry.py",
    "engine/log/latch.py",
    "engine/log/passes.py",
    "engine/log/writer.py",
    "engine/recovery/node_replay.py",
    "engine/recovery/redo_batch.py",
    "engine/recovery/redo_pass.py",
    "engine/recovery/undo_pass.py",
    "engine/recovery/manager.py",
    "engine/recovery/result.py",
    "engine/recovery/analysis.py",
    "engine/rescue/salvage/record_choice.py",
    "engine/rescue/salvage/sorted_versions.py",
    "engine/rescue/salvage/version_reader.py",
    "engine/rescue/salvage/verdict.py",
    "engine/rescue/salvage/versions.py",
    "engine/storage/bytes_ahead.py",
    "engine/tree/apply.py",
    "engine/tree/bin_node.py",
    "engine/tree/context.py",
    "engine/tree/database_state.py",
    "engine/tree/node_codec.py",
    "engine/tree/in_node.py",
    "engine/tree/keys.py",
    "engine/tree/node_log.py",
    "engine/tree/nodes_ahead.py",
    "engine/tree/spill.py",
    "engine/tree/split.py",
    "engine/tree/tree.py",
    "engine/tree/values_ahead.py",
    "engine/txn/bulk_append.py",
    "engine/txn/ln_body.py",
    "engine/txn/lock_entry.py",
    "engine/txn/locks.py",
    "engine/txn/manager.py",
    "engine/txn/payload.py",
    "engine/txn/records.py",
    "engine/txn/txn.py",
    "engine/verify/missing_file_refs.py",
    "engine/verify/obsolete.py",
    "engine/verify/records.py",
    "engine/verify/space.py",
    "engine/verify/tree.py",
)
MODULES = frozenset(name.removesuffix(".py").replace("/", ".") for name in NATIVE)
# What Python cannot do, or not as fast.
WRITTEN_IN_C = "engine/native"
# The release that CI checks the sources with.
COMPILER = "mypy[mypyc]==2.4.1"
# CPU seconds that the C takes to compile, measured on the machine of CI.
_SECONDS = 80
_FALSE = ("", "0", "no", "false")


def is_wanted() -> bool:
    """Whether to try: a C compiler is there, and nobody asked for the pure build."""
    if os.environ.get("JETOOL_PURE", "").lower() not in _FALSE:
        return False
    command = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    return bool(command) and shutil.which(command[0]) is not None


def modules(directory: str) -> list[Extension]:
    """The modules as C in a directory; none when mypyc is missing or refuses them."""
    try:
        from mypyc.build import mypycify

        with ThreadPoolExecutor(1) as beside:
            written = beside.submit(_compile_written, directory)
            # With -O2 the compiler takes half as long again, and no command line is measurably faster.
            compiled = mypycify(list(NATIVE), opt_level="1", debug_level="0", multi_file=True, target_dir=directory)
            return [*_merged(compiled, directory), Extension("engine.native.core", [], extra_objects=written.result())]
    except (Exception, SystemExit) as error:
        _say_why_pure(error)
        return []


class _CompileOnly(build_ext):
    """Compiles the sources of the only extension, as a build would, and links nothing."""

    objects: list[str]

    def build_extensions(self) -> None:
        (extension,) = self.extensions
        self.objects = _compile_all(self.compiler, extension.sources, self.build_temp)


def _compile_written(directory: str) -> list[str]:
    """The object files of ``engine/native``."""
    sources = sorted(str(path) for path in Path(WRITTEN_IN_C).glob("*.c"))
    command = _CompileOnly(Distribution({"ext_modules": [Extension("engine.native.core", sources)]}))
    command.build_temp = directory
    command.ensure_finalized()
    command.run()
    return command.objects


def _merged(compiled: list[Extension], directory: str) -> list[Extension]:
    """mypyc's library, and one extension for the shims of all modules that have different last names."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        # There mypyc's shims are of another form, which begins modules in two phases.
        return compiled
    (library,) = (extension for extension in compiled if extension.name not in MODULES)
    sets: dict[int, list[str]] = collections.defaultdict(list)
    seen: collections.Counter[str] = collections.Counter()
    for name in (extension.name for extension in compiled if extension.name in MODULES):
        last = name.rpartition(".")[2]
        sets[seen[last]].append(name)
        seen[last] += 1
    merged = [library]
    for number, names in sets.items():
        lines = ['#include "shims.h"']
        for name in names:
            # The attribute of mypyc's library has three underscores for a dot.
            lines.append(f'SHIM({name.rpartition(".")[2]}, "{library.name}", "{name.replace(".", "___")}")')
        source = Path(directory, f"shims_{number}.c")
        source.write_text("\n".join(lines) + "\n")
        shim = Extension(names[0], [str(source)], include_dirs=[WRITTEN_IN_C], extra_compile_args=["-O1", "-g0"])
        shim.copied_to = names[1:]
        merged.append(shim)
    return merged


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BuildNative(build_ext):
    """Compiles on all cores, and goes back to the pure build when that fails."""

    def run(self) -> None:
        """Build all extensions or none."""
        # setuptools builds that number of extensions at a time; ``_compile`` limits the compilers among them.
        self.parallel = cores()
        sources = sum(len(extension.sources) for extension in self.extensions)
        _say(
            f"compiling {sources} C files on {plural(cores(), 'core')}, about {_SECONDS // cores() + 10} seconds; "
            "JETOOL_PURE=1 installs without"
        )
        try:
            super().run()
        except (Exception, SystemExit) as error:
            _say_why_pure(error)
            for extension in self.extensions:
                for name in (extension.name, *_copies(extension)):
                    with contextlib.suppress(OSError):
                        Path(self.get_ext_fullpath(name)).unlink()
            self.extensions = []
            self.distribution.ext_modules = []
            with contextlib.suppress(Exception):
                self.get_finalized_command("bdist_wheel").root_is_pure = True  # type: ignore[attr-defined]

    def build_extensions(self) -> None:
        """Build all, the sources of each side by side."""
        compiler: Any = self.compiler
        compile_one, slots = compiler._compile, threading.Semaphore(cores())

        def limited(*arguments: Any) -> None:
            with slots:
                compile_one(*arguments)

        compiler._compile = limited
        compiler.compile = partial(_compile_all, compiler)
        # The largest first, so that no core waits for it at the end.
        self.extensions.sort(key=lambda extension: -sum(Path(name).stat().st_size for name in extension.sources))
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Build one, and copy it to the other modules that it serves."""
        super().build_extension(ext)
        for name in _copies(ext):
            target = Path(self.get_ext_fullpath(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.get_ext_fullpath(ext.name), target)


def _copies(extension: Extension) -> list[str]:
    return getattr(extension, "copied_to", [])


def _compile_all(
    compiler: Any,
    sources: list[str],
    output_dir: str | None = None,
    macros: Any = None,
    include_dirs: Any = None,
    debug: bool = False,
    extra_preargs: Any = None,
    extra_postargs: Any = None,
    depends: Any = None,
) -> list[str]:
    """``CCompiler.compile`` with a thread for each source; the largest begins first."""
    macros, objects, extra_postargs, options, build = compiler._setup_compile(
        output_dir, macros, include_dirs, sources, depends, extra_postargs
    )
    arguments = compiler._get_cc_args(options, debug, extra_preargs)
    with ThreadPoolExecutor(cores()) as pool:
        ordered = sorted(build.items(), key=lambda item: -Path(item[1][0]).stat().st_size)
        running = [
            pool.submit(compiler._compile, target, *source, arguments, extra_postargs, options)
            for target, source in ordered
        ]
        for one in running:
            one.result()
    return list(objects)


def _say(message: str) -> None:
    sys.stderr.write(f"jetool: {message}\n")
    sys.stderr.flush()


def _say_why_pure(reason: BaseException | str) -> None:
    text = reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}"
    _say(f"no native build ({text}); the pure one is installed")


def plural(count: int, word: str) -> str:
    """A number and its noun."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def main() -> None:
    """Describe the build to setuptools; ``pyproject.toml`` says the rest."""
    wanted = is_wanted()
    more: dict[str, Any] = {"setup_requires": [COMPILER] if wanted else []}
    with tempfile.TemporaryDirectory(prefix="jetool-build-") as directory:
        if "bdist_wheel" in sys.argv:
            # Objects of an earlier build in the checkout must not end up in this wheel.
            more["options"] = {"build": {"build_base": directory}}
            if not wanted:
                _say_why_pure("no C compiler is there, or JETOOL_PURE is set")
            else:
                more |= {"ext_modules": modules(directory), "cmdclass": {"build_ext": BuildNative}}
        setup(**more)


main()
