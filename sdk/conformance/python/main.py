"""The conformance table in Python: see ../README.md for what each case does."""

from typing import Any

import adapters
import chains
import constraints
import contexts
import forwards
import generations
import messages
import models
import refusals
import speculations
from table import CASES

# Importing a module is what enters its cases into the table.
GROUPS = (
    adapters,
    models,
    contexts,
    forwards,
    generations,
    chains,
    constraints,
    speculations,
    messages,
    refusals,
)


async def main(input: dict) -> dict:
    results = []
    for entry in input["cases"]:
        name = entry["case"]
        try:
            if name not in CASES:
                raise LookupError(f"there is no case {name}")
            results.append(
                {"case": name, "ok": rounded(await CASES[name](**entry.get("input", {})))}
            )
        except Exception as error:
            results.append({"case": name, "error": str(error)})
    return {"results": results}


def rounded(value: Any) -> Any:
    """Floats to 4 places, everywhere."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return value
