"""From headers and the table of annotations to one record per function: who writes which side, the role of every
parameter, and the signature in the seam.

Runs at build time only."""
import hashlib
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path


class TableError(Exception):
    """Something a person has to put right in the checked-in tables. One line."""


@dataclass
class Parameter:
    name: str
    role: str                 # see snippets.py
    detail: str = ""          # constant group, capacity, ...
    kind: str = ""            # seam kind of a handle
    handle: str = ""          # its C type
    count: str = ""           # C expression of an array's length
    seam: str = ""            # C++ type in the seam
    written: bool = False     # one value that the function writes, and not an array or a buffer
    narrow: str = ""          # how a large-count parameter becomes the base function's
    types: dict = field(default_factory=dict)         # C type per implementation
    declarations: dict = field(default_factory=dict)  # C declaration per implementation
    labels: dict = field(default_factory=dict)        # the parameter's own name per implementation


@dataclass
class Function:
    name: str
    index: int
    results: dict
    parameters: list
    upper: str = "generated"
    lower: str = "generated"
    why: str = ""
    annotation: str = "none"
    collective: bool = False
    meets: bool = False
    sticky: str = ""
    inherit: str = ""
    errors: str = ""          # kind whose null object has the handler of this function's errors
    wide: bool = False        # a large-count one that goes on alone where its counts do not fit its base
    optional_results: bool = False  # null instead of a result's address: not wanted
    completes: bool = False   # its errors may be those of a request, whose communicator has the handler
    text: str = ""
    seam: str | None = None
    base: str = ""            # the function a large-count one is expressed by
    variadic: bool = False

    @property
    def implementations(self):
        return set(self.results)

    @property
    def returns_code(self):
        return set(self.results.values()) == {"int"}

    @property
    def seam_parameters(self):
        if self.seam is not None:
            return self.seam or "void"
        return ", ".join(f"{p.seam} {p.name}".replace("* ", "* ") for p in self.parameters) or "void"

    @property
    def seam_result(self):
        result = next(iter(self.results.values()), "int")
        return "int" if result == "int" else "double" if result == "double" else "int64_t"


def read_list(path: Path):
    """Lines of an append-only list without comments."""
    return [line.split("#")[0].strip() for line in path.read_text().splitlines() if line.split("#")[0].strip()]


