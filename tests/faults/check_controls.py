"""Whether each broken guard still applies: the text that it replaces is in its file exactly once, and no later
migration redefines what the patched one defines."""

import re
import sys

from controls import CONTROLS
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


misfits = [(c.name, file, why) for c in CONTROLS for file, old, _ in c.changes if (why := misfit(file, old))]
for name, file, why in misfits:
    print(f"{name}: {file} {why}", file=sys.stderr)
sys.exit(bool(misfits))
