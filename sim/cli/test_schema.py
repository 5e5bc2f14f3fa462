"""The experiment file's JSON Schema (kvtide show schema, docs/experiment.schema.json)."""

import json

import pytest
import yaml

from tested_program import SOURCE, kvtide

SHIPPED = sorted(SOURCE.glob("experiments/**/*.yaml"))
SHIPPED = [path for path in SHIPPED if not {"cluster", "planning"} & set(path.parts)]  # job files; plans have other keys


def schema():
    return json.loads(kvtide("show", "schema").stdout)


def unknown_keys(value, form, path=""):
    """Keys of `value` that no form of the schema knows."""
    forms = form.get("anyOf", [form])
    if isinstance(value, dict):
        objects = [one for one in forms if "properties" in one]
        if not objects:
            return []
        if objects[0]["additionalProperties"]:  # numbers under any name
            return [f"{path}.{key}" for key, below in value.items()
                    if key not in objects[0]["properties"] and not isinstance(below, int | float)]
        return [found for key, below in value.items()
                for found in (unknown_keys(below, objects[0]["properties"][key], f"{path}.{key}")
                              if key in objects[0]["properties"] else [f"{path}.{key}"])]
    if isinstance(value, list):
        return [found for element in value for one in forms if one.get("type") == "array"
                for found in unknown_keys(element, one["items"], path + "[]")]
    return []


def test_the_committed_schema_is_the_code_s():
    committed = (SOURCE / "docs/experiment.schema.json").read_text()
    assert committed == kvtide("show", "schema").stdout, "kvtide show schema > docs/experiment.schema.json"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_experiment_fits_the_schema(path):
    content = yaml.safe_load(path.read_text())
    assert unknown_keys(content, schema()) == []
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(content, schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_experiment_names_the_schema_for_editors(path):
    first = path.read_text().splitlines()[0]
    depth = len(path.relative_to(SOURCE / "experiments").parts)
    assert first == "# yaml-language-server: $schema=" + "../" * depth + "docs/experiment.schema.json"


def test_names_come_from_the_registries():
    compression = schema()["properties"]["compression"]["anyOf"][0]["properties"]
    presets = [preset["name"] for preset in json.loads(kvtide("show", "presets", "--json").stdout)]
    assert compression["preset"]["enum"] == presets
    stages = compression["stages"]["items"]["properties"]
    assert set(stages) == {"evict", "pool", "low_rank", "quantize"}
    assert stages["evict"]["properties"]["granularity"]["enum"] == ["block", "token"]
    assert compression["block_size"] == {"type": "integer", "minimum": 1, "maximum": 65536, "default": 128}


def test_a_misspelt_key_does_not_fit():
    assert unknown_keys({"compression": {"blocksize": 3}}, schema()) == [".compression.blocksize"]
