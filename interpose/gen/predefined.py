"""The predefined handles of a library, and the data symbols that its shim exports. Build time only."""
import re

from roles import TableError


def predefined(model, implementation=None):
    """[(kind, C handle type, [(index, name, available)])]"""
    return [(kind, handle, [(i, n, implementation is None or model.available(implementation, n))
                            for i, n in enumerate(model.predefined.get(handle, []))])
            for handle, kind in model.handles.items()]


def integer_handles(model, implementation):
    """{kind: (multiplier, bits, table)}: predefined handles that are integers, as a hash without collisions."""
    constants = model.headers[implementation].constants
    tables = {}
    for kind, handle, names in predefined(model, implementation):
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


def data_objects(model, symbols, implementation, fortran):
    """[(symbol, size, the assembler's lines of its contents)] for every object a library exports. `symbols`: see
    header.dynamic_symbols. The first word of a predefined handle's object is its vid (interpose/seam), the others are
    those that the table's object_fields gives its kind."""
    constants = model.headers[implementation].constants
    pointers, suffix = model.table.get("pointers", {}), model.library.get("pointer_suffix")
    pattern = model.library.get("predefined_symbol")
    vids, fields_of = {}, model.table.get("object_fields", {})
    for number, (kind, _, names) in enumerate(predefined(model)):
        for index, name, _ in names:
            match = re.search(pattern, constants.get(name, "")) if pattern else None
            symbol = match.group(1) if match else model.table.get("objects", {}).get(name)
            if symbol and (match or symbol in symbols):
                vid = (number + 1) << 24 | index
                vids.setdefault(symbol, {0: f".long   {vid:#x}", **_fields(fields_of.get(kind, {}), symbol, index, vid, fortran.get(name))})
    rows = []
    for name, symbol in sorted(symbols.items()):
        if symbol.kind != "OBJECT":
            continue
        pointee = pointers.get(name) if pointers.get(name) in symbols else None
        if not pointee and suffix and name.endswith(suffix) and name[:-len(suffix)] in symbols:
            pointee = name[:-len(suffix)]
        if symbol.size:
            rows.append((name, symbol.size, _contents(symbol.size, {0: f".quad   {pointee}"} if pointee else vids.get(name, {}))))
    missing = sorted(set(vids) - {r[0] for r in rows})
    if missing:
        raise RuntimeError(f"the library does not export the predefined handles {' '.join(missing)}")
    return rows


def _fields(table, symbol, index, vid, number):
    """{offset: the assembler's line} of what other libraries read in a predefined handle's object. A null handle has no
    address. `number`: Fortran's integer for the handle, or None; then it is the vid (upper/fortran_handles.h)."""
    lines = {}
    if "address" in table and index:
        lines[table["address"]] = f".quad   {symbol}"
    if "fortran" in table and (number or number is None and index):
        lines[table["fortran"]] = f".long   {number or vid:#x}"
    return lines


def _contents(size, fields):
    """The lines of a symbol of `size` bytes that is zero but for `fields`, {offset: line}."""
    lines, at = [], 0
    for offset, line in sorted(fields.items()):
        if offset > at:
            lines.append(f".zero   {offset - at}")
        lines.append(line)
        at = offset + (8 if line.startswith(".quad") else 4)
    if at > size:
        raise TableError(f"a field at {max(fields)} is beyond the end of an object of {size} bytes")
    return lines + [f".zero   {size - at}"] * (at < size)


def fortran_integers(files):
    """{name: integer} from `parameter (NAME=NUMBER)` lines of Fortran headers."""
    return {name: int(value) for file in files
            for name, value in re.findall(r"parameter\s*\(\s*(\w+)\s*=\s*(-?\d+)\s*\)", file.read_text(), re.I)}
