"""The record of one function: whether each side is generated or written by hand, the role of every parameter, and the
signature in the seam. model.py fills it, emit.py and the templates read it."""
from dataclasses import dataclass, field

# The table's key for a function's effect on an object, and the attribute of Function that names the parameter.
ROLES = {"create": "create", "free": "free", "set-state": "set"}
# Values of `set-state` that are not a parameter: the state's owner, and the note in the coverage table.
PLACES = {"library": "", "thread": "the calling thread's state",
          "current": "the state of what is current in the calling thread (a device, a context)"}


@dataclass
class Parameter:
    name: str
    role: str                 # see the library's roles.toml
    detail: str = ""          # constant group, capacity, ...
    kind: str = ""            # seam kind of a handle
    handle: str = ""          # its C type
    count: str = ""           # C expression of an array's length
    when: str = ""            # C++ condition; where it is false, the library ignores the parameter
    seam: str = ""            # C++ type in the seam; "": as declared
    declaration: str = ""     # the C declaration if `seam` is empty
    written: bool = False     # a single value that the function writes, not an array or a buffer
    narrow: str = ""          # conversion to the narrow function's parameter
    pointer: bool = False     # passed by address
    constant: bool = False    # passed by address, and the function does not change the value
    hidden: tuple = ()        # handles and functions among the members of a structure
    types: dict = field(default_factory=dict)         # C type per implementation
    declarations: dict = field(default_factory=dict)  # C declaration per implementation
    labels: dict = field(default_factory=dict)        # the parameter's own name per implementation


@dataclass
class Function:
    name: str
    index: int
    results: dict             # C type of the result per implementation that has the function
    parameters: list
    upper: str = "generated"
    lower: str = "generated"
    why: str = ""
    create: str = ""          # the parameter that gets the new object, which a recipe makes again
    free: str = ""            # the parameter whose object ends here, and its recipe with it
    set: str = ""             # the parameter whose object's state changes, kept with its recipe; or one of PLACES
    sticky: str = ""          # why the process cannot be saved after this call
    refuse: str = ""          # why it is not called at all
    facts: dict = field(default_factory=dict)  # entries of the table that only the library's templates understand
    wide: bool = False        # a wide function, called itself if its counts do not fit the narrow function
    pending: bool = False     # the operation continues after the call returns
    optional_results: bool = False  # the program may pass null instead of a result's address
    text: str = ""
    seam: str | None = None
    base: str = ""            # the narrow function by which a wide function is expressed
    seam_result: str = "int"
    returns_code: bool = False
    variadic: bool = False
    once: bool = False        # a fact says that the call is never repeated
    undeclared: bool = False  # exported under a name that no header declares
    makes: str = ""           # a parameter that gets a new object
    finds: str = ""           # a parameter that gets an existing object: the same call finds it again

    @property
    def way(self):
        """How the function is handled, in the coverage table's words."""
        if not self.results:
            return "absent"
        if self.refuse:
            return "refused at once"
        if self.base and not self.wide or (self.upper, self.lower) == ("generated", "none"):
            return "by another"
        if "hand" in (self.upper, self.lower) or self.lower == "text":
            return "by hand"
        if self.sticky:
            return "refused at a cut"
        recipe = next((key for key in ROLES if getattr(self, ROLES[key])), "")
        return recipe or ("refused at a cut" if self.makes else "forwarded")

    @property
    def again(self):
        """Whether a restart repeats the call from its recipe, by generated code."""
        return self.lower == "generated" and not self.once and bool(self.results) \
            and (self.way in ("create", "set-state") or self.way == "forwarded" and bool(self.finds))

    @property
    def seam_parameters(self):
        if self.seam is not None:
            return self.seam or "void"
        return ", ".join(f"{p.seam} {p.name}" if p.seam else p.declaration for p in self.parameters) or "void"

    def first(self, roles, *kinds):
        """The first parameter with one of the roles ("a|b") and one of the kinds, or None."""
        return next((p for p in self.parameters if p.role in roles.split("|") and p.kind in kinds), None)
