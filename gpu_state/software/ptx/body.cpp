#include "gpu_state/software/ptx/body.h"

#include "base/format.h"
#include "gpu_state/software/ptx/constant.h"
#include "gpu_state/software/ptx/declarations.h"

namespace cropdl::ptx {

namespace {

template <class Value>
Operand operand_of(Value value) {
  Operand operand;
  operand.value = std::move(value);
  return operand;
}

class Body {
 public:
  Body(Cursor& cursor, Function* function, std::vector<Outside>* outside)
      : cursor_(cursor), function_(function), outside_(outside) {}

  void parse() {
    names_.open();
    for (auto* list : {&function_->returned, &function_->parameters})
      for (const Variable& parameter : *list) declare_parameter(parameter);
    cursor_.expect("{");
    declare_labels();
    while (!cursor_.failed() && names_.depth() > 0) statement();
  }

 private:
  void declare_parameter(const Variable& parameter) {
    if (parameter.name == "_") return;
    bool is_register = parameter.space == Space::kReg;
    std::string unique =
        names_.declare(parameter.name, is_register ? Names::Kind::kRegister : Names::Kind::kSymbol);
    if (unique.empty()) twice(parameter.line, parameter.name);
    if (is_register) function_->registers.push_back({unique, parameter.type, 0});
  }

  void twice(int line, std::string_view name) {
    cursor_.fail(line, formatted("{} is declared twice in one scope", name));
  }

  // Branches may precede their label, so all labels of a scope are declared when it opens.
  void declare_labels() {
    int depth = 0;
    for (size_t i = 0; !cursor_.sees(TokenKind::kEnd, i); i++) {
      if (cursor_.sees("{", i)) depth++;
      if (cursor_.sees("}", i) && depth-- == 0) return;
      // Other colons in a body belong to ? :, where WARP_SZ is the only possible word.
      if (depth == 0 && cursor_.sees(TokenKind::kWord, i) && cursor_.sees(":", i + 1) &&
          !cursor_.sees("WARP_SZ", i)) {
        const Token& token = cursor_.peek(i);
        if (names_.declare(token.text, Names::Kind::kSymbol).empty()) return twice(token.line, token.text);
      }
    }
  }

  void statement() {
    if (cursor_.accept("{")) {
      if (names_.depth() > 500) cursor_.fail(cursor_.line(), "scopes are nested too deeply");
      names_.open();
      declare_labels();
    } else if (cursor_.accept("}")) {
      names_.close();
    } else if (cursor_.accept(";")) {
      // Empty statements: inline assembly produces them.
    } else if (cursor_.sees(TokenKind::kWord) && cursor_.sees(":", 1)) {
      label();
    } else if (cursor_.sees(TokenKind::kDotted)) {
      directive();
    } else if (cursor_.sees(TokenKind::kWord) || cursor_.sees("@")) {
      instruction();
    } else {
      cursor_.expected("an instruction, a directive, a label or }");
    }
  }

  void label() {
    Token token = cursor_.take();
    cursor_.take();
    Names::Name name;
    names_.find(token.text, &name);
    if (cursor_.sees(".branchtargets") || cursor_.sees(".calltargets")) {
      bool branch = cursor_.take().text == ".branchtargets";
      BranchTargets targets{name.unique, {}};
      do targets.targets.push_back(symbol_name());
      while (cursor_.accept(","));
      cursor_.expect(";");
      (branch ? function_->branch_targets : function_->call_targets).push_back(std::move(targets));
    } else if (cursor_.accept(".callprototype")) {
      Prototype prototype{name.unique, {}};
      prototype.signature.line = token.line;
      parse_signature(cursor_, &prototype.signature, true);
      while (cursor_.sees(TokenKind::kDotted)) {
        Token word = cursor_.take();
        prototype.signature.is_noreturn |= word.text == ".noreturn";
        if (word.text == ".abi_preserve" || word.text == ".abi_preserve_control")
          parse_constant(cursor_);
        else if (word.text != ".noreturn")
          cursor_.fail(word.line, formatted("expected .noreturn or ;, found '{}'", word.text));
      }
      cursor_.expect(";");
      function_->prototypes.push_back(std::move(prototype));
    } else {
      function_->body.emplace_back(Label{name.unique, token.line});
    }
  }

