#include "gpu_state/software/ptx/parser.h"

#include <set>

#include "base/format.h"
#include "gpu_state/software/ptx/body.h"
#include "gpu_state/software/ptx/constant.h"
#include "gpu_state/software/ptx/declarations.h"
#include "gpu_state/software/threads/threads.h"

namespace cropdl::ptx {

namespace {

// Function directives that do not affect results: register and block targets for NVIDIA's compiler, registers
// that calls preserve. With or without numbers.
const std::set<std::string, std::less<>> kAdvice = {
    ".minnctapersm", ".maxnctapersm",         ".maxnreg",          ".maxclusterrank",
    ".abi_preserve", ".abi_preserve_control", ".blocksareclusters"};

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : cursor_(std::move(tokens)) {}

  Result<Module> run() {
    header();
    while (!cursor_.at_end()) top_level();
    check_names();
    if (cursor_.failed()) return Error{cursor_.error()};
    return std::move(module_);
  }

 private:
  void header() {
    while (skip_debugging(cursor_)) continue;
    cursor_.expect(".version");
    module_.version = cursor_.expect(TokenKind::kNumber, "a version of PTX").text;
    cursor_.expect(".target");
    module_.target = cursor_.expect(TokenKind::kWord, "a target as sm_75").text;
    while (cursor_.accept(",")) cursor_.expect(TokenKind::kWord, "a property of the target");
    if (cursor_.accept(".address_size")) {
      int line = cursor_.line();
      module_.address_size = static_cast<int>(parse_count(cursor_, 32, 64, "a size of addresses"));
      if (module_.address_size != 64) cursor_.fail(line, "addresses of 32 bits are not built");
    }
  }

  void top_level() {
    if (skip_debugging(cursor_) || cursor_.accept(";")) return;
    if (cursor_.accept(".alias")) return alias();
    if (cursor_.accept(".pragma")) {
      cursor_.expect(TokenKind::kString, "a text in quotes");
      return cursor_.expect(";");
    }
    if (is_function()) return function();
    if (!declaration_follows(cursor_) && !cursor_.sees(".attribute"))
      return cursor_.expected("a directive: .entry, .func, a variable");
    for (Declared& declared : parse_declaration(cursor_)) {
      Variable& variable = declared.variable;
      if (variable.space == Space::kReg)
        return cursor_.fail(variable.line,
                            "registers of a module went with PTX 3.1: declare them in functions");
      for (const Initial& initial : variable.initial)
        if (auto* symbol = std::get_if<Symbol>(&initial.value))
          used_.push_back({symbol->name, variable.line});
      define(variable.name, variable.line, !variable.is_extern && !variable.is_common);
      module_.variables.push_back(std::move(variable));
    }
  }

  // Skips linking directives, then tests for .entry or .func.
  bool is_function() const {
    size_t ahead = 0;
    while (cursor_.sees(".visible", ahead) || cursor_.sees(".extern", ahead) ||
           cursor_.sees(".weak", ahead) || cursor_.sees(".common", ahead))
      ahead++;
    return cursor_.sees(".entry", ahead) || cursor_.sees(".func", ahead);
  }

  void alias() {
    std::string name(cursor_.expect(TokenKind::kWord, "a name").text);
    cursor_.expect(",");
    Token of = cursor_.expect(TokenKind::kWord, "the function that it names");
    cursor_.expect(";");
    used_.push_back({std::string(of.text), of.line});
    define(name, of.line, true);
    module_.aliases[name] = of.text;
  }

  void function() {
    Function function;
    while (!cursor_.sees(".entry") && !cursor_.sees(".func")) {
      Token word = cursor_.take();
      function.is_extern |= word.text == ".extern";
      function.is_visible |= word.text == ".visible";
      function.is_weak |= word.text == ".weak";
      if (word.text == ".common") cursor_.fail(word.line, "a function cannot be .common");
    }
    function.is_kernel = cursor_.take().text == ".entry";
    bool unused = false;
    while (cursor_.accept(".attribute")) skip_attribute(cursor_, &unused);
    if (cursor_.accept(".noreturn")) function.is_noreturn = true;
    function.line = cursor_.line();
    parse_signature(cursor_, &function, true);
    directives(&function);
    define(function.name, function.line, cursor_.sees("{"));
    if (!cursor_.accept(";")) {
      if (!cursor_.sees("{")) return cursor_.expected("{ or ;");
      function.has_body = true;
      parse_body(cursor_, &function, &used_);
    }
    module_.functions.push_back(std::move(function));
  }

  // The directives between a function's parameters and its body.
  void directives(Function* function) {
    while (cursor_.sees(TokenKind::kDotted)) {
      std::string word(cursor_.take().text);
      if (word == ".noreturn") {
        function->is_noreturn = true;
      } else if (word == ".maxntid") {
        function->max_threads = sizes();
      } else if (word == ".reqntid") {
        function->required_threads = sizes();
      } else if (word == ".reqnctapercluster") {
        function->cluster = sizes();
      } else if (word == ".explicitcluster") {
        function->is_explicit_cluster = true;
      } else if (word == ".pragma") {
        cursor_.expect(TokenKind::kString, "a text in quotes");
        cursor_.accept(";");
      } else if (kAdvice.contains(word)) {
        while (cursor_.sees(TokenKind::kNumber) || cursor_.sees(",")) cursor_.take();
      } else {
        cursor_.fail(cursor_.line(), formatted("{} is no directive of a function", word));
      }
    }
  }

  std::vector<uint32_t> sizes() {
    std::vector<uint32_t> all;
    do all.push_back(static_cast<uint32_t>(parse_count(cursor_, 1, 1 << 30, "a number of threads")));
    while (cursor_.accept(",") && all.size() < 3);
    return all;
  }

  // Defines a name of the module; several declarations of one name are allowed.
  void define(const std::string& name, int line, bool is_definition) {
    names_.insert(name);
    if (is_definition && !defined_.insert(name).second)
      cursor_.fail(line, formatted("{} is defined twice", name));
  }

  void check_names() {
    for (const Outside& use : used_)
      if (!names_.contains(use.name))
        return cursor_.fail(use.line, formatted("{} is not declared", use.name));
  }

  Cursor cursor_;
  Module module_;
  std::set<std::string, std::less<>> names_, defined_;  // declared by the module
  std::vector<Outside> used_;                           // used as the module's names
};

}  // namespace

Result<Module> parse(std::string_view text) {
  threads::DefaultArithmetic arithmetic;  // for constants
  auto tokens = tokens_of(text);
  if (!tokens) return tokens.error();
  return Parser(std::move(*tokens)).run();
}

}  // namespace cropdl::ptx
