"""Builds one record per function from headers and a library's tables: whether each side is generated or written by hand,
the role of every parameter, and the signature in the seam. Facts about one library are in its tables only. Build time only."""
import hashlib
import re
import tomllib
from pathlib import Path

from header import Prototype
from record import PLACES, ROLES, Function, Parameter
from roles import CURRENT_DEVICE, Roles, TableError

# Keys of a fact: "note" for the coverage table, and "all", the note for "*", all parameters; "of", its values' domain
# ("parameters", or another fact, one of whose values it must be); "says_all", whether it says how those parameters that
# are pointers are treated; "once", whether the call is never repeated.
FACT_KEYS = {"note", "all", "of", "says_all", "once"}


def read_list(path: Path):
    """Lines of an append-only list without comments; none if there is no list."""
    if not path.exists():
        return []
    return [line.split("#")[0].strip() for line in path.read_text().splitlines() if line.split("#")[0].strip()]


CLASS_KEYS = {"match", "upper", "lower", "why", "kinds", "text", "seam", "wide", "create", "free", "set-state", "sticky", "refuse"}
# Defaults of the keys that a library's table may leave out of [library].
DEFAULTS = {"by_hand": False, "weak_prefix": "", "same_types": False, "explicit": False, "twins": [],
            "table": "lower_table", "unused_entry": "unwritten", "stub": False, "language": "c", "call": "{f}", "family": ""}

CORE = Path(__file__).parent


def read_table(path: Path):
    """A library's table, with what it leaves to its family, to the table that it shares with others (`shared`) and to the defaults."""
    table = tomllib.loads(path.read_text())
    family, shares = (table["library"].get(key) for key in ("family", "shared"))
    common = tomllib.loads((CORE / family / "library.toml").read_text().replace("{folder}", path.parent.name)) if family else {}
    shared = tomllib.loads((CORE / family / shares).read_text()) if shares else {}
    library = {**DEFAULTS, **common.get("library", {}), **shared.get("library", {}), **table["library"]}
    lists = {key: shared.get(key, []) + table.get(key, []) for key in ("rule", "class")}
    constants = table.get("constants", {})
    for group, names in table.get("numbered", {}).items():
        if group in constants:
            raise TableError(f"{path}: the constants {group} are listed twice, under [constants] and under [numbered]")
        constants[group] = {name: str(number) for number, name in enumerate(names)}
    return {**common, **shared, **table, **lists, "constants": constants, "library": library}


