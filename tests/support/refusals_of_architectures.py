"""One spec for every rule of `spec.model.custom` that a person can break."""

from typing import Any, Final

from tests.support.kube import Object
from tests.support.refusals import Refusal, custom


def _group(**fields: Any) -> list[Object]:
    return [{"name": "main", "kind": "Full", "layers": 4, "kvHeads": 2, "headSize": 64, **fields}]


ARCHITECTURE: Final = {
    "heads that do not divide": Refusal(
        custom(attentionHeads=9),
        "spec.model.custom.attentionHeads",
        "`attentionHeads` 9 is not divisible by `kvHeads` 2 of group full: copy both from"
        " config.json",
    ),
    "layers that do not add up": Refusal(
        custom(layers=5),
        "spec.model.custom.layers",
        "the Full and Sliding groups have 4 layers together and the model has `layers` 5: make"
        " them equal",
    ),
    "a sliding group without a window": Refusal(
        custom(attention=_group(kind="Sliding")),
        "spec.model.custom.attention[0]",
        "kind Sliding needs `window`, the number of tokens that a layer looks back",
    ),
    "a full group with a window": Refusal(
        custom(attention=_group(window=512)),
        "spec.model.custom.attention[0]",
        "kind Full keeps every token: remove `window`, or use kind Sliding",
    ),
    "a group name with a blank": Refusal(
        custom(attention=_group(name="full attention")),
        "spec.model.custom.attention[0].name",
        "use lower-case letters, digits, '-' and '_', as in full_attention",
        "full attention",
    ),
    "neither a dense MLP nor experts": Refusal(
        custom(intermediateSize=None),
        "spec.model.custom",
        "give `intermediateSize`, the width of the dense MLP, or `experts` in all 4 layers",
    ),
    "more experts per token than there are": Refusal(
        custom(experts={"count": 4, "perToken": 8, "layers": 4, "intermediateSize": 64}),
        "spec.model.custom.experts",
        "`perToken` 8 must not exceed `count` 4, the number of routed experts",
    ),
    "experts in more layers than there are": Refusal(
        custom(experts={"count": 4, "perToken": 2, "layers": 5, "intermediateSize": 64}),
        "spec.model.custom.experts.layers",
        "`experts.layers` 5 must not exceed `layers` 4",
    ),
    "a draft of an unknown shape": Refusal(
        custom(draft={"depths": 1, "attentionGroup": "sliding"}),
        "spec.model.custom.draft.attentionGroup",
        "sliding is no Full or Sliding group of `attention`: name one of them",
    ),
    "a draft with an unknown convolution": Refusal(
        custom(draft={"depths": 1, "attentionGroup": "full", "convGroup": "full"}),
        "spec.model.custom.draft.convGroup",
        "full is no Conv group of `attention`: name one of them",
    ),
    "tensor parallelism that does not divide": Refusal(
        custom(tensorParallelSizes=[1, 3]),
        "spec.model.custom.tensorParallelSizes",
        "every size must divide `attentionHeads` 8",
    ),
    "parts of a checkpoint larger than it": Refusal(
        custom(checkpoints=[{"name": "BF16", "bytes": 5, "expertBytes": 4, "replicatedBytes": 2}]),
        "spec.model.custom.checkpoints[0]",
        "`replicatedBytes` and `expertBytes` are parts of `bytes` and must not exceed its 5"
        " together",
    ),
    "a range of versions with a blank": Refusal(
        custom(checkpoints=[{"name": "BF16", "bytes": 5, "transformers": ">=5.16, <6"}]),
        "spec.model.custom.checkpoints[0].transformers",
        "write bounds such as >=5.18 or >=5.10,<5.17, without blanks",
        ">=5.16, <6",
    ),
    "a class name with a blank": Refusal(
        custom(architecture="Qwen3 For"),
        "spec.model.custom.architecture",
        "copy one class name from `architectures` in config.json, such as Qwen3ForCausalLM",
        "Qwen3 For",
    ),
    "positions that are not one per layer": Refusal(
        custom(attention=_group(positions=[0, 1, 2])),
        "spec.model.custom.attention[0].positions",
        "`positions` has 3 indices and the group `layers` 4: give one index per layer",
    ),
    "positions beyond the last layer": Refusal(
        custom(attention=_group(positions=[0, 1, 2, 4])),
        "spec.model.custom.attention",
        "`positions` count from 0 and must be below `layers` 4",
    ),
    "groups for some prediction layers": Refusal(
        custom(draft={"depths": 2, "attentionGroup": "full", "attentionGroups": ["full"]}),
        "spec.model.custom.draft.attentionGroups",
        "`attentionGroups` has 1 names and `depths` is 2: name one group per prediction layer",
    ),
    "a prediction layer of an unknown shape": Refusal(
        custom(draft={"depths": 1, "attentionGroup": "full", "attentionGroups": ["local"]}),
        "spec.model.custom.draft.attentionGroups",
        "local is no Full or Sliding group of `attention`: name one of them",
    ),
    "a tower for text": Refusal(
        custom(towers=[{"modality": "Text", "bytes": 1}]),
        "spec.model.custom.towers[0].modality",
        "text needs no tower: remove it, or name Image or Audio",
    ),
}