  std::string symbol_name() {
    Token token = cursor_.expect(TokenKind::kWord, "a name");
    Names::Name name;
    if (names_.find(token.text, &name)) return name.unique;
    outside_->push_back({std::string(token.text), token.line});
    return std::string(token.text);
  }

  void directive() {
    if (declaration_follows(cursor_) || cursor_.sees(".attribute")) {
      for (Declared& declared : parse_declaration(cursor_)) declare(&declared);
    } else if (cursor_.accept(".pragma")) {  // hints to NVIDIA's compiler
      cursor_.expect(TokenKind::kString, "a text in quotes");
      while (cursor_.accept(",")) cursor_.expect(TokenKind::kString, "a text in quotes");
      cursor_.expect(";");
    } else if (!skip_debugging(cursor_)) {
      cursor_.expected("a directive of a function's body");
    }
  }

  void declare(Declared* declared) {
    Variable& variable = declared->variable;
    if (variable.space != Space::kReg) {
      std::string unique = names_.declare(variable.name, Names::Kind::kSymbol);
      if (unique.empty()) return twice(variable.line, variable.name);
      variable.name = unique;
      for (Initial& initial : variable.initial)
        if (auto* symbol = std::get_if<Symbol>(&initial.value)) {
          Names::Name name;
          if (names_.find(symbol->name, &name))
            symbol->name = name.unique;
          else
            outside_->push_back({symbol->name, variable.line});
        }
      function_->variables.push_back(std::move(variable));
      return;
    }
    if (variable.is_array || !variable.initial.empty())
      return cursor_.fail(variable.line, "registers have no arrays and no initial values");
    if (declared->range >= 0 && variable.vector == 1) {
      std::string unique = names_.declare_range(variable.name, declared->range);
      if (unique.empty()) return twice(variable.line, variable.name);
      if (declared->range > 0) function_->registers.push_back({unique, variable.type, declared->range});
      return;
    }
    for (int i = 0; i < std::max(declared->range, 1); i++) {
      if (cursor_.failed() || declared->range == 0) return;
      std::string name = declared->range < 0 ? variable.name : variable.name + std::to_string(i);
      declare_register(variable, name);
    }
  }

  // A vector register becomes several registers: v.x, v.y, …
  void declare_register(const Variable& variable, const std::string& name) {
    bool vector = variable.vector > 1;
    if (variable.vector > 4) return cursor_.fail(variable.line, "vector registers have 2 or 4 elements");
    std::string unique =
        names_.declare(name, vector ? Names::Kind::kVectorRegister : Names::Kind::kRegister, variable.vector);
    if (unique.empty()) return twice(variable.line, name);
    if (!vector) function_->registers.push_back({unique, variable.type, 0});
    for (int i = 0; vector && i < variable.vector; i++)
      function_->registers.push_back({unique + "." + "xyzw"[i], variable.type, 0});
  }

  void instruction() {
    Instruction instruction;
    instruction.line = cursor_.line();
    if (cursor_.accept("@")) {
      instruction.guard_negated = cursor_.accept("!");
      instruction.guard = register_name("a predicate");
    }
    instruction.opcode = cursor_.expect(TokenKind::kWord, "an instruction").text;
    while (cursor_.sees(TokenKind::kDotted) && !constant_follows_as_operand())
      instruction.opcode += cursor_.take().text;
    if (instruction.opcode == "call" || instruction.opcode == "call.uni") {
      call(&instruction);
    } else if (!cursor_.sees(";")) {
      do instruction.operands.push_back(operand());
      while (cursor_.accept(",") && !cursor_.failed());
    }
    cursor_.expect(";");
    if (!cursor_.failed()) function_->body.emplace_back(std::move(instruction));
  }

