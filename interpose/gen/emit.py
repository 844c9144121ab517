"""Turns the model into C++: fills the templates. One function per output file.

Runs at build time only."""
import re
from pathlib import Path

import jinja2

import snippets

TEMPLATES = Path(__file__).parent / "templates"


def environment():
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True,
                              undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    made.tests["numeral"] = lambda text: text.lstrip("-").isdigit()
    return made


def write(path: Path, text: str):
    """Only when it changed, so that nothing is compiled again without need."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _fill(side, function, parameter, implementation, renamed=None):
    snippet = side[parameter.role]
    array = "rt::HandleArray"
    if re.match(r"\w+?_I[a-z]|.*_init(_c)?$", function.name):
        array = "keep"
    parts = snippets.fill(snippet, function, parameter, implementation, renamed, array)
    # Two arrays that are one stay one: MPIs recognise aliased buffers by their arrays of types, too.
    earlier = next((p for p in function.parameters[:function.parameters.index(parameter)]
                    if p.role == parameter.role == "handles_in" and p.kind == parameter.kind), None)
    if earlier:
        names = [(renamed or {}).get(p.name, p.name) for p in (parameter, earlier)]
        first = parts["argument"].replace(names[0], names[1])
        parts["argument"] = f"({names[0]} == {names[1]} ? {first} : {parts['argument']})"
    if parameter.role == "text_out" and side is snippets.UPPER:
        capacity, _, length = parameter.detail.partition(":")
        if length and renamed:
            length = renamed.get(length, length)
        parts["success"] = f"text_out({parameter.name if not renamed else renamed.get(parameter.name)}, " \
                           f"{parameter.name if not renamed else renamed.get(parameter.name)}_, {capacity}, " \
                           f"{length or 'nullptr'});"
    return parts


def _error_object(function, renamed):
    if function.errors:
        return f"make_vid(Kind::k{function.errors}, 0)"
    for p in function.parameters:
        if p.role == "handle" and p.kind in ("Comm", "Win", "File"):
            return f"handle_in<Kind::k{p.kind}>({renamed[p.name]})"
    return "kNoObject"


def _null_checks(function, renamed, error_object):
    """Where this side would write through a pointer before any MPI looks at it: null is the error that the program's
    MPI makes of it. Results of the tool interface may be null: not wanted."""
    if function.optional_results:
        return []
    checks = []
    for p in function.parameters:
        name, error = renamed[p.name], ""
        if p.role in ("handle_out", "handle_inout", "handle_free"):
            error = f"null_result(Kind::k{p.kind}, seam::kFn_{function.name})"
        elif p.role == "info_out":
            error = f"null_result(Kind::kInfo, seam::kFn_{function.name})"
        elif p.role in ("flags_out", "text_out", "status_in", "status_inout"):
            error = "seam::kErrArg"
        elif p.role in ("value", "constant_out", "constant_always") and p.written and function.lower == "hand":
            error = "seam::kErrArg"
        if error:
            checks.append(f"if (__builtin_expect(!{name}, 0)) return fail({error_object}, {error}, seam::kFn_{function.name});")
        if p.role == "handles_inout":
            count = renamed.get(p.count, p.count)
            checks.append(f"if (__builtin_expect({count} < 0, 0)) return fail({error_object}, kNegativeCount, seam::kFn_{function.name});")
            checks.append(f"if (__builtin_expect({count} > 0 && !{name}, 0)) return fail({error_object}, null_result(Kind::k{p.kind}, seam::kFn_{function.name}), "
                          f"seam::kFn_{function.name});")
    return checks


def upper_bodies(model, abi):
    """What the template needs for every function of an application ABI that is generated."""
    bodies = []
    for f in model.functions:
        if abi not in f.results or f.upper not in ("generated", "narrow"):
            continue
        renamed = {p.name: p.labels[abi] for p in f.parameters}
        declaration = ", ".join(p.declarations[abi] for p in f.parameters) or "void"
        body = {"name": f.name, "result": f.results[abi], "declaration": declaration}
        if f.upper == "narrow":
            body["narrow"] = _narrow_body(f, renamed)
        if f.upper != "narrow" or f.wide:
            parts = [_fill(snippets.UPPER, f, p, abi, renamed) for p in f.parameters]
            for key in ("before", "success", "always"):
                body[key] = [x[key] for x in parts if x[key]]
            body["arguments"] = "".join(", " + x["argument"] for x in parts)
            body["object"], body["tool"] = _error_object(f, renamed), f.optional_results
            body["completes"] = f.completes
            body["before"] = _null_checks(f, renamed, body["object"]) + body["before"]
            body["inherit"] = _inherit(f, renamed) if f.inherit else ""
        bodies.append(body)
    return bodies


def _inherit(f, renamed):
    new = next((p for p in f.parameters if p.role == "handle_out" and p.kind == "Comm"), None)
    return f"inherit_errhandler(handle_in<Kind::kComm>({renamed[f.inherit]}), {renamed[new.name]}_);" if new else ""


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
    bodies = []
    for f in model.functions:
        body = {"name": f.name, "parameters": f.seam_parameters, "result": f.seam_result, "kind": f.lower,
                "text": f.text, "collective": "", "meets": ""}
        if f.lower in ("generated", "text") and implementation not in f.results:
            body["kind"] = "missing"
        if body["kind"] == "generated":
            parts = [_fill(snippets.LOWER, f, p, implementation) for p in f.parameters]
            for key in ("before", "success", "always"):
                body[key] = [x[key] for x in parts if x[key]]
            body["arguments"] = ", ".join(x["argument"] for x in parts)
            body["names"] = ", ".join(p.name for p in f.parameters)
            body["code"], body["tool"] = f.returns_code, f.optional_results
            first = next((p.name for p in f.parameters if p.role == "handle" and p.kind == "Comm"), "")
            body["collective"] = first if f.collective else ""
            body["meets"] = f"seam::kFn_{f.name}" if f.meets else ""
            body["communicator"] = first
            body["success"] += _kept(f)
            body["sticky"] = f.sticky
            body["single"] = len(f.results) < len(model.headers)
        bodies.append(body)
    return bodies


def _kept(f):
    """A reduction that goes on after the call uses its operation until its request is complete."""
    request = next((p.name for p in f.parameters if p.role == "handle_out" and p.kind == "Request"), None)
    operation = next((p.name for p in f.parameters if p.role == "handle" and p.kind == "Op"), None)
    return [f"rt::keep_op(*{request}, {operation});"] if request and operation else []


def predefined(model, implementation=None):
    """[(kind, C handle type, [(index, name, available)])]"""
    rows = []
    for handle, kind in model.handles.items():
        names = model.predefined.get(handle, [])
        rows.append((kind, handle, [(i, n, implementation is None or model.available(implementation, n))
                                    for i, n in enumerate(names)]))
    return rows


def integer_handles(model, abi):
    """{kind: (multiplier, bits, table)}: predefined handles that are integers, as a hash without collisions."""
    constants = model.headers[abi].constants
    tables = {}
    for kind, handle, names in predefined(model, abi):
        values = {}
        for index, name, available in names:
            value = _integer(constants, name) if available else None
            if value is not None and value not in values:
                values[value] = index
        if not values:
            continue
        bits = max(1, (2 * len(values) - 1).bit_length())
        multiplier = next(m for m in range(0x9e3779b1, 1 << 32, 2)
                          if len({(v * m & 0xffffffff) >> (32 - bits) for v in values}) == len(values))
        table = [(0, None)] * (1 << bits)
        for value, index in values.items():
            table[(value * multiplier & 0xffffffff) >> (32 - bits)] = (value, index)
        tables[kind] = {"multiplier": multiplier, "bits": bits, "table": table}
    return tables


def _integer(constants, name):
    text = constants.get(name, "")
    for _ in range(4):
        found = re.search(r"0x[0-9a-fA-F]+", text)
        if found:
            return int(found.group(0), 16)
        inner = re.search(r"([A-Z]\w{3,})\)*$", text)
        if not inner or inner.group(1) not in constants:
            return None
        text = constants[inner.group(1)]
    return None


def data_objects(model, symbols, abi, pointers):
    """[(symbol, size, first word or None, pointee or None)] for every object a library exports."""
    constants = model.headers[abi].constants
    vids = {}
    for number, (kind, handle, names) in enumerate(predefined(model)):
        for index, name, _ in names:
            match = re.search(r",\s*(\w+)\)", constants.get(name, ""))
            symbol = match.group(1) if match else model.table.get("objects", {}).get(name)
            if symbol and (match or symbol in symbols):
                vids.setdefault(symbol, (number + 1) << 24 | index)
    rows = []
    for name, (kind, size, _) in sorted(symbols.items()):
        if kind != "OBJECT":
            continue
        pointee = pointers.get(name) if pointers.get(name) in symbols else None
        pointee = pointee or (name[:-5] if name.endswith("_addr") and name[:-5] in symbols else None)
        if size:
            rows.append((name, size, vids.get(name), pointee))
    missing = sorted(set(vids) - {r[0] for r in rows})
    if missing:
        raise RuntimeError(f"the library does not export the predefined handles {' '.join(missing)}")
    return rows


def fortran_integers(files):
    """{name: integer} from `parameter (NAME=NUMBER)` lines of Fortran headers."""
    found = {}
    for file in files:
        for name, value in re.findall(r"parameter\s*\(\s*(\w+)\s*=\s*(-?\d+)\s*\)", file.read_text(), re.I):
            found[name] = int(value)
    return found


def coverage(model):
    rows = [("function", "upper", "lower", "in", "why")]
    for f in model.functions:
        notes = [f.why] if f.why else []
        if f.sticky:
            notes.append("not checkpointable once called: " + f.sticky)
        if f.collective:
            notes.append("counted as a collective")
        if f.meets:
            notes.append("held like a collective")
        rows.append((f.name, f.upper, f.lower, "+".join(sorted(f.results)) or "none", "; ".join(notes)))
    return rows
