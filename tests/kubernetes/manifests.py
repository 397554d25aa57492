"""What `kubectl apply -k` makes of a folder of deploy/kubernetes, as far as those files go: resources, images, and
generated ConfigMaps, which keep their plain names."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/kubernetes"
KNOWN = {"apiVersion", "kind", "resources", "images", "configMapGenerator"}


class Wrong(Exception):
    """A folder that cannot be rendered."""


def render(folder: Path) -> list[dict]:
    rules = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := set(rules) - KNOWN:
        raise Wrong(f"{folder.name}: this reader does not know {sorted(unknown)}")
    objects = [generate(map) for map in rules.get("configMapGenerator", [])]
    for name in rules["resources"]:
        path = folder / name
        objects += render(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text()))
    for image in rules.get("images", []):
        for container in (one for an_object in objects for one in containers(an_object)):
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
    return objects


def generate(map: dict) -> dict:
    data = dict(pair.split("=", 1) for pair in map["literals"])
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map["name"]}, "data": data}


def pod(an_object: dict) -> dict:
    """The pod of a Deployment or Job; {}: it has none."""
    return an_object.get("spec", {}).get("template", {}).get("spec", {})


def containers(an_object: dict) -> list[dict]:
    return pod(an_object).get("containers", [])


def one(objects: list[dict], kind: str, name: str = "") -> dict:
    found = [o for o in objects if o["kind"] == kind and name in ("", o["metadata"]["name"])]
    if len(found) != 1:
        raise Wrong(f"{len(found)} objects are a {kind} {name}")
    return found[0]


def pre_stop_s(container: dict) -> float:
    """Seconds that the container goes on after it was told to end, and before its SIGTERM."""
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    if command[0] != "sleep" or len(command) != 2:
        raise Wrong(f"preStop does not sleep: {command}")
    return float(command[1])
