// Device memory and device variables as regions of an image: lists, saves and loads them (device_pages.h).
// LH, LH FS base; the thread that serves while program and devices are stopped, or restarts the program.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"
#include "restart/image.h"

namespace cropdl::memory {

// A device variable.
struct Variable {
  std::string name;  // unique on that device; its owner finds it by this name after a restart
  CUdeviceptr address;
  uint64_t size;
  int device;
};

class Contents {
 public:
  // `driver` and `blocks` must outlive it. `context_of` returns a device's context for copies; nullptr: none.
  Contents(const Driver& driver, Blocks& blocks, std::function<CUcontext(int device)> context_of)
      : driver_(driver), blocks_(blocks), context_of_(std::move(context_of)) {}

  // Records in the heap where in the image each variable will be. Call before host memory is saved.
  Status note_variables(const std::vector<Variable>& variables);

  // All regions in the image's order: memory as it is now, variables as note_variables() recorded them.
  std::vector<restart::Region> regions() const;
  Status save(restart::ChunkSink& sink) const;

  // Loads into memory that is mapped as it was. `find` returns the variable's address in this process, where
  // it must have the same size; 0: it is missing, and the restart is refused with its name. A variable with
  // another address than before is refused likewise, unless `may_move`.
  Status load(const restart::ImageReader& image,
              const std::function<CUdeviceptr(const std::string& name, int device, uint64_t size)>& find,
              bool may_move = false) const;

 private:
  struct Part {
    restart::Region region;
    int device;
  };
  std::vector<Part> parts() const;

  const Driver& driver_;
  Blocks& blocks_;
  const std::function<CUcontext(int)> context_of_;
};

}  // namespace cropdl::memory
