"""What must add up in an architecture: the rules of `architecture`'s structs.

The predicates see those structs; their kinds compare with the words on the wire.
"""

from typing import Final

from kindling_operator.model.fields import Rule

_ATTENDING: Final = "self.attention.filter(g, g.kind != 'Conv')"
_LAYERS: Final = f"{_ATTENDING}.map(g, g.layers).sum()"
_INDIVISIBLE: Final = (
    "self.attention.filter(g, g.kind != 'Conv' && self.attentionHeads % g.kvHeads != 0)[0]"
)

GROUP_RULES: Final = (
    Rule(
        cel="self.kind == 'Full' || has(self.window)",
        message="kind %s needs `window`, the number of tokens that a layer looks back",
        holds=lambda g: g.kind == "Full" or g.window is not None,
        values=(("self.kind", lambda g: g.kind),),
    ),
    Rule(
        cel="self.kind != 'Full' || !has(self.window)",
        message="kind Full keeps every token: remove `window`, or use kind Sliding",
        holds=lambda g: g.kind != "Full" or g.window is None,
    ),
    Rule(
        cel="!has(self.positions) || self.positions.size() == self.layers",
        message="`positions` has %d indices and the group `layers` %d: give one index per layer",
        holds=lambda g: g.positions is None or len(g.positions) == g.layers,
        path=".positions",
        values=(
            ("self.positions.size()", lambda g: len(g.positions)),
            ("self.layers", lambda g: g.layers),
        ),
    ),
)

DRAFT_RULES: Final = (
    Rule(
        cel="!has(self.attentionGroups) || self.attentionGroups.size() == self.depths",
        message="`attentionGroups` has %d names and `depths` is %d: name one group per prediction"
        " layer",
        holds=lambda d: d.attention_groups is None or len(d.attention_groups) == d.depths,
        path=".attentionGroups",
        values=(
            ("self.attentionGroups.size()", lambda d: len(d.attention_groups)),
            ("self.depths", lambda d: d.depths),
        ),
    ),
)

TOWER_RULES: Final = (
    Rule(
        cel="self.modality != 'Text'",
        message="text needs no tower: remove it, or name Image or Audio",
        holds=lambda t: t.modality != "Text",
        path=".modality",
    ),
)

EXPERTS_RULES: Final = (
    Rule(
        cel="self.perToken <= self.count",
        message="`perToken` %d must not exceed `count` %d, the number of routed experts",
        holds=lambda e: e.per_token <= e.count,
        values=(
            ("self.perToken", lambda e: e.per_token),
            ("self.count", lambda e: e.count),
        ),
    ),
)

CHECKPOINT_RULES: Final = (
    Rule(
        cel="(has(self.replicatedBytes) ? self.replicatedBytes : 0)"
        " + (has(self.expertBytes) ? self.expertBytes : 0) <= self.bytes",
        message="`replicatedBytes` and `expertBytes` are parts of `bytes` and must not exceed"
        " its %d together",
        holds=lambda c: c.replicated_bytes + c.expert_bytes <= c.bytes,
        values=(("self.bytes", lambda c: c.bytes),),
    ),
)

ARCHITECTURE_RULES: Final = (
    Rule(
        cel=f"{_LAYERS} == self.layers",
        message="the Full and Sliding groups have %d layers together and the model has"
        " `layers` %d: make them equal",
        holds=lambda a: a.layers == a.attending_layers,
        path=".layers",
        values=(
            (
                f"{_ATTENDING}.map(g, g.layers).sum()",
                lambda a: sum(g.layers for g in a.attending),
            ),
            ("self.layers", lambda a: a.layers),
        ),
    ),
    Rule(
        cel=f"{_ATTENDING}.all(g, self.attentionHeads % g.kvHeads == 0)",
        message="`attentionHeads` %d is not divisible by `kvHeads` %d of group %s: copy both"
        " from config.json",
        holds=lambda a: not a.indivisible,
        path=".attentionHeads",
        values=(
            ("self.attentionHeads", lambda a: a.attention_heads),
            (f"{_INDIVISIBLE}.kvHeads", lambda a: a.indivisible[0].kv_heads),
            (f"{_INDIVISIBLE}.name", lambda a: a.indivisible[0].name),
        ),
    ),
    Rule(
        cel="has(self.intermediateSize) || (has(self.experts)"
        " && self.experts.layers == self.layers)",
        message="give `intermediateSize`, the width of the dense MLP, or `experts` in all %d"
        " layers",
        holds=lambda a: (
            a.intermediate_size is not None
            or (a.experts is not None and a.experts.layers == a.layers)
        ),
        values=(("self.layers", lambda a: a.layers),),
    ),
    Rule(
        cel="!has(self.experts) || self.experts.layers <= self.layers",
        message="`experts.layers` %d must not exceed `layers` %d",
        holds=lambda a: a.experts is None or a.experts.layers <= a.layers,
        path=".experts.layers",
        values=(
            ("self.experts.layers", lambda a: a.experts.layers),
            ("self.layers", lambda a: a.layers),
        ),
    ),
    Rule(
        cel=f"!has(self.draft) || {_ATTENDING}.exists(g, g.name == self.draft.attentionGroup)",
        message="%s is no Full or Sliding group of `attention`: name one of them",
        holds=lambda a: a.draft is None or a.draft.attention_group in {g.name for g in a.attending},
        path=".draft.attentionGroup",
        values=(("self.draft.attentionGroup", lambda a: a.draft.attention_group),),
    ),
    Rule(
        cel="!has(self.draft) || !has(self.draft.attentionGroups)"
        f" || self.draft.attentionGroups.all(n, {_ATTENDING}.exists(g, g.name == n))",
        message="%s is no Full or Sliding group of `attention`: name one of them",
        holds=lambda a: not a.strange_draft_groups,
        path=".draft.attentionGroups",
        values=(
            (
                f"self.draft.attentionGroups.filter(n, !{_ATTENDING}.exists(g, g.name == n))[0]",
                lambda a: a.strange_draft_groups[0],
            ),
        ),
    ),
    Rule(
        cel="!has(self.draft) || !has(self.draft.convGroup) || self.attention.exists(g,"
        " g.name == self.draft.convGroup && g.kind == 'Conv')",
        message="%s is no Conv group of `attention`: name one of them",
        holds=lambda a: (
            a.draft is None
            or a.draft.conv_group is None
            or a.draft.conv_group in {g.name for g in a.attention} - {g.name for g in a.attending}
        ),
        path=".draft.convGroup",
        values=(("self.draft.convGroup", lambda a: a.draft.conv_group),),
    ),
    Rule(
        cel="self.attention.all(g, !has(g.positions) || g.positions.all(p, p < self.layers))",
        message="`positions` count from 0 and must be below `layers` %d",
        holds=lambda a: all(p < a.layers for g in a.attention for p in g.positions or ()),
        path=".attention",
        values=(("self.layers", lambda a: a.layers),),
    ),
    Rule(
        cel="!has(self.tensorParallelSizes)"
        " || self.tensorParallelSizes.all(t, self.attentionHeads % t == 0)",
        message="every size must divide `attentionHeads` %d",
        holds=lambda a: all(a.attention_heads % t == 0 for t in a.tensor_parallel_sizes or ()),
        path=".tensorParallelSizes",
        values=(("self.attentionHeads", lambda a: a.attention_heads),),
    ),
)
