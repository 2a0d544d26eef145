"""YAML, read strictly and with its lines.

A member given twice is a mistake, not the last one wins; so is a member without a value. Anchors,
aliases and merge keys work. No value is interpreted here (see `document`).
"""

from __future__ import annotations

import yaml
from yaml.reader import ReaderError

from gateway.config.document import Document, Value
from gateway.config.problems import Origin, Path, Problem, dotted

# Some hundred routes. Aliases of aliases can make a small file endless.
MOST_VALUES = 20_000
_EMPTY = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_TAGS = frozenset({f"tag:yaml.org,2002:{kind}" for kind in ("str", "map", "seq")})
_BRACES = "braces or brackets are not closed", 'quote a value that has some, as in "${NAME}"'
# What the parser says, in other words, and what people nearly always meant.
_WORDS = {
    "'\\t' that cannot start": ("a tab is no indentation", "write blanks"),
    "cannot start any token": ("a value begins with a sign that YAML keeps for itself", "quote it"),
    "undefined alias": (
        "* refers to a name that nothing has (&name)",
        "quote a value that starts with *",
    ),
    "mapping values are not allowed": (
        "a second ': ' in one line, or an indentation that nothing explains",
        "quote a value that has ': ' in it, or mend the indentation",
    ),
    "expected ',' or '}'": _BRACES,
    "expected ',' or ']'": _BRACES,
    "expected the node content": _BRACES,
    "expected alphabetic or numeric": (
        "* and & begin a name here",
        "quote a value that starts with * or &",
    ),
    "could not find expected ':'": (
        "a line without name and value",
        "write name: value, with a blank after the colon",
    ),
    "expected <block end>": (
        "an indentation that does not fit the lines above",
        "indent what belongs together alike",
    ),
    "end of stream": ("a quotation mark is not closed", "close it"),
    "but found another document": (
        "more than one document",
        "keep one in the file, without ---",
    ),
}


def read(text: str, name: str) -> tuple[Document, list[Problem]]:
    """The file's settings, and what is wrong with it as YAML."""
    reader = _Reader(name)
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        message, remedy = _in_our_words(str(error.problem))
        reader.wrong((), line, f"not YAML: {message}", remedy)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"not YAML: has the invisible character U+{ord(text[error.position]):04X}"
        reader.wrong((), line, message, "remove it, or save the file as plain UTF-8")
    except yaml.YAMLError as error:
        reader.wrong((), None, f"not YAML: {error}".replace("\n", " "), "save it as plain UTF-8")
    except RecursionError:
        reader.wrong((), None, "nested too deeply", "write it flatter")
    else:
        reader.take(node)
    return reader.document, reader.problems


class _Reader:
    def __init__(self, name: str) -> None:
        self.document = Document(name)
        self.problems: list[Problem] = []
        self._open: set[int] = set()
        self._values = 0

    def wrong(self, path: Path, line: int | None, message: str, remedy: str) -> None:
        where = str(Origin(self.document.name, line))
        self.problems.append(Problem(dotted(path), where, line, message, remedy))

    def take(self, node: yaml.Node | None) -> None:
        if node is None:
            return
        if not isinstance(node, yaml.MappingNode):
            self.wrong((), _line(node), "not a mapping", "write settings as name: value")
            return
        value = self._value(node, ())
        if isinstance(value, dict):
            self.document.root = value

    def _value(self, node: yaml.Node, path: Path) -> Value | None:
        self._values += 1
        if id(node) in self._open or self._values > MOST_VALUES:
            if self._values <= MOST_VALUES + 1:
                self.wrong(path, _line(node), "an alias of itself, or far too many", "write it out")
            return None
        if node.tag not in _PLAIN_TAGS:
            self.wrong(path, _line(node), f"has the tag {node.tag}", "remove the tag")
            return None
        self._open.add(id(node))
        try:
            return self._untagged(node, path)
        finally:
            self._open.remove(id(node))

    def _untagged(self, node: yaml.Node, path: Path) -> Value | None:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node, path)
        assert isinstance(node, yaml.ScalarNode)
        text = str(node.value)
        if node.style is None and text in _EMPTY:
            remedy = 'give it one or remove the line; an empty text is written as ""'
            self.wrong(path, _line(node), "has no value", remedy)
            return None
        return text

    def _sequence(self, node: yaml.SequenceNode, path: Path) -> Value:
        items: list[Value] = []
        for index, item in enumerate(node.value):
            self.document.origins[(*path, index)] = self._origin(item)
            value = self._value(item, (*path, index))
            items.append("" if value is None else value)
        return items

    def _mapping(self, node: yaml.MappingNode, path: Path) -> Value:
        members: dict[str, Value] = {}
        for name, (key, item) in self._members(node, path).items():
            self.document.origins[(*path, name)] = self._origin(key)
            value = self._value(item, (*path, name))
            if value is not None:
                members[name] = value
        return members

    def _members(
        self, node: yaml.MappingNode, path: Path
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.wrong(path, _line(key), "has a name that is not a text", "write name: value")
            elif key.value == "<<" and key.style is None:
                for name, pair in self._merged(item, path).items():
                    merged.setdefault(name, pair)
            elif key.value in own:
                first = _line(own[key.value][0])
                message = f"given twice, here and on line {first}"
                self.wrong((*path, key.value), _line(key), message, "keep one of them")
            else:
                own[key.value] = (key, item)
        return merged | own

    def _merged(self, item: yaml.Node, path: Path) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for source in item.value if isinstance(item, yaml.SequenceNode) else [item]:
            if not isinstance(source, yaml.MappingNode) or id(source) in self._open:
                self.wrong(path, _line(item), "<< merges mappings only", "write <<: *name")
                continue
            self._open.add(id(source))
            for name, pair in self._members(source, path).items():
                found.setdefault(name, pair)
            self._open.remove(id(source))
        return found

    def _origin(self, node: yaml.Node) -> Origin:
        return Origin(self.document.name, _line(node))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _in_our_words(problem: str) -> tuple[str, str]:
    for said, words in _WORDS.items():
        if said in problem:
            return words
    return problem, "mend the line"
