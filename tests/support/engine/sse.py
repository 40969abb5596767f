"""A streamed completion, as its client hears it."""

import json
from dataclasses import dataclass, field


@dataclass(slots=True)
class Completion:
    """What has come so far; `ids` and `usage` where the engine was asked for them."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    finish: str | None = None
    usage: int = 0
    done: bool = False

    def hear(self, line: bytes) -> bool:
        """A line of the body; whether it was an event."""
        said = line.decode().removeprefix("data: ").strip()
        self.done = self.done or said == "[DONE]"
        if not said.startswith("{"):
            return False
        event = json.loads(said)
        self.usage = (event.get("usage") or {}).get("completion_tokens", self.usage)
        for choice in event.get("choices", ()):
            self.text += choice["text"]
            self.ids += choice.get("token_ids") or ()
            self.finish = choice["finish_reason"] or self.finish
        return True
