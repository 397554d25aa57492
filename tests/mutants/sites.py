"""Where a token can be changed: in C by the syntax tree of libclang, in Lua and SQL by their words."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from clang.cindex import Cursor, CursorKind, Index, TranslationUnit, TypeKind

FLOORS = ("sale", "recovery", "store", "identity", "wire", "api")
OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "&": "|", "|": "&", "+=": "-=", "-=": "+=",
}  # fmt: skip
NUMBERS_ONLY = {"+", "-", "&", "|", "+=", "-="}
CONSTANT = (CursorKind.CASE_STMT, CursorKind.ENUM_DECL, CursorKind.CXX_UNARY_EXPR)


@dataclass(frozen=True)
class Site:
    """A place in a file, by bytes: what stands there, and what is to stand there."""

    path: str
    start: int
    end: int
    old: str
    new: str  # in C an expression, else the text itself
    what: str  # "< is <="
    line: int
    within: str  # the line's text

    @property
    def floor(self) -> str:
        parts = self.path.split("/")
        return parts[1] if parts[0] == "src" else parts[0]

    @property
    def name(self) -> str:
        old = " ".join(self.old.split())[:60]
        return f"{self.path}: {old}: {self.what}: {self.within}"


# ---- C ----


class Source:
    def __init__(self, root: Path, path: str, words: list[str]):
        self.path, self.text = path, (root / path).read_bytes()
        self.file = str(root / path)
        options = TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
        self.unit = Index.create().parse(self.file, args=words, options=options)
        self.macros = [
            self.extent(one) for one in self.unit.cursor.get_children() if one.kind == CursorKind.MACRO_INSTANTIATION and self.is_here(one)
        ]
        self.sites: list[Site] = []

    def is_here(self, cursor: Cursor) -> bool:
        return cursor.location.file is not None and cursor.location.file.name == self.file

    @staticmethod
    def extent(cursor: Cursor) -> tuple[int, int]:
        return cursor.extent.start.offset, cursor.extent.end.offset

    def at(self, start: int, end: int) -> str:
        return self.text[start:end].decode()

    def add(self, cursor: Cursor, new: str, what: str) -> None:
        start, end = self.extent(cursor)
        if any(first < end and start < last and not (start <= first and last <= end) for first, last in self.macros):
            return  # a part of a macro's use
        self.sites.append(Site(self.path, start, end, self.at(start, end), new, what, cursor.extent.start.line, self.line_of(start)))

    def line_of(self, at: int) -> str:
        first, end = self.text.rfind(b"\n", 0, at) + 1, self.text.index(b"\n", at)
        return self.text[first:end].decode().strip()

    def find(self) -> list[Site]:
        for cursor in self.unit.cursor.get_children():
            if cursor.kind == CursorKind.FUNCTION_DECL and cursor.is_definition() and self.is_here(cursor):
                for part in cursor.get_children():
                    self.visit(part, None)
        return self.sites

    def visit(self, cursor: Cursor, parent: Cursor | None) -> None:
        if not self.is_here(cursor) or cursor.kind in CONSTANT:
            for part in list(cursor.get_children())[1:] if cursor.kind == CursorKind.CASE_STMT else ():
                self.visit(part, cursor)
            return
        if cursor.kind == CursorKind.VAR_DECL and (
            cursor.storage_class.name == "STATIC" or cursor.type.kind == TypeKind.CONSTANTARRAY
        ):
            return
        self.mutate(cursor, parent)
        for part in cursor.get_children():
            self.visit(part, cursor)

    def mutate(self, cursor: Cursor, parent: Cursor | None) -> None:
        start, end = self.extent(cursor)
        text, parts = self.at(start, end), list(cursor.get_children())
        if any(first <= start and end <= last for first, last in self.macros):
            self.mutate_macro(cursor, text)
            return
        if cursor.kind in (CursorKind.BINARY_OPERATOR, CursorKind.COMPOUND_ASSIGNMENT_OPERATOR) and len(parts) == 2:
            self.mutate_operator(cursor, *parts)
        if cursor.kind == CursorKind.UNARY_OPERATOR and text.startswith("!"):
            self.add(cursor, text[1:], "! is gone")
        if cursor.kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT, CursorKind.CONDITIONAL_OPERATOR) and parts:
            first, last = self.extent(parts[0])
            self.add(parts[0], f"!({self.at(first, last)})", "the condition is turned")
        if cursor.kind == CursorKind.INTEGER_LITERAL and re.fullmatch(r"\d+[uUlL]*", text):
            self.add(cursor, f"{text} + 1", "one more")
        if self.is_statement(cursor, parent) and self.does(cursor):
            self.add(cursor, "", "is left out")

    def mutate_macro(self, cursor: Cursor, text: str) -> None:
        if text in ("true", "false"):
            self.add(cursor, "false" if text == "true" else "true", "is the other one")

    def mutate_operator(self, cursor: Cursor, left: Cursor, right: Cursor) -> None:
        (start, middle), (after, end) = self.extent(left), self.extent(right)
        operator = self.at(middle, after).strip()
        if operator not in OPERATORS or middle > after:
            return
        kinds = {left.type.get_canonical().kind, right.type.get_canonical().kind}
        if operator in NUMBERS_ONLY and kinds & {TypeKind.POINTER, TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY}:
            return
        new = OPERATORS[operator]
        self.add(cursor, f"{self.at(start, middle)} {new} {self.at(after, end)}", f"{operator} is {new}")

    @staticmethod
    def is_statement(cursor: Cursor, parent: Cursor | None) -> bool:
        if parent is None:
            return False
        if parent.kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT):
            return cursor != next(parent.get_children())
        return parent.kind == CursorKind.COMPOUND_STMT

    def does(self, cursor: Cursor) -> bool:
        """Whether it is a call, or an assignment."""
        if cursor.kind == CursorKind.CSTYLE_CAST_EXPR:
            return any(part.kind == CursorKind.CALL_EXPR for part in cursor.get_children())
        if cursor.kind == CursorKind.BINARY_OPERATOR:
            left, right = cursor.get_children()
            return self.at(self.extent(left)[1], self.extent(right)[0]).strip() == "="
        return cursor.kind == CursorKind.CALL_EXPR


@cache
def commands(build: Path) -> dict[str, str]:
    return {entry["file"]: entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())}


def c_sites(root: Path, build: Path, path: str) -> list[Site]:
    words = shlex.split(commands(build).get(str(root / path), ""))
    if not words:
        return []
    kept = [word for word in words if word.startswith(("-I", "-D", "-std"))]
    system = [f"-isystem{words[i + 1]}" for i, word in enumerate(words) if word == "-isystem"]
    return Source(root, path, kept + system + ["-I/usr/lib/llvm-14/lib/clang/14.0.6/include"]).find()


def choice(site: Site, number: int) -> str:
    """What stands in the file, so that the number decides."""
    if site.what == "is left out":
        return f"(sk_mutant_is({number}) ? (void)0 : (void)({site.old}))"
    return f"(sk_mutant_is({number}) ? ({site.new}) : ({site.old}))"


# ---- Lua and SQL ----

WORDS = {
    ".lua": {"==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "and": "or", "or": "and", "+": "-", "true": "false", "false": "true"},
    ".sql": {"=": "<>", "<>": "=", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "AND": "OR", "OR": "AND", "+": "-", "true": "false", "false": "true", "greatest": "least", "least": "greatest", "IS NULL": "IS NOT NULL", "IS NOT NULL": "IS NULL"},
}  # fmt: skip
TOKEN = {
    ".lua": re.compile(r"--[^\n]*|'[^'\n]*'|\b(?:and|or|true|false)\b|==|~=|<=|>=|\.\.|[<>+]|\b\d+\b"),
    ".sql": re.compile(
        r"--[^\n]*|'(?:[^']|'')*'|\bIS(?: NOT)? NULL\b|\b(?:AND|OR|true|false|greatest|least)\b|<>|<=|>=|=>|:=|\|\||->>?|[=<>+]|(?<![\w$.])\d+\b"
    ),
}


FUNCTION = re.compile(r"CREATE (?:OR REPLACE )?FUNCTION (\w+).*?\$\$(.*?)\$\$", re.S)


@cache
def newest_functions(root: Path) -> dict[str, tuple[str, int, int]]:
    """Of each SQL function the file that defines it last, and where its body is."""
    newest = {}
    for file in sorted((root / "sql/migrations").glob("*.sql")):
        for found in FUNCTION.finditer(file.read_text()):
            newest[found[1]] = (str(file.relative_to(root)), *found.span(2))
    return newest


def text_sites(root: Path, path: str) -> list[Site]:
    kind, text = Path(path).suffix, (root / path).read_text()
    bodies = [(first, last) for file, first, last in newest_functions(root).values() if file == path] if kind == ".sql" else None
    sites = []
    for found in TOKEN[kind].finditer(text):
        word = found[0]
        if bodies is not None and not any(first <= found.start() < last for first, last in bodies):
            continue
        new = str(int(word) + 1) if word.isdigit() else WORDS[kind].get(word)
        if new is not None:
            line = text.count("\n", 0, found.start())
            within = text.splitlines()[line].strip()
            start, end = (len(text[:at].encode()) for at in found.span())
            sites.append(Site(path, start, end, word, new, f"is {new}", line + 1, within))
    return sites


def all_sites(root: Path, build: Path, paths: list[str]) -> list[Site]:
    files = sorted(str(file.relative_to(root)) for folder in ("src", "lua", "sql") for file in (root / folder).rglob("*"))
    sites: list[Site] = []
    for file in files:
        if paths and not any(file.startswith(path) for path in paths):
            continue
        if file.endswith(".c") and file.split("/")[1] in FLOORS:
            sites += c_sites(root, build, file)
        elif file.endswith((".lua", ".sql")):
            sites += text_sites(root, file)
    return sites
