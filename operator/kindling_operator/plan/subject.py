"""What the rules of the planner look at: one model with the facts that are known about it."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from kindling_operator.model.api import InferenceModelSpec
from kindling_operator.model.api_model import ModelName, Weights
from kindling_operator.model.architecture import Architecture, CatalogEntry, Modality
from kindling_operator.model.parse import ParsedModel
from kindling_operator.model.snapshot import Environment


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, its catalog entry, and the installation that judges it."""

    model: ParsedModel
    entry: CatalogEntry
    environment: Environment

    @property
    def spec(self) -> InferenceModelSpec:
        return self.model.spec

    @property
    def weights(self) -> Weights:
        """What the user asked for, with the installation's cache where they named none."""
        asked = self.spec.model.weights or Weights()
        return structs.replace(
            asked,
            cache_claim=asked.cache_claim or self.environment.cache_claim or None,
            cache_max_bytes=asked.cache_max_bytes or self.environment.cache_max_bytes or None,
        )

    @property
    def architecture(self) -> Architecture:
        return self.entry.architecture

    @property
    def served_name(self) -> str:
        return self.spec.serving.served_name or self.model.key.name

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """What requests may contain: what the user asked for, else all that the model has."""
        return self.spec.serving.modalities or self.architecture.modalities


def subject_of(model: ParsedModel, environment: Environment) -> Subject | None:
    """The subject of a model, or None if neither the catalog nor its spec describes it."""
    name, custom = model.spec.model.name, model.spec.model.custom
    if name is ModelName.CUSTOM and custom is not None:
        entry = CatalogEntry(name="custom", title="custom", architecture=custom, sources={})
        return Subject(model, entry, environment)
    entry_or_none = environment.catalog.get(name.value)
    return None if entry_or_none is None else Subject(model, entry_or_none, environment)
