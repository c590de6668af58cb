"""What can be asked of the values that come back."""

from __future__ import annotations

import inspect
import re
from typing import Any

from msgspec.structs import replace

from clients import types
from service import spec
from tests.clients.test_noise_report import estimate, noise

NEW = estimate(2)
OLD = replace(NEW, number=6, rho_0=0.3)


def test_rates_in_force_lead_to_their_estimate() -> None:
    """Errors are shown only beside the rates that they belong to."""
    refused = replace(OLD, number=8, trusted=False)
    assert noise(NEW, OLD).source == NEW
    assert noise(refused, NEW, OLD).source == NEW
    assert noise(refused, NEW, OLD, rho_0=0.3).source is None
    assert noise().source is None


def test_results_are_found_by_number() -> None:
    """Waiting for an estimate ends with that one and no other."""
    known = noise(NEW, OLD)
    assert (known.result(6), known.result(7), known.result(8)) == (OLD, NEW, None)


NAMED = {"type": "named", "fields": [{"name": "age", "type": "number"}]}


def told(docstring: str | None, name: str) -> str:
    """Return what a docstring says of a parameter."""
    text = inspect.cleandoc(docstring or "")
    found = re.search(rf"^{name}\n((?:    .*\n)+)", text, re.MULTILINE)
    assert found is not None, name
    return " ".join(found[1].split())


def numbers_of(schema: Any) -> set[str]:
    """Return the bounds and the default of a value, as a docstring writes them."""
    found = set()
    for key, value in schema.items() if isinstance(schema, dict) else ():
        if key in ("minimum", "maximum", "maxItems", "default") and isinstance(value, int | float):
            found.add(str(value) if isinstance(value, bool) else f"{value:,.10g}")
        if key == "anyOf":
            found |= {number for each in value for number in numbers_of(each)}
    return found


def test_bounds_and_defaults_are_those_of_the_service() -> None:
    """Whoever reads the client's types reads what the service takes, and what it adds."""
    for name, schema in spec.ModelSpec.model_json_schema()["properties"].items():
        text = told(types.ModelSpec.__doc__, name)
        for number in numbers_of(schema):
            assert re.search(rf"(?<![\d,]){re.escape(number)}(?!,?\d)", text), (name, number)
        if "enum" in schema and "default" in schema:
            assert f'`"{schema["default"]}"` (default)' in text, name
    for kind in (types.Dense, types.Hashed, types.Field, types.Named):
        assert f"{spec.MAX_FEATURES:,}" in (kind.__doc__ or "")
    for features in ({"type": "dense", "size": 1}, {"type": "hashed", "size": 1}, NAMED):
        made = {"name": "m", "labels": ["a"], "features": features}
        usual = spec.ModelSpec.model_validate(made).scaling
        named = "`Named`" if features is NAMED else "others"
        assert re.search(rf'`"{usual}"` for {named}', told(types.ModelSpec.__doc__, "scaling"))
    text = told(types.ModelSpec.__doc__, "estimate_every")
    for name, feedbacks in spec.ESTIMATE_AFTER.items():
        assert f"{feedbacks:,} where `{name}`" in text
