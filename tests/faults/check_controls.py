"""Whether each broken guard still applies: the text that it replaces is in its file exactly once, no later migration
redefines what the patched one defines, and what it becomes still compiles.

    check_controls.py BUILD     a configured build folder, for the flags
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

from controls import CONTROLS, Control
from stack import ROOT

FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION (\w+)", re.MULTILINE)


def misfit(file: str, text: str) -> str:
    whole = (ROOT / file).read_text()
    if whole.count(text) != 1:
        return "does not hold its text once"
    before = FUNCTION.findall(whole[: whole.index(text)])
    later = [one for one in (ROOT / file).parent.glob("*.sql") if one.name > (ROOT / file).name]
    for one in later if before and file.startswith("sql/migrations/") else []:
        if before[-1] in FUNCTION.findall(one.read_text()):
            return f"is not the last to define {before[-1]}(): {one.name} is"
    return ""


def compiled(control: Control, flags: dict[str, list[str]], folder: Path) -> str:
    """What the compiler says of its files of C; a header is compiled with the source beside it."""
    sources = set()
    for name, old, new in control.changes:
        if name.startswith("src/"):
            (folder / Path(name).name).write_text((ROOT / name).read_text().replace(old, new))
            sources.add(str(Path(name).with_suffix(".c")))
    for source in sources:
        file = folder / Path(source).name
        if not file.exists():
            file.write_text((ROOT / source).read_text())
        done = subprocess.run([*flags[source], f"-I{folder}", f"-I{(ROOT / source).parent}", "-fsyntax-only", file],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr[:800]
    return ""


def main() -> int:
    mended = SourceFileLoader("sim_controls", str(ROOT / "tests/sim/controls")).load_module().MENDED
    flags = {}
    for one in json.loads((Path(sys.argv[1]) / "compile_commands.json").read_text()):
        words = shlex.split(one["command"])
        outputs = next(i for i, word in enumerate(words) if word in ("-MD", "-o"))
        flags[str(Path(one["file"]).relative_to(ROOT))] = words[:outputs]
    wrong = 0
    for control in CONTROLS + mended:
        misfits = [f"{file} {why}" for file, old, _ in control.changes if (why := misfit(file, old))]
        with tempfile.TemporaryDirectory() as folder:
            said = "; ".join(misfits) or compiled(control, flags, Path(folder))
        if said:
            print(f"{control.name}: {said}", file=sys.stderr)
        wrong += said != ""
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
