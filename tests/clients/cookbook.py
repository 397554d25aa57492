"""Runs every block of docs/cookbook.md as it is printed: a language's blocks one after the other, each with what the
ones before it have made, and looks at the service for what they have done."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import threading
from pathlib import Path
from typing import Callable

import lab
import webhooks
from proxy import Proxy, half, problem

PAGES = [lab.ROOT / "docs" / name for name in ("cookbook.md", "cookbook.zh-CN.md")]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
STEPS = ("create", "buy", "follow", "pay", "cancel", "settle")
BUYERS = ("buy", "follow", "cancel")
LANGUAGES = {"sh": "curl", "ts": "TypeScript", "java": "Java", "python": "Python"}
SHARED = {"java": "Shop.java", "python": "seckill.py"}  # that the other blocks use
LINES_MOST = 10
LIMITLESS = 1 << 30
LOGIN = "a login's token"
LIMIT_S = 90
LOGIN_TOKEN = "a-token-of-the-login"

Blocks = dict[tuple[str, str], str]  # (step or name in SHARED, language) -> text


def blocks_of(page: str) -> Blocks:
    found: Blocks = {}
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        title = section.splitlines()[0].lower()
        for language, text in BLOCK.findall(section):
            step = SHARED.get(language) if title == "before you begin" else title
            assert (step, language) not in found, f"{step} has two blocks of {language}"
            if language:
                found[step, language] = text
    return found


def commands_of(page: str, step: str) -> str:
    section = re.search(rf"^## {step}\n(.*?)(?=^## )", page, re.M | re.S | re.I)
    assert section, f"there is no section {step!r}"
    return next(text for language, text in BLOCK.findall(section[1]) if not language)


def with_login(page: str, language: str) -> Blocks:
    """The blocks as the page's section on tokens changes them: each of a buyer's, or the one that they share."""
    row = re.search(rf"^\| {LANGUAGES[language]} \| `(.+?)` \| `(.+?)` \|$", page, re.M)
    assert row, f"how to send a login's token in {LANGUAGES[language]} is not told"
    blocks = blocks_of(page)
    for step in [SHARED["java"]] if language == "java" else BUYERS:
        assert row[1] in blocks[step, language], f"{step} has no {row[1]}"
        blocks[step, language] = blocks[step, language].replace(row[1], row[2])
    return blocks


def check_shape(page: str, translation: str) -> None:
    wanted = {(step, language) for step in STEPS for language in LANGUAGES}
    wanted |= {(name, language) for language, name in SHARED.items()}
    wanted |= {(webhooks.STEP, language) for language in webhooks.FILES}
    blocks = blocks_of(page)
    assert set(blocks) == wanted, f"blocks that are missing or too many: {set(blocks) ^ wanted}"
    most = dict.fromkeys(itertools.product(STEPS, LANGUAGES), LINES_MOST)
    most |= {(webhooks.STEP, language): lines for language, lines in webhooks.LINES_MOST.items()}
    long = [name for name, text in blocks.items() if text.count("\n") > most.get(name, LIMITLESS)]
    assert not long, f"too many lines: {long}"
    assert BLOCK.findall(page) == BLOCK.findall(translation), "the blocks of the translation are others"


class Kitchen:
    def __init__(self, scratch: Path):
        self.scratch = scratch
        self.page, self.translation = (path.read_text(encoding="utf-8") for path in PAGES)
        self.count = 0
        self.lock = threading.Lock()

    def tests(self) -> list[tuple[str, Callable[[], None]]]:
        def cooks(language: str, faults: list) -> Callable[[], None]:
            return lambda: self.cook(language, blocks_of(self.page), faults)

        def logs_in(language: str) -> Callable[[], None]:
            return lambda: self.cook(language, with_login(self.page, language), [], (LOGIN_TOKEN, "alice"))

        shape = "cookbook: the same blocks in both languages, of a few lines"
        found = [(shape, lambda: check_shape(self.page, self.translation))]
        for language in LANGUAGES:
            found.append((f"cookbook: {language}", cooks(language, [])))
            found.append((f"cookbook: {language}, with answers lost", cooks(language, self.faults())))
            found.append((f"cookbook: {language}, with {LOGIN}", logs_in(language)))
        commands = commands_of(self.page, webhooks.STEP)
        return found + webhooks.tests(blocks_of(self.page), commands, self.scratch)

    def faults(self) -> list[tuple[str, list]]:
        """Of each call the first answer is lost, the second is half a 503 of a gateway, and the third a whole one."""
        gateways = half(503, "UNAVAILABLE", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")
        again = problem(503, "UNAVAILABLE", Retry_After="1")
        calls = ("/admin/vouchers$", "/seckill/", "GET /orders/", "/pay", "/cancel", "/settlement")
        return [(call, ["lose", gateways, again]) for call in calls]

    def run_broken(self, language: str, step: str, old: str, new: str) -> None:
        """One block, or the page, with something changed."""
        if language == "page":
            assert self.translation.count(old) >= 1, old
            check_shape(self.page, self.translation.replace(old, new, 1))
            return
        if step == LOGIN:
            assert self.page.count(old) >= 1, old
            self.cook(language, with_login(self.page.replace(old, new), language), [], (LOGIN_TOKEN, "alice"))
            return
        blocks = blocks_of(self.page)
        assert blocks[step, language].count(old) == 1, f"{step} has not {old!r} once"
        blocks[step, language] = blocks[step, language].replace(old, new)
        self.cook(language, blocks, self.faults())

    def run_broken_receiver(self, language: str, test: str, old: str, new: str) -> None:
        webhooks.run_broken(blocks_of(self.page), self.scratch, language, test, old, new)

    def cook(self, language: str, blocks: Blocks, faults: list, login: tuple[str, str] | None = None) -> None:
        with self.lock:
            self.count += 1
            folder = self.scratch / f"cookbook-{self.count}"
        folder.mkdir()
        proxy = Proxy(lab.URL, faults, login)
        try:
            Cook(language, blocks, folder, proxy).cook()
        finally:
            proxy.close()


class Cook:
    def __init__(self, language: str, blocks: Blocks, folder: Path, proxy: Proxy):
        self.language, self.blocks, self.folder, self.proxy = language, blocks, folder, proxy
        self.values = {"SECKILL_URL": proxy.url, "SECKILL_ADMIN_TOKEN": lab.TOKEN, "LOGIN_TOKEN": LOGIN_TOKEN}
        {"ts": self.prepare_ts, "java": self.prepare_java, "python": self.prepare_python}.get(language, lambda: None)()

    def prepare_ts(self) -> None:
        lab.compile_ts(self.folder, lab.WEB, {f"{step}.ts": self.blocks[step, "ts"] for step in STEPS})

    def prepare_java(self) -> None:
        blocks = {f"{step.capitalize()}.java": self.blocks[step, "java"] for step in STEPS}
        for name, text in ({SHARED["java"]: self.blocks[SHARED["java"], "java"]} | blocks).items():
            (self.folder / name).write_text(text)
        lab.compile_java(self.folder, lab.JAVA / "seckill/SeckillClient.java", *self.folder.glob("*.java"))

    def prepare_python(self) -> None:
        (self.folder / SHARED["python"]).write_text(self.blocks[SHARED["python"], "python"])

    def run(self, step: str, expected: str) -> str:
        """What the block prints, of which `expected` is a pattern with one group."""
        text = self.blocks[step, self.language]
        if self.language == "sh":
            command = ["sh", "-euc", text]
        elif self.language == "ts":
            command = ["node", f"{step}.js"]
        elif self.language == "java":
            command = ["java", "-XX:TieredStopAtLevel=1", "-cp", ".", step.capitalize()]
        else:
            command = ["python3", "-c", text]
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "no_proxy": "*", **self.values}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{step} has not ended after {LIMIT_S} s") from None
        assert done.returncode == 0, f"{step}: exit {done.returncode}: {done.stdout}{done.stderr}"
        found = re.search(expected, done.stdout)
        assert found, f"{step} printed: {done.stdout}{done.stderr}"
        return found[1]

    def cook(self) -> None:
        an_id = r'(?:"id" ?: ?"|[a-zA-Z0-9]: |\b(?:DONE|done|WON|won|201|202) +)([0-9a-f-]+)'
        voucher = self.values["VOUCHER"] = self.run("create", an_id)
        lab.until_open(voucher)
        self.expect_one_key("POST /admin/vouchers")
        order = self.values["ORDER"] = self.run("buy", an_id)
        assert self.statuses() == {order: "unpaid"}, f"{self.statuses()}, printed: {order}"
        self.run("follow", r"\b(unpaid)\b")
        self.run("pay", r"\b(paid)\b")
        assert self.statuses() == {order: "paid"}, self.statuses()
        payments = lab.payments(voucher)
        assert len(payments) == 1, payments
        other = self.values["VOUCHER"] = lab.voucher()
        cancelled = self.values["ORDER"] = lab.buy(other, "alice")
        self.run("cancel", r"\b(cancelled)\b")
        assert self.statuses() == {cancelled: "cancelled"}, self.statuses()
        self.run("pay", r"((?:too late.*|ENDED |\"status\":\"))cancelled")
        assert [one["state"] for one in lab.payments(other)] == ["to_refund"], lab.payments(other)
        lab.ask("POST", f"/orders/{cancelled}/refund", lab.ADMIN, {"reference": f"p-{cancelled}"})
        self.run("pay", r"^(?!too late|ENDED)(.*\bcancelled)")
        self.values["VOUCHER"] = voucher
        self.run("settle", r"\b(open)\b")

    def statuses(self) -> dict[str, str]:
        return {one["id"]: one["status"] for one in lab.orders(self.values["VOUCHER"])}

    def expect_one_key(self, pattern: str) -> None:
        keys = {one.headers.get("idempotency-key") for one in self.proxy.requests(pattern)}
        assert len(keys) == 1 and None not in keys, keys
