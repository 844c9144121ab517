"""Reads a C header with castxml and the preprocessor: functions with their types, constants, and for every type whether
it is a handle, a pointer, an integer. Independent of any particular library. Build time only."""
import re
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass
class Argument:
    name: str
    type: str            # C type as a parameter ("const int *"), arrays decayed
    base: str            # name of the innermost type behind pointers, without qualifiers
    depth: int           # pointers in front of it (an array counts as one)
    const: bool          # the pointee is const
    array: bool          # written as an array
    callback: bool       # pointer to a function
    enumeration: bool    # the type is an enumeration, or points to one
    inside: frozenset    # types in the members of a structure, behind pointers too; "function" for pointers to functions
    declaration: str     # "const int counts[]" as C, for a definition


@dataclass
class Prototype:
    name: str
    result: str
    arguments: list = field(default_factory=list)
    variadic: bool = False
    undeclared: bool = False  # exported under a name that no header declares


class Header:
    """One parsed header. `flags`: the compiler's. `names`: a regular expression that selects functions. `symbols`: the
    library's exports; NAME with a twin's suffix, which no header declares, has NAME's prototype. `exported`: leaves out
    functions that the library does not export, because no program can link with them. `language`: castxml's name of it."""

    def __init__(self, header: Path, flags: list[str], names: str, symbols: dict = {}, twins: list[str] = [],
                 exported: bool = False, language: str = "c"):
        self.constants = self._macros(header, flags)
        self.elements = {e.get("id"): e for e in self._castxml(header, flags, language)}
        for element in self.elements.values():
            if element.tag == "Enumeration":
                for value in element.findall("EnumValue"):
                    self.constants[value.get("name")] = value.get("init")
        wanted = re.compile(names)
        self.functions = {}
        self.exported = {name for name, symbol in symbols.items() if symbol.kind == "FUNC"}
        for element in self.elements.values():
            # A static function is compiled into the program; only the functions that it calls are wrapped.
            if element.tag == "Function" and wanted.match(element.get("name")) and element.get("static") != "1":
                self.functions[element.get("name")] = self._prototype(element)
        for name, symbol in symbols.items():
            base = next((name[:-len(t)] for t in twins if name.endswith(t) and name[:-len(t)] in self.functions), None)
            if symbol.kind == "FUNC" and base and name not in self.functions:
                self.functions[name] = replace(self.functions[base], name=name, undeclared=True)
        if exported and symbols:
            self.functions = {name: function for name, function in self.functions.items() if name in symbols}

    @staticmethod
    def _castxml(header, flags, language):
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "header.xml"
            subprocess.run(["castxml", "--castxml-output=1", "-x", language, *flags, "-o", str(output), str(header)],
                           check=True)
            return ElementTree.parse(output).getroot()

    @staticmethod
    def _macros(header, flags):
        text = subprocess.run(["gcc", "-E", "-dM", *flags, str(header)], check=True, capture_output=True,
                              text=True).stdout
        found = re.findall(r"^#define ([A-Za-z_]\w*) (.+)$", text, re.M)
        return {name: value.strip() for name, value in found}

    def _element(self, reference):
        element = self.elements.get(reference)  # an element without children is false: compare with None
        return element if element is not None else self.elements[reference.rstrip("crv")]

    def _spell(self, reference, declarator=""):
        """C declaration of `declarator` with the type `reference`."""
        e = self._element(reference)
        inner = e.get("type")
        match e.tag:
            case "CvQualifiedType":
                qualifier = "const " if e.get("const") == "1" else "volatile "
                if self._element(inner).tag == "PointerType":
                    return self._spell(inner, qualifier + declarator)
                return qualifier + self._spell(inner, declarator)
            case "ElaboratedType":
                return self._spell(inner, declarator)
            case "Typedef" | "FundamentalType":
                return f"{e.get('name')} {declarator}".rstrip()
            case "Struct" | "Union" | "Enumeration":
                return f"{e.tag.lower().replace('enumeration', 'enum')} {e.get('name')} {declarator}".rstrip()
            case "PointerType":
                wrap = self._element(inner).tag in ("FunctionType", "ArrayType")
                return self._spell(inner, f"(*{declarator})" if wrap else f"*{declarator}")
            case "ArrayType":
                bound = e.get("max")
                return self._spell(inner, f"{declarator}[{int(bound) + 1 if bound else ''}]")
            case "FunctionType":
                arguments = ", ".join(self._spell(a.get("type")) if a.tag == "Argument" else "..." for a in e)
                return self._spell(e.get("returns"), f"{declarator}({arguments or 'void'})")
        raise ValueError(f"castxml element {e.tag} is not known to the generator")

    def _describe(self, reference):
        """(base name, pointer depth, pointee const, is a function pointer) of a type, typedefs kept."""
        depth, const = 0, False
        while True:
            e = self._element(reference)
            if e.tag == "CvQualifiedType":
                const = const or (depth > 0 and e.get("const") == "1")
            elif e.tag in ("PointerType", "ArrayType"):
                depth += 1
            elif e.tag == "FunctionType":
                return "function", depth, const, True
            elif e.tag == "Typedef":
                target = self._innermost(e.get("type"), ("Typedef", "ElaboratedType"))
                pointee = self._element(target.get("type")) if target.tag == "PointerType" else target
                return e.get("name"), depth, const, pointee.tag == "FunctionType"
            elif e.tag != "ElaboratedType":
                return e.get("name"), depth, const, False
            reference = e.get("type")

    def _innermost(self, reference, around=("CvQualifiedType", "PointerType", "ArrayType", "Typedef", "ElaboratedType")):
        """The element without what is around it: pointers, arrays, qualifiers and typedefs."""
        e = self._element(reference)
        while e.tag in around:
            e = self._element(e.get("type"))
        return e

    def _inside(self, reference):
        """See Argument.inside."""
        found, todo, seen = set(), [reference], set()
        while todo:
            e = self._element(todo.pop())
            if e.get("id") in seen:
                continue
            seen.add(e.get("id"))
            if e.tag == "FunctionType":
                found.add("function")
            elif e.tag in ("Struct", "Union"):
                fields = [self._element(m) for m in (e.get("members") or "").split()]
                todo += [f.get("type") for f in fields if f.tag == "Field"]
            elif e.get("type"):
                if e.tag == "Typedef" and len(seen) > 1:
                    found.add(e.get("name"))
                todo.append(e.get("type"))
        return frozenset(found)

    def _prototype(self, element):
        prototype = Prototype(element.get("name"), self._spell(element.get("returns")))
        for position, a in enumerate(element):
            if a.tag == "Ellipsis":
                prototype.variadic = True
                continue
            name = a.get("name") or f"argument{position}"
            base, depth, const, callback = self._describe(a.get("type"))
            original = a.get("original_type")
            prototype.arguments.append(Argument(
                name, self._spell(a.get("type")), base, depth, const,
                bool(original) and self._element(original).tag == "ArrayType", callback,
                self._innermost(a.get("type")).tag == "Enumeration",
                self._inside(a.get("type")) if self._innermost(a.get("type")).tag in ("Struct", "Union") else frozenset(),
                self._spell(a.get("type"), name)))
        return prototype


@dataclass
class Symbol:
    kind: str            # FUNC, OBJECT, ...
    size: int
    version: str = ""    # of the default version
    older: tuple = ()    # older versions, needed only by programs that were linked with them


def dynamic_symbols(library: Path):
    """{name: Symbol} of a shared library's exports."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", str(library)], check=True, capture_output=True,
                          text=True).stdout
    symbols = {}
    for line in text.splitlines():
        columns = line.split()
        if len(columns) < 8 or not columns[0].rstrip(":").isdigit() or columns[6] in ("UND", "ABS"):
            continue
        name, _, version = columns[7].partition("@")
        default = not version or version.startswith("@")
        symbol = symbols.setdefault(name, Symbol(columns[3], int(columns[2], 0)))
        if default:
            symbol.size, symbol.version = int(columns[2], 0), version.lstrip("@")
        else:
            symbol.older += (version,)
    return symbols
