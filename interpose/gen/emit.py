"""The data that the templates use: the parts of every function's body on either side, exported functions, the coverage
table; predefined handles and data symbols are in predefined.py. One template per output file. Build time only."""
import hashlib
import re
from pathlib import Path

import jinja2

from predefined import data_objects, fortran_integers, integer_handles, predefined  # noqa: F401 (generate.py calls fortran_integers)
from record import PLACES
from roles import CURRENT_DEVICE, TableError, fields

HERE = Path(__file__).parent


def environment(library: Path):
    """Finds the core's templates by name and the libraries' as FOLDER/NAME, which extend the core's."""
    own = {folder.name: jinja2.FileSystemLoader(folder / "templates") for folder in (*HERE.iterdir(), library)
           if (folder / "templates").is_dir()}
    loader = jinja2.ChoiceLoader([jinja2.FileSystemLoader(HERE / "templates"), jinja2.PrefixLoader(own)])
    made = jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
                              keep_trailing_newline=True)
    made.tests["numeral"] = lambda text: text.lstrip("-").isdigit()
    for offered in (upper_bodies, lower_bodies, calls, predefined, integer_handles, data_objects, versions):
        made.globals[offered.__name__] = offered
    return made


def write(path: Path, text: str):
    """Writes only if the text changed, so that nothing is recompiled unnecessarily."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# --- Bodies -------------------------------------------------------------------------------------------------------

def _parts(model, side, function, implementation, renamed):
    """For every parameter: its role, the names that its texts may use, and this side's texts, filled in."""
    rows = []
    for p in function.parameters:
        role = model.roles[p.role]
        names = fields(function, p, implementation, renamed)
        names["v"] = _read_when(role, p, names)
        texts = {key: text.format(**names) for key, text in role.texts(side, function.pending).items()}
        earlier = next((e for q, r, e, _ in rows if role.alias and r is role and q.kind == p.kind), None)
        if earlier:  # two parameters that are the same array stay the same array
            first = texts["argument"].replace(names["n"], earlier["n"])
            same = f"{names['n']} == {earlier['v'] if side == 'upper' else earlier['n']}"
            texts["argument"] = f"({same} ? {first} : {texts['argument']})"
        rows.append((p, role, names, texts))
    return rows


def _read_when(role, parameter, names):
    """The parameter as the upper half reads it: null where the library ignores what the program passed."""
    if not parameter.when:
        return names["n"]
    if not role.null:
        raise TableError(f"the role {role.name} of {names['f']}:{parameter.name} does not say what `when` leaves in its place (null)")
    return f"({names['w']} ? {names['n']} : {role.null.format(**names)})"


def _statements(model, side, function, renamed):
    """The statements that the library's table requires after a successful call."""
    lines = []
    for statement in model.table.get("statement", []):
        names = {"f": function.name}
        for name, wanted in statement["needs"].items():
            if wanted.startswith("@"):
                choices = str(function.facts.get(wanted[1:], "")).split("|")
                found = next((p for c in choices for p in function.parameters if p.name == c), None)
            else:
                role, _, kind = wanted.partition(":")
                found = function.first(role, kind)
            names[name] = found and renamed.get(found.name, found.name)
        if statement["side"] == side and all(names.values()):
            lines.append(statement["text"].format(**names))
    return lines


def _collect(rows, key):
    return [texts[key] for _, _, _, texts in rows if texts[key]]


def upper_bodies(model, implementation):
    """The template's data for every generated function of an application ABI."""
    bodies = []
    for f in model.functions:
        if implementation not in f.results or f.upper not in ("generated", "narrow"):
            continue
        renamed = {p.name: p.labels[implementation] for p in f.parameters}
        body = {"function": f, "name": f.name, "result": f.results[implementation], "renamed": renamed,
                "declaration": ", ".join(p.declarations[implementation] for p in f.parameters) or "void",
                "narrow": _narrow_body(f, renamed) if f.upper == "narrow" else None,
                "whole": f.upper != "narrow" or f.wide}
        if body["whole"]:
            rows = _parts(model, "upper", f, implementation, renamed)
            for key in ("before", "success", "always"):
                body[key] = _collect(rows, key)
            body["arguments"] = [texts["argument"] for _, _, _, texts in rows]
            body["success"] = _statements(model, "upper", f, renamed) + body["success"]
            body["refuse"] = _refusals(f, rows)
        bodies.append(body)
    return bodies


def _refusals(function, rows):
    """[(condition, error)]: pointers through which this side would write before the library checks them. Results that may
    be null are left out."""
    if function.optional_results:
        return []
    return [[text.format(**names) for text in pair] for p, role, names, _ in rows
            for pair in role.refuse + (role.refuse_by_hand if p.written and function.lower == "hand" else [])]


