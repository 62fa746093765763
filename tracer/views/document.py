# SPDX-License-Identifier: Apache-2.0
"""A verdict or a diagnosis as one JSON document: the public contract, its fields in the order of their declaration."""

import json

import msgspec

from tracer.verdict.model import VERDICT_SCHEMA, Report, Verdict

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def render(report: Report) -> str:
    """Lay out the verdict as JSON."""
    return render_document(report.verdict)


def render_document(content: msgspec.Struct) -> str:
    """Any of the versioned documents as JSON, two spaces deep, `null` for unknown, in ASCII alone.

    ASCII because the document is often looked at on a terminal: JSON itself lets DEL and the C1 controls,
    among them a one-byte CSI, and the bidi controls through unescaped.
    """
    document = _without_lone_surrogates(msgspec.to_builtins(content))
    text = json.dumps(document, indent=2, ensure_ascii=True, allow_nan=False)
    return text.replace("\x7f", "\\u007f") + "\n"


def schema() -> str:
    """The JSON Schema of the verdict document, as it is shipped beside this file (`verdict.schema.json`).

    A later version of the document may have more fields: what is not in the schema is allowed.
    """
    document = msgspec.json.schema(Verdict)
    described = document["$defs"]["Verdict"]["properties"]
    described["schema"] = {"const": VERDICT_SCHEMA}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{VERDICT_SCHEMA.replace('/', ':').replace('.', ':')}",
        "title": f"The verdict of oomtrace ({VERDICT_SCHEMA})",
    }
    return json.dumps({**head, **document}, indent=1, ensure_ascii=True) + "\n"


def _without_lone_surrogates(value: Json) -> Json:
    # Valid to JSON's grammar, but strict readers refuse them: shown as the text `\udc80` instead.
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _without_lone_surrogates(field) for key, field in value.items()}
    if isinstance(value, list | tuple):
        return [_without_lone_surrogates(item) for item in value]
    return value
