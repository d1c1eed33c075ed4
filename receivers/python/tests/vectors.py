"""receivers/vectors.json, which Grapnel made."""

import base64
import json
import pathlib

VECTORS = json.loads((pathlib.Path(__file__).parents[2] / "vectors.json").read_text())
KEY = VECTORS["order"][0]["key"]
NOW = VECTORS["order"][0]["now"]


def body(vector):
    return base64.b64decode(vector["body_base64"])


def headers(vector):
    """As an ASGI server passes them."""
    return [(n.encode(), v.encode()) for n, v in vector["headers"]]


def delivery(scenario, number):
    """Headers and body of the delivery `number` of a scenario."""
    [found] = [s for s in VECTORS["order"] if s["name"] == scenario]
    return headers(found["deliveries"][number]), body(found["deliveries"][number])
