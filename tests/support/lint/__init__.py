"""House rules that no off-the-shelf linter checks."""