  // .5 as an operand, as opposed to a modifier such as .1d: a number is all digits.
  bool constant_follows_as_operand() const {
    return cursor_.peek().text.find_first_not_of(".0123456789") == std::string_view::npos;
  }

  std::string register_name(std::string_view what) {
    int line = cursor_.line();
    if (!cursor_.sees(TokenKind::kWord)) cursor_.expected(what);
    Operand operand = named();
    if (auto* its = std::get_if<Register>(&operand.value)) return its->name;
    cursor_.fail(line, formatted("expected {}, a register", what));
    return "";
  }

  void call(Instruction* instruction) {
    instruction->call.emplace();
    Instruction::Call& call = *instruction->call;
    if (cursor_.sees("(")) {
      call.returned = call_list();
      cursor_.expect(",");
    }
    call.target = callee();
    if (cursor_.accept(",")) {
      if (cursor_.sees("(")) {
        call.arguments = call_list();
        if (cursor_.accept(",")) call.prototype = symbol_name();
      } else {
        call.prototype = symbol_name();
      }
    }
  }

  std::string callee() {
    if (!cursor_.sees(TokenKind::kWord)) cursor_.expected("a function or a register");
    Operand operand = named();
    if (auto* its = std::get_if<Register>(&operand.value)) return its->name;
    if (auto* its = std::get_if<Symbol>(&operand.value)) return its->name;
    cursor_.fail(cursor_.line(), "expected a function or a register to call");
    return "";
  }

  std::vector<std::string> call_list() {
    std::vector<std::string> all;
    cursor_.expect("(");
    while (!cursor_.failed() && !cursor_.sees(")")) {
      if (constant_follows(cursor_))
        cursor_.fail(cursor_.line(),
                     "a constant as an argument of a call is not built: put it into a register");
      all.push_back(callee());
      if (!cursor_.accept(",")) break;
    }
    cursor_.expect(")");
    return all;
  }

  Operand operand() {
    Operand operand;
    if (++depth_ > 20) cursor_.fail(cursor_.line(), "operands are nested too deeply");
    if (cursor_.sees("[")) {
      operand.value = address();
    } else if (cursor_.accept("{")) {
      Vector vector;
      do vector.elements.push_back(this->operand());
      while (cursor_.accept(",") && !cursor_.failed());
      cursor_.expect("}");
      operand.value = std::move(vector);
    } else if (cursor_.sees("!") && cursor_.sees(TokenKind::kWord, 1)) {
      cursor_.take();
      operand = named();
      operand.negated = true;
    } else if (cursor_.sees("-") && cursor_.sees(TokenKind::kWord, 1) && !cursor_.sees("WARP_SZ", 1)) {
      cursor_.fail(cursor_.line(), "a register with a sign (the video instructions' operands) is not built");
    } else if (cursor_.sees(TokenKind::kWord) && !cursor_.sees("WARP_SZ")) {
      operand = named();
      if (std::holds_alternative<Register>(operand.value) && cursor_.accept("|")) {
        if (!cursor_.sees(TokenKind::kWord)) cursor_.expected("a register");
        operand.beside = std::make_shared<Operand>(named());
      }
    } else if (constant_follows(cursor_)) {
      Constant constant = parse_constant(cursor_);
      if (auto* value = std::get_if<Integer>(&constant)) operand.value = *value;
      if (auto* value = std::get_if<Float>(&constant)) operand.value = *value;
    } else {
      cursor_.expected("an operand");
    }
    depth_--;
    return operand;
  }