class Model:
    """`files`: the library's annotations, roles, functions, parameters, predefined and frozen; its family's facts, if it has one."""

    def __init__(self, headers: dict, files: dict):
        self.headers = headers
        self.files = files
        self.table = read_table(files["annotations"])
        self.library = self.table["library"]
        self.roles = Roles(files["roles"])
        self.seam_types = self.table.get("seam_types", {})
        self.handles = self.table.get("handles", {})
        self.facts = self._read_facts()
        self.order = read_list(files["functions"])
        self.names = {name: names for name, *names in map(str.split, read_list(files["parameters"]) if "parameters" in files else [])}
        self.predefined = self._read_predefined(files["predefined"])
        self._check_frozen(files["frozen"])
        self._rules = [(re.compile(r["match"]), r) for r in self.table.get("rule", [])]
        self._optional = self._patterns("optional_results")
        self._pending = self._patterns("pending")
        self._classes = [(re.compile(c["match"]), c) for c in self.table.get("class", [])]
        self._check_keys()
        self._check_order(files["functions"])
        self.functions = [self._function(name, index) for index, name in enumerate(self.order)]
        by_name = {f.name: f for f in self.functions}
        if "narrow" in self.table:
            for f in self.functions:
                self._narrow(f, by_name, self.table["narrow"])
        self._check_facts()

    # --- checked-in lists -------------------------------------------------------------------------------------

    def _patterns(self, section):
        return [re.compile(text) for text in self.table.get(section, {}).get("match", [])]

    def _check_keys(self):
        known = CLASS_KEYS | set(self.facts)
        entries = [(c["match"], c) for c in self.table.get("class", [])] + list(self.table.get("function", {}).items())
        for name, entry in entries:
            if set(entry) - known:
                raise TableError(f"{self.files['annotations']}: {name} says {' '.join(sorted(set(entry) - known))}, "
                                 "which means nothing: a key is one of the generator's or stands under [facts]")

    def _check_order(self, path):
        if len(set(self.order)) != len(self.order):
            raise TableError(f"{path}: a function is listed twice; every index must mean one function for ever")
        declared = {name for header in self.headers.values() for name in header.functions}
        new = sorted(declared - set(self.order))
        if new:
            raise TableError(f"{path}: append these functions of this host's header at the end (never reorder): "
                             + " ".join(new))

    def check_exports(self, symbols):
        """Checks that the table has every function that a program may link with. `symbols` per implementation: see
        header.dynamic_symbols."""
        wanted, prefix = re.compile(self.library["names"]), self.library["weak_prefix"]
        for implementation, exported in symbols.items():
            known = {p + f.name for f in self.functions if implementation in f.results for p in ("", prefix)}
            unknown = sorted(name for name, symbol in exported.items()
                             if symbol.kind == "FUNC" and wanted.match(name) and name not in known)
            if unknown:
                raise TableError("the library exports, and no header declares (undeclared.h is the place, or a class that refuses it): " + " ".join(unknown))

    def _check_frozen(self, path):
        """Checks the released indices: for each list, its length at the release and a digest of that many names."""
        sections = {name: list(entries) for name, entries in self.table.items() if isinstance(entries, dict)}
        lists = {**sections, **self.table.get("numbered", {}), "functions": self.order, **self.predefined}
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
        removed = self.library.get("removed")
        return value is not None and not (removed and value.startswith(removed))

    # --- functions --------------------------------------------------------------------------------------------

    def _class_of(self, name):
        found = [entry for pattern, entry in self._classes if pattern.search(name)]
        single = self.table.get("function", {}).get(name)
        if self.library["explicit"] and (len(found) > 1 or not found and single is None):
            raise TableError(f"{self.files['annotations']}: {name} must be in exactly one class, and is in "
                             + (" and ".join(entry["match"] for entry in found) or "none"))
        return {**(found[0] if found else {}), **(single or {})}

    def _function(self, name, index):
        entry = self._class_of(name)
        prototypes = {i: h.functions[name] for i, h in self.headers.items() if name in h.functions}
        if entry.get("refuse"):  # of a private function that is not called, the parameters do not matter
            private = {i: Prototype(name, self.library["code"]) for i, h in self.headers.items() if name in h.exported}
            prototypes = {**private, **prototypes}
        said = {key: entry[key] for key in ("upper", "lower", "why", "text", "seam", "wide", "sticky", "refuse") if key in entry}
        f = Function(name, index, {i: p.result for i, p in prototypes.items()}, [], **said)
        f.facts = {key: entry.get(key, "") for key in self.facts}
        f.optional_results = any(pattern.search(name) for pattern in self._optional)
        f.pending = any(pattern.search(name) for pattern in self._pending)
        if f.refuse:
            f.lower = "none"
        if not prototypes:
            f.upper = f.lower = "none"
            f.why = "in no header of this host"
            return f
        results = set(f.results.values())
        f.returns_code = results == {self.library["code"]}
        result = next(iter(f.results.values()))
        f.seam_result = self.seam_types.get(result, result if self.library["same_types"] else "int64_t")
        f.undeclared = any(p.undeclared for p in prototypes.values())
        arities = {len(p.arguments) for p in prototypes.values()}
        if len(arities) != 1:
            raise TableError(f"{name} has different numbers of parameters in the headers; it needs entries by hand")
        if len(self.names.get(name, [])) not in (0, *arities):
            raise TableError(f"{self.files['parameters']}: {name} has {len(self.names[name])} parameters there, in the header another number")
        f.variadic = any(p.variadic for p in prototypes.values())
        for position in range(arities.pop()):
            arguments = {i: p.arguments[position] for i, p in prototypes.items()}
            called = self.names[name][position] if name in self.names else next(reversed(arguments.values())).name
            f.parameters.append(self._parameter(f, called, arguments, entry.get("kinds", {})))
        f.once = any(f.facts[key] and self.facts[key].get("once") for key in f.facts)
        names = [p.name for p in f.parameters]
        for key, attribute in ROLES.items():
            setattr(f, attribute, self._object_of(f, key, entry.get(key, "")))
        f.finds = next((p.name for p in f.parameters if self.roles[p.role].finds), "")
        self._name_parameters(f)
        if self.library["explicit"]:
            self._check_explicit(f)
        f.makes = next((p.name for p in f.parameters if self.roles[p.role].makes), "")
        for p in f.parameters:
            if p.count and "(" not in p.count:
                alternatives = [c for c in p.count.split("|") if c in names]
                if not alternatives:
                    raise TableError(f"{name}:{p.name} needs a count; none of {p.count} is a parameter")
                p.count = alternatives[0]
            elif self.roles[p.role].length and not p.count:
                if "generated" in (f.lower, "" if self.library["same_types"] else f.upper) and not f.refuse:
                    raise TableError(f"{name}:{p.name} is an array whose length the table does not say")
        return f

    def _object_of(self, f, key, said):
        """The parameter that a key of ROLES names; it gets the role `handle_KEY` if that exists. `create = true`: the
        parameter that gets an object by its role."""
        if not said or said in PLACES and key == "set-state":
            return said or ""
        if said is True:
            said = next((p.name for p in f.parameters if self.roles[p.role].makes), "nothing")
        p = next((p for name in said.split("|") for p in f.parameters if p.name == name), None)
        if not p:
            raise TableError(f"{f.name}: {key} speaks of {said}, which is no parameter")
        if p.handle and p.role != "code" and f"handle_{ROLES[key]}" in self.roles:
            p.role = f"handle_{ROLES[key]}"
        return p.name

    def _check_explicit(self, f):
        """Checks that the table decides each function explicitly where types and names do not suffice."""
        where = f"{self.files['annotations']}: {f.name}"
        if set(f.results.values()) & set(self.handles) and f.way not in ("by hand", "refused at once"):
            raise TableError(f"{where} returns a handle; it must be written by hand or refused")
        if f.variadic and f.way not in ("by hand", "refused at once"):
            raise TableError(f"{where} takes any number of arguments; it must be written by hand or refused")
        if f.way == "by hand" and not f.why:
            raise TableError(f"{where} is written by hand for no reason")
        if f.upper == "generated" and f.lower == "generated":
            for p in f.parameters:
                if p.role == "callback":
                    raise TableError(f"{where}: {p.name} is a function of the program's; it must be written by hand or refused")
                if p.role == "value" and p.hidden:
                    raise TableError(f"{where}: {p.name} points at {', '.join(p.hidden)}; it must be written by hand or refused")
                if p.role == "handle_out":
                    raise TableError(f"{where}: {p.name} gets a handle; say whether the object is new (create) or known (a rule)")
        if f.way in ("create", "set-state") or f.way == "forwarded" and f.finds:
            self._check_arguments(f, where)

    def _check_arguments(self, f, where):
        """Checks the arguments of a call that is repeated: a pointer's rule must say whether its target or its address is
        the argument. A call that finds objects may have other results as well."""
        said = {name for key, names in f.facts.items() if names and self.facts[key].get("says_all")
                for name in str(names).split(", ")}
        if f.once:
            return
        for p in f.parameters:
            if p.role == "value" and p.pointer and p.name not in said and (p.constant or f.way != "forwarded"):
                raise TableError(f"{where}:{p.name} is a pointer; say by a rule what the call is made again with "
                                 "(text, value_in, values_in, address, result), or that it is kept")

    # --- facts --------------------------------------------------------------------------------------------------

    def _read_facts(self):
        """The family's facts, and the library's own, which have a note only."""
        path = self.files.get("facts")
        facts = tomllib.loads(path.read_text()) if path and path.exists() else {}
        for name, entry in facts.items():
            if set(entry) - FACT_KEYS:
                raise TableError(f"{path}: {name} says {' '.join(sorted(set(entry) - FACT_KEYS))}, which means nothing")
        return {**facts, **{name: {**facts.get(name, {}), "note": note} for name, note in self.table.get("facts", {}).items()}}

    def _name_parameters(self, f):
        """Resolves facts about parameters: each value is a parameter ("a|b": the one that the function has), or "*", all
        input parameters."""
        names = [p.name for p in f.parameters] + [CURRENT_DEVICE]
        for key, value in f.facts.items():
            if not value or self.facts[key].get("of") != "parameters" or value == "*":
                continue
            found = [next((c for c in choice.strip().split("|") if c in names), None) for choice in value.split(",")]
            if None in found:
                raise TableError(f"{f.name}: {key} speaks of {value}, which is no parameter")
            f.facts[key] = ", ".join(found)

    def _check_facts(self):
        for f in self.functions:
            for key, value in f.facts.items():
                other = self.facts[key].get("of", "parameters")
                if not value or other == "parameters":
                    continue
                for name in value.split(", "):
                    if name not in self.order and not any(g.facts.get(other) == name for g in self.functions):
                        raise TableError(f"{f.name}: {key} speaks of {name}, which no function {other}")

    def _parameter(self, f, name, arguments, kinds):
        # Constness and types come from the last header, which should declare most; positions are equal in all.
        a = next(reversed(list(arguments.values())))
        p = Parameter(name, "value", pointer=a.depth > 0, constant=a.const)
        p.types = {i: x.type for i, x in arguments.items()}
        p.labels = {i: x.name for i, x in arguments.items()}
        p.declarations = {i: x.declaration for i, x in arguments.items()}
        rule = next((r for pattern, r in self._rules
                     if any(pattern.search(f"{f.name}:{n}") for n in (name, *p.labels.values()))), None)
        handle = a.base if a.base in self.handles and not a.callback else ""
        if a.base == "function" or a.callback:
            p.role, p.seam = "callback", "void*"
        elif handle:
            p.kind, p.handle = self.handles[handle], handle
            p.seam = "Vid" if a.depth == 0 else "const Vid*" if a.const else "Vid*"
            p.role = "handle" if a.depth == 0 else "handles_in" if a.const or a.array else "handle_out"
            sets = self.table.get("kind_roles", {}).get(p.kind, {})
            p.role = sets.get(kinds.get(p.kind, "default"), {}).get(p.role, p.role)
        else:
            stars = "*" * a.depth
            base = self.seam_types.get(a.base)
            p.hidden = tuple(sorted(name for name in a.inside if name in self.handles or name == "function"))
            if base is None:
                p.seam = "int" if a.depth == 0 and a.enumeration else "void*" + stars[1:]
            else:
                p.seam = ("const " if a.const and a.depth else "") + base + stars
                p.written = a.depth == 1 and not a.const and not a.array and base in ("int", "int64_t", "double")
            p.role = self.table.get("type_roles", {}).get(a.base, "value")
        if self.library["same_types"]:
            p.seam, p.declaration = "", a.declaration
        # Rules select parameters by name. A rule for a handle or value passed by pointer does not apply to a parameter
        # of that name that is passed otherwise.
        if rule:
            role, _, detail = rule["role"].partition(":")
            if not self.roles[role].misfit(a.depth):
                p.role, p.detail, p.count, p.when = role, detail, rule.get("count", ""), rule.get("when", "")
                p.kind, p.handle = rule.get("kind", p.kind), p.handle or ("kind" in rule and a.type or "")
        return p

    def _narrow(self, f, by_name, table):
        """Lets a wide function call its narrow function if the counts fit and a recipe makes the narrow one's object
        again."""
        suffix, count, address = table["suffix"], table["count"], table["address"]
        if not f.name.endswith(suffix) or f.lower == "hand" or f.upper != "generated":
            return
        base = by_name.get(f.name[:-len(suffix)])
        if not base or base.lower != "hand" and not base.create or len(base.parameters) != len(f.parameters):
            return
        implementation = next(iter(f.results))
        if implementation not in base.results:
            return
        f.upper, f.lower, f.base = "narrow", "generated" if f.wide else "none", base.name
        f.why = "counts that fit into int are handed to the base function, " \
                + ("others to this one" if f.wide else "others refused")
        for mine, theirs in zip(f.parameters, base.parameters):
            a, b = mine.types[implementation], theirs.types[implementation]
            clean = lambda t: t.replace("const ", "").replace(" ", "")
            if clean(a) == clean(b):
                mine.narrow = "same"
            elif clean(a) == count and clean(b) == "int":
                mine.narrow = "int"
            elif clean(a).startswith(count) and clean(b).startswith(address):
                mine.narrow = f"cast:{b}"
            elif clean(a) == count + "*" and clean(b) == "int*" and "const" in a:
                mine.narrow = "array"
            elif clean(a) == count + "*" and clean(b) == "int*":
                mine.narrow = "out"
            else:
                raise TableError(f"{f.name}:{mine.name} cannot be expressed by {base.name} ({a} against {b})")
        for p in f.parameters:
            if p.narrow == "array":
                p.count = next((name for name in table["lengths"] if any(q.name == name for q in f.parameters)), "")
                if not p.count:
                    raise TableError(f"{f.name}:{p.name} is an array whose length is not known")
