"""Whether each broken guard still fits: the text that it replaces stands in its file exactly once."""

import sys

from controls import CONTROLS
from stack import ROOT

misfits = [c for c in CONTROLS if any((ROOT / c.file).read_text().count(old) != 1 for old, _ in c.changes)]
for control in misfits:
    print(f"{control.name}: {control.file} does not hold its text once", file=sys.stderr)
sys.exit(bool(misfits))
