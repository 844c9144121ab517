"""The roles of parameters, from the library's roles.toml: four texts for each side of the seam. Build time only."""
import re
import tomllib
from pathlib import Path


class TableError(Exception):
    """An error in the checked-in tables, which a developer must correct. One line."""


CURRENT_DEVICE = "current device"  # not a parameter, but may be part of a key
TEXTS = ("before", "argument", "success", "always")
RECIPE_TEXTS = ("write", "read", "argument", "success")
# What a role says besides its texts, with its defaults.
ATTRIBUTES = {"by": "", "length": False, "makes": False, "finds": False, "alias": False, "null": "", "refuse": [], "refuse_by_hand": []}
KEYS = {*ATTRIBUTES, "upper", "lower", "lower_pending", "recipe"}


class Role:
    def __init__(self, name, entry):
        if set(entry) - KEYS:
            raise TableError(f"role {name} says {' '.join(sorted(set(entry) - KEYS))}, which means nothing")
        self.name, self.entry = name, entry
        for key, default in ATTRIBUTES.items():
            setattr(self, key, entry.get(key, default))

    def misfit(self, depth):
        """Whether the role does not fit a parameter with `depth` pointers."""
        return self.by == "pointer" and depth == 0 or self.by == "value" and depth > 0

    def texts(self, side, pending):
        """{before, argument, success, always} for the side."""
        found = self.entry.get(side, {})
        if found is False:
            raise TableError(f"role {self.name} has no {side} side; the function must be written by hand there")
        if pending:
            found = {**found, **self.entry.get(f"{side}_pending", {})}
        return {key: found.get(key, "{n}" if key == "argument" else "") for key in TEXTS}

    def recipe_texts(self):
        """{write, read, argument, success} for a call that is repeated; None if the role has no recipe."""
        found = self.entry.get("recipe")
        if found is None:
            return None
        if set(found) - set(RECIPE_TEXTS):
            raise TableError(f"role {self.name}: a recipe says {' '.join(sorted(set(found) - set(RECIPE_TEXTS)))}, which means nothing")
        return {key: found.get(key, "{n}" if key == "argument" else "") for key in RECIPE_TEXTS}


class Roles(dict):
    def __init__(self, path: Path):
        super().__init__((name, Role(name, entry)) for name, entry in tomllib.loads(path.read_text()).items())
        self.path = path

    def __missing__(self, name):
        raise TableError(f"{self.path} does not say what the role {name} means")


def fields(function, parameter, implementation, renamed):
    """The names that a parameter's texts may use. `renamed`: the parameters' names in this implementation's header."""
    count = parameter.count
    for theirs, ours in renamed.items():
        count = ours if count == theirs else count.replace(f"({theirs})", f"({ours})")
    first, _, second = parameter.detail.partition(":")
    kind, type_ = parameter.kind, parameter.types.get(implementation, "")
    when = re.sub(r"\w+", lambda word: renamed.get(word[0], word[0]), parameter.when)
    return {"w": when or "true", "n": renamed.get(parameter.name, parameter.name), "T": type_, "P": type_.rstrip("* "), "K": kind,
            "k": kind.lower(), "H": parameter.handle, "c": count, "g": first,
            "l": renamed.get(second, second) or "nullptr", "f": function.name,
            "recipe": "&recipe_" if function.again else "nullptr"}
