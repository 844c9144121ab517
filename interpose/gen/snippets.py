"""What a parameter's role means on either side of the seam: the statement before the call, the argument, the
statement after a call that succeeded, and the one after any call. In the texts: {n} the parameter, {T} its C
type, {P} what it points to, {K} the seam kind, {k} the runtime's translator of that kind, {H} the handle's C type, {c} the array's
length, {g} the group of constants or flags, {f} the function.

Runs at build time only. The functions named here are in interpose/mpi/upper/shim.h (upper) and
interpose/mpi/lower/runtime.h (lower, as rt::)."""


def role(before="", argument="{n}", success="", always=""):
    return {"before": before, "argument": argument, "success": success, "always": always}


UPPER = {
    "value": role(),
    "callback": role(argument="reinterpret_cast<void*>({n})"),
    "buffer": role(argument="buffer_in({n})"),
    "handle": role(argument="handle_in<Kind::k{K}>({n})"),
    # The null handle may come with an error, too.
    "handle_out": role("Vid {n}_ = kUnsetVid;", "{n} ? &{n}_ : nullptr", "",
                       "if ({n} && {n}_ != kUnsetVid) *{n} = handle_out<Kind::k{K}>({n}_);"),
    "handle_inout": role("Vid {n}_ = handle_in<Kind::k{K}>(*{n});", "&{n}_", "",
                         "*{n} = handle_out<Kind::k{K}>({n}_);"),
    "handle_free": role("Vid {n}_ = handle_in<Kind::k{K}>(*{n}); const Vid {n}_freed_ = {n}_;", "&{n}_",
                        "drop_object({n}_freed_); *{n} = handle_out<Kind::k{K}>({n}_);"),
    "handles_in": role("Handles<Kind::k{K}> {n}_({n}, {c});", "{n}_.vids()"),
    "handles_inout": role("Handles<Kind::k{K}> {n}_({n}, {c});", "{n}_.vids()", "", "{n}_.write_back({n});"),
    "handles_out": role("Handles<Kind::k{K}> {n}_({c});", "{n}_.vids()", "{n}_.write_back({n});"),
    "infos_null": role("Handles<Kind::kInfo> {n}_({c});", "{n}_.vids()"),
    "info_in": role("const LowerInfo {n}_({n});", "{n}_.vid()"),
    "info_null": role(argument="make_vid(Kind::kInfo, 0)"),
    "info_out": role("Vid {n}_ = make_vid(Kind::kInfo, 0);", "&{n}_", "*{n} = info_from_lower({n}_);"),
    # A status the lower half leaves alone (nothing complete, nothing there) stays as it was for the program, too.
    "status_out": role("seam::Status {n}_{{0, 0, kUnsetError, 0, 0}};", "status_wanted({n}) ? &{n}_ : nullptr", "",
                       "if (status_wanted({n}) && {n}_.error != kUnsetError) status_out({n}_, {n});"),
    "status_in": role("const seam::Status {n}_ = status_in(*{n});", "&{n}_"),
    "status_inout": role("seam::Status {n}_ = status_in(*{n});", "&{n}_", "status_out({n}_, {n});"),
    "statuses_out": role("Statuses {n}_({n}, {c});", "{n}_.data()", "", "{n}_.write_back({n});"),
    "constant": role(argument="to_seam_{g}({n})"),
    "constant_out": role("{P} {n}_ = 0;", "{n} ? &{n}_ : nullptr", "if ({n}) *{n} = from_seam_{g}({n}_);"),
    # Set even if the call returns an error (requests of several that failed, an index among them).
    "constant_always": role("{P} {n}_ = {n} ? *{n} : 0;", "{n} ? &{n}_ : nullptr", "",
                            "if ({n}) *{n} = from_seam_{g}({n}_);"),
    "constants_in": role("const Constants {n}_({n}, {c}, to_seam_{g}<int>);", "{n}_.data()"),
    "constants_out": role("", "{n}", "for (int i = 0; i < {c}; ++i) {n}[i] = from_seam_{g}({n}[i]);"),
    "flags": role(argument="to_seam_{g}({n})"),
    "flags_out": role("int {n}_ = 0;", "&{n}_", "*{n} = from_seam_{g}({n}_);"),
    "weights": role(argument="weights_in({n})"),
    "all_handles": role(argument="all_handles_in({n})"),
    "text_out": role("char {n}_[kTextCapacity] = \"\";", "{n}_", "text_out({n}, {n}_, {g});"),
}

