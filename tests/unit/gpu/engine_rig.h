// What tests of the engine run kernels with: PTX text in, memory with a shadow, a grid.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "gpu_state/software/engine/launch.h"
#include "gpu_state/software/ptx/parser.h"

namespace cropdl::engine {

class Rig {
 public:
  explicit Rig(int cores = 2, uint64_t who = 1)
      : processors(4, cores, who), storage_(kBytes + 64), shadow_(kBytes / 8) {
    begin_ = (reinterpret_cast<uint64_t>(storage_.data()) + 63) / 64 * 64;
    view.own = {begin_, begin_ + kBytes};
    view.area = begin_;
    view.shadow = shadow_.data();
    view.owner = this;
    view.heap_allocate = [](void* owner, size_t size) {
      auto* rig = static_cast<Rig*>(owner);
      std::lock_guard lock(rig->mutex_);
      return rig->allocate(size);
    };
    view.heap_release = [](void* owner, uint64_t address) {
      auto* rig = static_cast<Rig*>(owner);
      std::lock_guard lock(rig->mutex_);
      return rig->allocated_.erase(address) == 1;
    };
  }
  ~Rig() { code.reset(); }

  uint64_t allocate(size_t bytes) {
    uint64_t at = begin_ + used_;
    used_ += (bytes + 255) / 256 * 256 + 256;
    for (size_t i = 0; i < bytes; ++i) ++shadow_[(at + i - begin_) / 8];
    allocated_[at] = bytes;
    return at;
  }
  template <class T>
  T* array(size_t count) {
    T* made = reinterpret_cast<T*>(allocate(count * sizeof(T)));
    std::memset(made, 0, count * sizeof(T));
    return made;
  }

  void load(const std::string& body, const std::string& target = "sm_90") {
    auto parsed = ptx::parse(".version 9.0\n.target " + target + "\n.address_size 64\n" + body);
    ASSERT_TRUE(parsed) << parsed.error().message;
    auto module = std::make_shared<ptx::Module>(std::move(*parsed));
    std::map<std::string, uint64_t> at;
    for (const auto& one : module->variables)
      if (one.space == ptx::Space::kGlobal || one.space == ptx::Space::kConst)
        at[one.name] = allocate(std::max<size_t>(one.size(), 8));
    code = std::make_unique<Code>(module, [at](const std::string& name) {
      auto found = at.find(name);
      return found == at.end() ? 0 : found->second;
    });
    for (const auto& one : module->variables) {
      if (!at.count(one.name)) continue;
      auto* to = reinterpret_cast<std::byte*>(at[one.name]);
      std::memset(to, 0, one.size());
      for (size_t i = 0; i < one.initial.size(); ++i) {
        uint64_t value = 0;
        if (const auto* integer = std::get_if<ptx::Integer>(&one.initial[i].value)) value = integer->bits;
        if (const auto* symbol = std::get_if<ptx::Symbol>(&one.initial[i].value))
          value = at.count(symbol->name) ? at[symbol->name] : code->function_address(symbol->name);
        std::memcpy(to + i * size_of(one.type), &value, size_of(one.type));
      }
    }
  }

  template <class... A>
  Outcome run(const std::string& name, Dim3 grid, Dim3 block, A... arguments) {
    auto kernel = code->kernel(name);
    EXPECT_TRUE(kernel) << kernel.error().message;
    if (!kernel) return {CUDA_ERROR_NOT_FOUND, kernel.error().message};
    Launch launch;
    launch.kernel = *kernel;
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared = dynamic_shared;
    launch.cooperative = cooperative;
    launch.memory = &view;
    launch.parameters.resize(facts(**kernel).parameter_bytes);
    size_t i = 0;
    ((std::memcpy(launch.parameters.data() + facts(**kernel).parameters[i].first, &arguments,
                  sizeof arguments),
      ++i),
     ...);
    launch.print = [this](std::string_view text) {
      std::lock_guard lock(mutex_);
      printed += text;
    };
    return processors.run(launch);
  }

  MemoryView view;
  WorkerPool processors;
  std::unique_ptr<Code> code;
  uint32_t dynamic_shared = 0;
  bool cooperative = false;
  std::string printed;

 private:
  static constexpr size_t kBytes = size_t{32} << 20;
  std::vector<std::byte> storage_;
  std::vector<uint8_t> shadow_;
  uint64_t begin_ = 0, used_ = 256;
  std::map<uint64_t, size_t> allocated_;
  std::mutex mutex_;
};

}  // namespace cropdl::engine
