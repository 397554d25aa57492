"""A Prometheus of our own, on a private port, which scrapes and judges once a second."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

from alertmanager import Alertmanager  # noqa: E402
from stack import ADMIN_TOKEN, Instance, Process, free_port, wait_for  # noqa: E402

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: [{alertmanagers}]}}]}}]}}
scrape_configs:
  - job_name: seckill
    authorization: {{credentials: {token}}}
    static_configs: [{{targets: [{targets}]}}]
"""


def listed(processes: list) -> str:
    return ", ".join(f'"127.0.0.1:{process.port}"' for process in processes)


class Prometheus(Process):
    def __init__(self, folder: Path):
        super().__init__("prometheus", folder / "prometheus.log")
        self.folder, self.port = folder / "prometheus", free_port()
        self.folder.mkdir()

    def run(self, rules: str, instances: list[Instance], alertmanagers: list[Alertmanager]) -> None:
        config = self.folder / "prometheus.yml"
        (self.folder / "rules.yml").write_text(rules)
        values = {"rules": self.folder / "rules.yml", "token": ADMIN_TOKEN}
        config.write_text(CONFIG.format(targets=listed(instances), alertmanagers=listed(alertmanagers), **values))
        self.start(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder / 'data'}"]
            + [f"--web.listen-address=127.0.0.1:{self.port}", "--enable-feature=exemplar-storage", "--log.level=warn"]
        )
        wait_for("Prometheus", self.answers, 60)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, path: str, **parameters: object) -> dict:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def query(self, expression: str) -> dict:
        return self.ask("query", query=expression)

    def query_range(self, expression: str, seconds: int = 10) -> dict:
        now = time.time()
        return self.ask("query_range", query=expression, start=now - seconds, end=now, step=1)

    def firing(self) -> set[str]:
        return {name for name, _ in self.firing_of()}

    def firing_of(self) -> set[tuple[str, str]]:
        """Alerts, and which server of a store each names; "": none."""
        alerts = self.ask("alerts")["data"]["alerts"]
        labels = [alert["labels"] for alert in alerts if alert["state"] == "firing"]
        return {(one["alertname"], one.get("server", "")) for one in labels}

    def unhealthy(self) -> list[str]:
        """What it says of targets that it cannot scrape, or read."""
        active = self.ask("targets")["data"]["activeTargets"]
        return [target["lastError"] or "not yet" for target in active if target["health"] != "up"]
