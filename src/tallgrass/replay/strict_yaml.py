"""YAML from people: a key once, no aliases, times as the text that they are."""

from typing import Any

import yaml

from tallgrass.errors import InvalidInput


def load_yaml(data: bytes) -> Any:
    """Return the value of a document; whatever is not plain YAML is refused."""
    try:
        return yaml.load(data.decode(), _StrictLoader)  # noqa: S506 - a safe loader, made stricter
    except UnicodeDecodeError as exc:
        raise _invalid("not UTF-8") from exc
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise _invalid(f"neither YAML nor JSON: {' '.join(str(exc).split())[:300]}") from exc


def dump_yaml(value: object) -> str:
    """Return a value as YAML, its keys in their order; what is not ASCII as escapes."""
    return str(yaml.safe_dump(value, sort_keys=False))


class _StrictLoader(yaml.SafeLoader):  # type: ignore[misc] # PyYAML has no types
    """YAML without surprises: a key once, no aliases, times as the text that they are."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way to say it
        first: [(tag, form) for tag, form in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse an alias: a few lines of them can stand for a billion values."""
        if self.check_event(yaml.AliasEvent):
            raise _invalid("an alias (*name) is not read")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        """Refuse a key that stands twice: the last one would count unseen."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            raise _invalid(f"{', '.join(sorted(twice))} stands twice")
        return super().construct_mapping(node, deep=deep)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(message, code="selection_invalid")
