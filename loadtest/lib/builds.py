"""The builds of the service that the benchmark runs: this tree, and another commit."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from lib import common
from lib.common import Failure

CCACHE_ENV = {"CCACHE_NOHASHDIR": "1"}  # with the base directory: the same object for any scratch folder


@dataclass(frozen=True)
class Build:
    name: str  # old or new
    title: str  # its source
    folder: Path

    def binary(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            raise Failure(f"there is no {path}: run ./dev build")
        return path


def git(*words: object) -> str:
    return common.run(["git", "-C", str(common.ROOT), *map(str, words)]).strip()


def find_commit(word: str) -> str:
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}")
    except Failure:
        raise Failure(f"there is no commit {word}") from None


def title_of(commit: str) -> str:
    return git("log", "-1", "--format=%h %s", commit)


def this_tree() -> Build:
    changed = git("status", "--porcelain", "--untracked-files=no")
    return Build("new", title_of("HEAD") + (" (with changes)" if changed else ""), common.ROOT / "build")


@contextmanager
def other_commit(commit: str, folder: Path) -> Iterator[Build]:
    """Builds a commit in its own worktree, which is removed when the benchmark ends."""
    found, tree, build = find_commit(commit), folder / "tree", folder / "build"
    try:
        git("worktree", "add", "--detach", tree, found)
        make(tree, build)
        yield Build("old", title_of(found), build)
    finally:
        remove_worktree(tree)


def remove_worktree(tree: Path) -> None:
    """Also removes a worktree whose creation was interrupted."""
    try:
        git("worktree", "remove", "--force", "--force", tree)
    except Failure:
        shutil.rmtree(tree, ignore_errors=True)
        git("worktree", "prune")


def make(tree: Path, build: Path) -> None:
    """Builds only the service: an old commit's tests and tools are not needed."""
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DSK_TESTS=OFF"]
    env = CCACHE_ENV | {"CCACHE_BASEDIR": str(tree.parent)}
    if shutil.which("ccache"):
        options.append("-DCMAKE_C_COMPILER_LAUNCHER=ccache")
    common.run(["cmake", "-S", str(tree), "-B", str(build), *options], env=env)
    common.run(["cmake", "--build", str(build), "--target", "seckill", "--parallel", str(os.cpu_count())], env=env)