class Model:
    def __init__(self, headers: dict, annotations: Path, functions: Path, predefined: Path, frozen: Path,
                 hand: Path | None):
        self.headers = headers
        self.table = tomllib.loads(annotations.read_text())
        self.handles = self.table["handles"]
        self.order = read_list(functions)
        self.predefined = self._read_predefined(predefined)
        self.hand = set(read_list(hand)) if hand and hand.exists() else None
        self._check_frozen(frozen)
        self._rules = [(re.compile(r["match"]), r) for r in self.table["rule"]]
        self._optional = [re.compile(text) for text in self.table["optional_results"]["match"]]
        self._classes = [(re.compile(c["match"]), c) for c in self.table["class"]]
        self._check_order(functions)
        self.functions = [self._function(name, index) for index, name in enumerate(self.order)]
        by_name = {f.name: f for f in self.functions}
        for f in self.functions:
            self._narrow(f, by_name)

    # --- checked-in lists -------------------------------------------------------------------------------------

    def _check_order(self, path):
        if len(set(self.order)) != len(self.order):
            raise TableError(f"{path}: a function is listed twice; every index must mean one function for ever")
        declared = {name for header in self.headers.values() for name in header.functions}
        new = sorted(declared - set(self.order))
        if new:
            raise TableError(f"{path}: append these functions of this host's mpi.h at the end (never reorder): "
                             + " ".join(new))

    def _check_frozen(self, path):
        """Released indices: per list its length at the release and a digest of that many names."""
        lists = {"functions": self.order, **self.predefined}
        for line in read_list(path):
            name, count, digest = line.split()
            names = lists.get(name, [])[:int(count)]
            if hashlib.sha256("\n".join(names).encode()).hexdigest()[:16] != digest:
                raise TableError(f"the index of an entry under {name} changed; images hold shims that use the old one. "
                                 f"Restore the first {count} entries and append new ones after them ({path})")

    @staticmethod
    def _read_predefined(path):
        kinds = {}
        for line in read_list(path):
            kind, name = line.split()
            kinds.setdefault(kind, []).append(name)
        return kinds

    def available(self, implementation, name):
        """Whether a constant or predefined handle exists in an implementation's header."""
        value = self.headers[implementation].constants.get(name)
        return value is not None and not value.startswith("THIS_SYMBOL_WAS_REMOVED")

    # --- functions --------------------------------------------------------------------------------------------

    def _class_of(self, name):
        merged, source = {}, "none"
        for pattern, entry in self._classes:
            if pattern.search(name):
                merged, source = dict(entry), "class"
                break
        single = self.table["function"].get(name)
        if single is not None:
            merged.update(single)
            source = "function"
        return merged, source

    def _function(self, name, index):
        prototypes = {i: h.functions[name] for i, h in self.headers.items() if name in h.functions}
        entry, source = self._class_of(name)
        f = Function(name, index, {i: p.result for i, p in prototypes.items()}, [], annotation=source)
        f.upper, f.lower = entry.get("upper", "generated"), entry.get("lower", "generated")
        f.why, f.collective, f.sticky = entry.get("why", ""), entry.get("collective", False), entry.get("sticky", "")
        f.meets, f.completes = entry.get("meets", False), entry.get("completes", False)
        f.inherit, f.errors, f.text = entry.get("inherit", ""), entry.get("errors", ""), entry.get("text", "")
        f.seam, f.wide = entry.get("seam"), entry.get("wide", False)
        f.optional_results = any(pattern.search(name) for pattern in self._optional)
        if self.hand is not None:
            if name in self.hand:
                f.lower = "hand"
            elif f.lower == "hand":
                raise TableError(f"annotations.toml says that the lower side of {name} is written by hand, but "
                                 "interpose/mpi/lower/hand_functions.txt does not list it")
        if not prototypes:
            f.upper = f.lower = "none"
            f.why = "in no header of this host"
            return f
        arities = {len(p.arguments) for p in prototypes.values()}
        if len(arities) != 1:
            raise TableError(f"{name} has different numbers of parameters in the headers; it needs entries by hand")
        f.variadic = any(p.variadic for p in prototypes.values())
        info_to_lower = entry.get("info") == "lower"
        for position in range(arities.pop()):
            arguments = {i: p.arguments[position] for i, p in prototypes.items()}
            f.parameters.append(self._parameter(f, arguments, info_to_lower))
        names = [p.name for p in f.parameters]
        for p in f.parameters:
            if p.count and "(" not in p.count:
                alternatives = [c for c in p.count.split("|") if c in names]
                if not alternatives:
                    raise TableError(f"{name}:{p.name} needs a count; none of {p.count} is a parameter")
                p.count = alternatives[0]
            elif p.role in ("handles_in", "handles_out", "handles_inout", "statuses_out") and not p.count:
                if f.upper == "generated" or f.lower == "generated":
                    raise TableError(f"{name}:{p.name} is an array whose length the table does not say")
        if f.inherit:
            f.inherit = next((n for n in f.inherit.split("|") if n in names), "")
        return f

    def _parameter(self, f, arguments, info_to_lower):
        # Names, constness and types come from the header that declares most; positions are equal in all.
        a = next(reversed(list(arguments.values())))
        p = Parameter(a.name, "value")
        p.types = {i: x.type for i, x in arguments.items()}
        p.labels = {i: x.name for i, x in arguments.items()}
        p.declarations = {i: x.declaration for i, x in arguments.items()}
        rule = next((r for pattern, r in self._rules
                     if any(pattern.search(f"{f.name}:{x.name}") for x in arguments.values())), None)
        handle = a.base if a.base in self.handles and not a.callback else ""
        if a.base == "function" or a.callback:
            p.role, p.seam = "callback", "void*"
        elif handle:
            p.kind, p.handle = self.handles[handle], handle
            p.seam = "Vid" if a.depth == 0 else "const Vid*" if a.const else "Vid*"
            p.role = "handle" if a.depth == 0 else "handles_in" if a.const or a.array else "handle_out"
            if p.kind == "Info":
                p.role = {"handle": "info_in" if info_to_lower or f.sticky else "info_null",
                          "handle_out": "info_out"}.get(p.role, p.role)
                if f.name.startswith("MPI_Info"):
                    p.role = "handle" if a.depth == 0 else "handle_out"
        else:
            stars = "*" * a.depth
            base = self.table["seam_types"].get(a.base)
            if base is None:
                p.seam = "int" if a.depth == 0 and f"{a.base}".endswith(("safety", "order")) else "void*" + stars[1:]
                p.role = "value"
            else:
                p.seam = ("const " if a.const and a.depth else "") + base + stars
                p.role = "status_out" if base == "Status" else "value"
                p.written = a.depth == 1 and not a.const and not a.array and base in ("int", "int64_t", "double")
        # A rule is by name; one for a handle or value passed by pointer does not fit where it is passed otherwise.
        misfit = rule and (handle and a.depth == 0 and rule["role"].startswith("handle")
                           or a.depth > 0 and rule["role"].split(":")[0] in ("constant", "flags", "all_handles"))
        if rule and not misfit:
            p.role, _, p.detail = rule["role"].partition(":")
            p.count = rule.get("count", "")
        return p

    def _narrow(self, f, by_name):
        """A large-count function whose base is re-made from a recipe calls the base when its counts fit."""
        if not f.name.endswith("_c") or f.lower == "hand" or f.upper != "generated":
            return
        base = by_name.get(f.name[:-2])
        if not base or base.lower != "hand" or len(base.parameters) != len(f.parameters):
            return
        implementation = next(iter(f.results))
        if implementation not in base.results:
            return
        f.upper, f.lower, f.base = "narrow", "generated" if f.wide else "none", base.name
        f.why = "counts that fit into int are handed to the base function, " \
                + ("others to this one, whose object has no recipe" if f.wide else "others refused")
        for mine, theirs in zip(f.parameters, base.parameters):
            a, b = mine.types[implementation], theirs.types[implementation]
            clean = lambda t: t.replace("const ", "").replace(" ", "")
            if clean(a) == clean(b):
                mine.narrow = "same"
            elif clean(a) == "MPI_Count" and clean(b) == "int":
                mine.narrow = "int"
            elif clean(a).startswith("MPI_Count") and clean(b).startswith("MPI_Aint"):
                mine.narrow = f"cast:{b}"
            elif clean(a) == "MPI_Count*" and clean(b) == "int*" and "const" in a:
                mine.narrow = "array"
            elif clean(a) == "MPI_Count*" and clean(b) == "int*":
                mine.narrow = "out"
            else:
                raise TableError(f"{f.name}:{mine.name} cannot be expressed by {base.name} ({a} against {b})")
        lengths = [p.name for p in f.parameters if p.narrow == "int" and p.name in ("count", "ndims")]
        for p in f.parameters:
            if p.narrow == "array":
                named = "ndims" if any(q.name == "ndims" for q in f.parameters) else (lengths or [""])[0]
                if not named:
                    raise TableError(f"{f.name}:{p.name} is an array whose length is not known")
                p.count = named