LOWER = {
    "value": role(argument="({T})({n})"),
    "callback": role(argument="({T})({n})"),
    "buffer": role(argument="rt::buffer_in({n})"),
    "handle": role(argument="rt::{k}({n})"),
    "handle_out": role("{H} {n}_{{}};", "{n} ? &{n}_ : nullptr", "if ({n}) *{n} = rt::adopt_{k}({n}_, seam::kFn_{f});",
                       "if ({n} && r_ != MPI_SUCCESS && rt::to_word({n}_) == rt::real_handles[{K_}][0]) "
                       "*{n} = seam::make_vid(seam::Kind::k{K}, 0);"),
    "handle_inout": role("{H} {n}_ = rt::{k}(*{n});", "&{n}_"),
    "handle_free": role("{H} {n}_ = rt::{k}(*{n});", "&{n}_",
                        "rt::forget(*{n}); *{n} = seam::make_vid(seam::Kind::k{K}, 0);"),
    # A nonblocking call may read the array until it is done, so such arrays are kept (see keep() in lower.cpp.j2).
    "handles_in": role("auto&& {n}_ = {array}<{H}>({n}, {c});", "{n} ? {n}_.data() : nullptr"),
    "handles_inout": role("rt::HandleArray<{H}> {n}_({n}, {c});", "{n}_.data()", "", "{n}_.write_back({n});"),
    "handles_out": role("rt::HandleArray<{H}> {n}_({n}, {c});", "{n}_.data()",
                        "for (int i = 0; i < static_cast<int>({c}); ++i) {n}[i] = rt::adopt_{k}({n}_.data()[i], seam::kFn_{f});"),
    "infos_null": role("rt::HandleArray<{H}> {n}_({n}, {c});", "{n}_.data()"),
    "info_in": role(argument="rt::info({n})"),
    "info_null": role(argument="rt::info({n})"),
    "info_out": role("{H} {n}_{{}};", "&{n}_", "*{n} = rt::adopt_info({n}_, seam::kFn_{f});"),
    "status_out": role("MPI_Status {n}_{{}};", "{n} ? &{n}_ : MPI_STATUS_IGNORE", "",
                       "if ({n}) rt::status_out({n}_, {n});"),
    "status_in": role("MPI_Status {n}_ = rt::status_in(*{n});", "&{n}_"),
    "status_inout": role("MPI_Status {n}_ = rt::status_in(*{n});", "&{n}_", "rt::status_out({n}_, {n});"),
    "constant": role(argument="from_seam_{g}({n})"),
    "constant_out": role("{P} {n}_ = 0;", "{n} ? &{n}_ : nullptr", "if ({n}) *{n} = to_seam_{g}({n}_);"),
    "constant_always": role("{P} {n}_ = 0;", "{n} ? &{n}_ : nullptr", "", "if ({n}) *{n} = to_seam_{g}({n}_);"),
    "constants_in": role("std::vector<int> {n}_({n}, {n} + ({n} ? {c} : 0)); "
                         "for (int& value : {n}_) value = from_seam_{g}(value);", "{n}_.data()"),
    "constants_out": role("", "{n}", "for (int i = 0; i < {c}; ++i) {n}[i] = to_seam_{g}({n}[i]);"),
    "flags": role(argument="from_seam_{g}({n})"),
    "flags_out": role("int {n}_ = 0;", "&{n}_", "*{n} = to_seam_{g}({n}_);"),
    "weights": role(argument="weights_in({n})"),
    "all_handles": role(argument="all_handles_in({n})"),
    "text_out": role(),
}


def fill(snippet, function, parameter, implementation, renamed=None, array="rt::HandleArray"):
    """The four texts of a parameter, filled in. `renamed`: names the text may use that differ in this header."""
    name, detail, count = parameter.name, parameter.detail, parameter.count
    if renamed:
        name = renamed.get(name, name)
        for theirs, ours in renamed.items():
            count = ours if count == theirs else count.replace(f"({theirs})", f"({ours})")
    group = detail.split(":")[0]
    values = {"n": name, "T": parameter.types.get(implementation, ""),
              "P": parameter.types.get(implementation, "").rstrip("* "), "K": parameter.kind,
              "k": parameter.kind.lower(), "H": parameter.handle, "c": count, "g": group, "f": function.name,
              "array": array, "K_": f"static_cast<int>(seam::Kind::k{parameter.kind})"}
    return {key: text.format(**values) for key, text in snippet.items()}