def _narrow_body(f, renamed):
    checks, before, arguments, after = [], [], [], []
    for p in f.parameters:
        n = renamed[p.name]
        if p.narrow == "int":
            checks.append(f"fits({n})")
            arguments.append(f"static_cast<int>({n})")
        elif p.narrow == "array":
            before.append(f"const NarrowArray {n}_({n}, {renamed.get(p.count, p.count)});")
            checks.append(f"{n}_.fits()")
            arguments.append(f"{n}_.data()")
        elif p.narrow == "out":
            before.append(f"int {n}_ = 0;")
            arguments.append(f"&{n}_")
            after.append(f"*{n} = {n}_;")
        elif p.narrow.startswith("cast:"):
            arguments.append(f"({p.narrow[5:]})({n})")
        else:
            arguments.append(n)
    return {"base": f.base, "checks": " && ".join(checks) or "true", "before": before, "after": after,
            "arguments": ", ".join(arguments)}


def lower_bodies(model, implementation):
    """The same for the lower half: every function; `kind` says whether it is generated or written by hand."""
    bodies = []
    for f in model.functions:
        body = {"function": f, "name": f.name, "parameters": f.seam_parameters, "result": f.seam_result, "kind": f.lower,
                "names": ", ".join(p.name for p in f.parameters), "create": None}
        if f.lower in ("generated", "text") and implementation not in f.results:
            body["kind"] = "missing"
        if body["kind"] == "generated":
            rows = _parts(model, "lower", f, implementation, {})
            for key in ("before", "success", "always"):
                body[key] = _collect(rows, key)
            body["live"] = _live(model, f)
            body["call"] = model.library["call"].format(f=f.name)
            if f.facts.get("needs_room"):
                if not model.library["room_call"]:
                    raise TableError(f"{f.name} needs_room, and [library] has no room_call")
                body["call"] = f"{model.library['room_call']}({body['call']})"
            body["arguments"] = ", ".join(f"{p.name}_" if p in body["live"] else texts["argument"] for p, _, _, texts in rows)
            if f.create and "remake" in model.library:
                _make_again(f, body, rows)
            if model.library["family"]:
                _recipe(model, f, body, implementation)
            body["success"] += _statements(model, "lower", f, {})
            body["single"] = len(f.results) < len(model.headers)
        bodies.append(body)
    return bodies


def calls(model):
    """{body: [function]} of the functions by hand that only call a body which they share ([calls])."""
    return {body: [f for f in model.functions if f.lower == "hand" and re.search(pattern, f.name)]
            for body, pattern in model.table.get("calls", {}).items()}


def _live(model, f):
    """The handles to check before the call: NVIDIA's libraries may dereference the handle of an ended object."""
    checked = model.library["family"] and model.library["ended"] and f.returns_code
    return [p for p in f.parameters if checked and p.role in ("handle", "handle_free", "handle_set")]


def _make_again(f, body, rows):
    """For a function that makes an object: the call as a separate part, whose arguments are written into a recipe
    (handles/recipe.h) and read from it."""
    made = next(row for row in rows if row[0].name == f.create)
    rest = [row for row in rows if row is not made]
    write, read = [], []
    for p, _, names, texts in rest:
        n, c = names["n"], names["c"]
        if texts["success"] or texts["always"]:
            raise TableError(f"{f.name}:{p.name} is a result; a function with one cannot be made again from a recipe")
        if "*" in p.seam and not c:
            raise TableError(f"{f.name}:{p.name} is an array in a recipe, whose length the table does not say")
        item = p.seam.replace("const ", "").rstrip("* ")
        if p.kind:
            write.append(f"recipe_.handles({n}, {c});" if c else f"recipe_.handle({n});")
            read.append(f"const auto* {n} = from_.handles();" if c else f"const auto {n} = from_.handle();")
        else:
            write.append(f"recipe_.array({n}, {c});" if c else f"recipe_.value({n});")
            read.append(f"const auto* {n} = from_.array<{item}>();" if c else f"const auto {n} = from_.value<{item}>();")
    parameter, _, names, texts = made
    n, passed = names["n"], "".join(f"{p.name}, " for p, *_ in rest)
    body["create"] = {"made": n, "handle": parameter.handle, "names": passed, "read": read, "before": _collect(rest, "before"),
                      "parameters": "".join(f"{p.seam} {p.name}, " for p, *_ in rest) + f"{parameter.handle}* {n}_",
                      "arguments": ", ".join(f"{n}_" if row is made else row[3]["argument"] for row in rows)}
    body["call"], body["arguments"] = f"make_{f.name}", passed + texts["argument"]
    body["before"], body["always"] = [texts["before"]], [texts["always"]]
    body["success"] = ["cropdl::handles::RecipeWriter recipe_;", *write, texts["success"]]