  // A register, a special register, a vector register or its element, or a symbol with an offset.
  Operand named() {
    Token token = cursor_.take();
    Names::Name name;
    if (token.text == "_") return operand_of(Register{"_"});
    if (names_.find(token.text, &name)) {
      if (name.kind == Names::Kind::kVectorRegister) return vector_register(name);
      if (name.kind == Names::Kind::kRegister) {
        std::string its = name.unique;
        // %r1.b0, %r1.h1: the selectors of the video instructions.
        if (cursor_.sees(TokenKind::kDotted)) its += cursor_.take().text;
        return operand_of(Register{its});
      }
      return operand_of(Symbol{name.unique, parse_offset(cursor_)});
    }
    if (token.text[0] == '%') {
      if (!is_special_register(token.text)) {
        cursor_.fail(token.line, formatted("the register {} is not declared", token.text));
        return {};
      }
      std::string its(token.text);
      if (cursor_.sees(TokenKind::kDotted)) its += cursor_.take().text;
      return operand_of(Register{its});
    }
    outside_->push_back({std::string(token.text), token.line});
    return operand_of(Symbol{std::string(token.text), parse_offset(cursor_)});
  }

  Operand vector_register(const Names::Name& name) {
    if (cursor_.sees(TokenKind::kDotted)) {
      Token token = cursor_.take();
      constexpr std::string_view kElements = "xyzwrgba";  // each element has two spellings
      size_t at = token.text.size() == 2 ? kElements.find(token.text[1]) : std::string_view::npos;
      if (at == std::string_view::npos || static_cast<int>(at % 4) >= name.vector)
        cursor_.fail(token.line,
                     formatted("expected an element of a vector register, found '{}'", token.text));
      else
        return operand_of(Register{name.unique + "." + "xyzw"[at % 4]});
    }
    Vector vector;
    for (int i = 0; i < name.vector; i++)
      vector.elements.push_back(operand_of(Register{name.unique + "." + "xyzw"[i]}));
    return operand_of(std::move(vector));
  }

  // [%rd1+8], [symbol], [0x10], [texture, sampler, {x, y}]
  Address address() {
    Address address;
    cursor_.expect("[");
    if (cursor_.sees(TokenKind::kWord) && !cursor_.sees("WARP_SZ")) {
      Operand base = named();
      if (auto* its = std::get_if<Register>(&base.value)) {
        address.base = *its;
        address.offset = parse_offset(cursor_);
      } else if (auto* symbol = std::get_if<Symbol>(&base.value)) {
        address.offset = symbol->offset;
        address.base = Symbol{symbol->name, 0};
      } else {
        cursor_.fail(cursor_.line(), "expected an address, found a vector register");
      }
      if (cursor_.sees("["))
        cursor_.fail(cursor_.line(), "a subscript of an array is not built: write [name+bytes]");
    } else if (constant_follows(cursor_)) {
      Constant constant = parse_constant(cursor_);
      if (auto* its = std::get_if<Integer>(&constant))
        address.base = *its;
      else
        cursor_.fail(cursor_.line(), "expected an integer as an address");
    } else {
      cursor_.expected("an address");
    }
    while (cursor_.accept(",") && !cursor_.failed()) address.more.push_back(operand());
    cursor_.expect("]");
    return address;
  }

  Cursor& cursor_;
  Function* function_;
  std::vector<Outside>* outside_;
  Names names_;
  int depth_ = 0;
};

void parse_parameters(Cursor& cursor, std::vector<Variable>* parameters) {
  cursor.expect("(");
  while (!cursor.failed() && !cursor.sees(")")) {
    parameters->push_back(parse_parameter(cursor));
    if (!cursor.accept(",")) break;
  }
  cursor.expect(")");
}

}  // namespace

void parse_signature(Cursor& cursor, Function* function, bool named) {
  if (cursor.sees("(")) parse_parameters(cursor, &function->returned);
  if (named) function->name = cursor.expect(TokenKind::kWord, "a function's name").text;
  if (cursor.sees("(")) parse_parameters(cursor, &function->parameters);
}

void parse_body(Cursor& cursor, Function* function, std::vector<Outside>* outside) {
  Body(cursor, function, outside).parse();
}

}  // namespace cropdl::ptx
