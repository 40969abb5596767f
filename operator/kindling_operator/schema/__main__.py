"""Entry point: write every generated file below the present folder, the root of the repository."""

from pathlib import Path

from kindling_operator.schema.files import generated_files

for path, text in generated_files().items():
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