def _recipe(model, f, body, implementation):
    """For a function of a library with one ABI that a restart repeats: the code that writes, reads and passes its
    arguments; and for a set-state function the state that it sets (interpose/one_abi/lower.h)."""
    body["made_again"] = None
    body["early"] = any(p.role in EARLY and p.pointer and not p.constant for p in f.parameters)
    rows = [(p, fields(f, p, implementation, {})) for p in f.parameters]
    if f.again:
        again = {key: [] for key in ("write", "read", "argument", "success")}
        for p, names in rows:
            texts = model.roles[p.role].recipe_texts()
            if texts is None:
                raise TableError(f"{f.name}:{p.name} has the role {p.role}, of which a call that is made again cannot be made")
            for key, text in texts.items():
                if text:
                    again[key].append(text.format(**names))
        body["made_again"] = again
    body["within"] = _within(f)
    body["spoils"] = [f"rt::lose_recipe(rt::word_of({p.name}, rt::kind::{p.kind}), kLibrary, seam::kFn_{f.name});"
                      for p in f.parameters if p.name in (f.facts.get("spoils") or "").split(", ")]
    body["keep"], body["undo"], body["touched"] = [], [], ""
    if not f.set:
        return
    places = {"library": "rt::kOfLibrary", "thread": "rt::kOfThread", "current": "rt::kOfCurrent"}
    of = places.get(f.set) or next(_object(p) for p in f.parameters if p.name == f.set)
    keys = f.facts.get("key") or ""
    wanted = [p.name for p in f.parameters] if keys == "*" else keys.split(", ") if keys else []
    body["key"] = [text.format(**names).replace("recipe_.", "key_.") for p, names in rows if p.name in wanted
                   for text in [(model.roles[p.role].recipe_texts() or {}).get("write", "")] if text]
    if CURRENT_DEVICE in wanted:
        body["key"] += ["const int device_ = rt::current_device();", "key_.value(device_);"]
        if body["made_again"]:
            body["key"].append("recipe_.on_device(device_);")
    body["of"] = of
    if f.once and f.set not in places:
        body["touched"] = of
    if f.again:
        body["keep"] = [f.facts.get("number") or _number_of(model, f.facts.get("sets") or f.name)]
    body["undo"] = [_number_of(model, name) for name in (f.facts.get("undoes") or "").split(", ") if name]


def _object(p):
    """The object that a parameter names, as a word. For an address in the program's code: the object registered with it."""
    return f"rt::code_object({p.name})" if p.role in ("code", "code_address") else f"rt::word_of({p.name}, rt::kind::{p.kind})"


# Roles of input parameters that the call may change unless they are declared constant.
EARLY = ("value_in", "values_in", "text", "handles_in")


def _within(f):
    """The statement, after a successful call, that says with which parent the new object ends."""
    child = next((p for p in f.parameters if p.name == (f.makes or f.finds)), None)
    parent = next((p for name in (f.facts.get("within") or "").split("|") for p in f.parameters if p.name == name), None)
    if not child or not parent:
        return ""
    words = f"rt::word_of(*{child.name}, rt::kind::{child.kind}), {_object(parent)}"
    return f"if ({child.name}) rt::{'ends_with' if f.makes else 'found_within'}({words});"


def _number_of(model, name):
    """The set thing as a fixed number, which images contain."""
    return "0x" + hashlib.sha256(f"{model.library['name']} {name}".encode()).hexdigest()[:16]


# --- Exported functions ---------------------------------------------------------------------------------------------

def versions(model, symbols):
    """{version: [name]} of the functions in the library's export map, "" for none, both names of a weak alias; versions in
    the order of their names."""
    prefix, found = model.library["weak_prefix"], {}
    for f in model.functions:
        for name in {f.name, prefix + f.name}:
            if f.results and name in symbols or f.results and model.library["stub"] and name == f.name:
                if name not in symbols:
                    found.setdefault("", []).append(name)
                    continue
                if symbols[name].older:
                    raise TableError(f"{name} has also the versions {' '.join(symbols[name].older)}, which programs linked long ago "
                                     "ask for; it must be written by hand")
                found.setdefault(symbols[name].version, []).append(name)
    return {version: sorted(found[version]) for version in sorted(found)}


# --- The coverage table ---------------------------------------------------------------------------------------------

def coverage(model):
    rows = [("function", "way", "upper", "lower", "in", "why")]
    for f in model.functions:
        notes = [text for text in (f.why, f.refuse) if text]
        if f.sticky:
            notes.append("not checkpointable once called: " + f.sticky)
        elif f.way == "refused at a cut":
            notes.append(f"as long as the object lives that {f.makes} gets: it has no recipe")
        if PLACES.get(f.set):
            notes.append(PLACES[f.set])
        for key, fact in model.facts.items():
            if f.facts.get(key) and fact.get("note"):
                notes.append(fact["all"] if f.facts[key] == "*" and "all" in fact else fact["note"].format(f.facts[key]))
        rows.append((f.name, f.way, f.upper, f.lower, "+".join(sorted(f.results)) or "none", "; ".join(notes)))
    return rows
