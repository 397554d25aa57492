"""Alertmanagers with our example of a configuration, on private ports: what they would send."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

from stack import Process, free_port, wait_for  # noqa: E402


def without_inhibitions(config: str) -> str:
    """The negative control: it sends everything."""
    return config[: config.index("inhibit_rules:")]


def names_in(config: str) -> set[str]:
    """The alerts that the configuration names one by one."""
    lists = re.findall(r'alertname!?=~?"([\w|]+)"', config)
    return {name for one in lists for name in one.split("|")}


class Alertmanager(Process):
    def __init__(self, folder: Path, name: str, config: str):
        super().__init__(name, folder / f"{name}.log")
        self.folder, self.port = folder / name, free_port()
        self.folder.mkdir()
        (self.folder / "alertmanager.yml").write_text(config)

    def run(self) -> None:
        self.start(
            ["prometheus-alertmanager", f"--config.file={self.folder / 'alertmanager.yml'}"]
            + [f"--storage.path={self.folder / 'data'}", f"--web.listen-address=127.0.0.1:{self.port}"]
            + ["--cluster.listen-address=", "--log.level=warn"]
        )
        wait_for(self.name, self.answers, 60)

    def ask(self, path: str) -> list[dict]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/{path}", timeout=5) as answer:
            return json.load(answer)

    def answers(self) -> bool:
        try:
            return self.ask("receivers") != []
        except OSError:
            return False

    def pages(self) -> set[str]:
        """What it sends to the receiver `page` now."""
        alerts = self.ask("alerts?active=true&silenced=false&inhibited=false&unprocessed=false&receiver=page")
        return {alert["labels"]["alertname"] for alert in alerts}
