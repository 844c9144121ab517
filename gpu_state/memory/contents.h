// The contents of all device memory, and of variables, as regions of an image: which regions there are, and
// how they are saved and loaded (device_pages.h). LH, LH FS base; the thread that serves while the program
// and its devices stand still, or that restarts it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"
#include "restart/image.h"

namespace cropdl::memory {

// A variable of a device's, by whatever name its owner finds it again.
struct Variable {
  std::string name;  // no other on that device has it
  CUdeviceptr address;
  uint64_t size;
  int device;
};

class Contents {
 public:
  // `context_of`: a context of that device's, for copies; one that cannot be had is nullptr. Both outlive it.
  Contents(const Driver& driver, Blocks& blocks, std::function<CUcontext(int device)> context_of)
      : driver_(driver), blocks_(blocks), context_of_(std::move(context_of)) {}

  // Notes in the heap where in the image the variables will stand: before the program's own memory is saved.
  Status note_variables(std::vector<Variable> variables);

  // All regions, in their order: device memory and managed memory as it is then, the variables as noted.
  std::vector<restart::Region> regions() const;
  Status save(restart::ChunkSink& sink) const;

  // Into memory that is mapped as it was. `find`: the variable's address in this process, of the same size;
  // 0: it is not there, and the restart is refused by its name; likewise if it has another address, unless it
  // `may_move`.
  Status load(const restart::ImageReader& image,
              const std::function<CUdeviceptr(const std::string& name, int device, uint64_t size)>& find,
              bool may_move = false) const;

 private:
  struct Part {
    restart::Region region;
    int device;
  };
  std::vector<Part> parts() const;
  int device_of(const restart::Region& region) const;

  const Driver& driver_;
  Blocks& blocks_;
  const std::function<CUcontext(int)> context_of_;
  std::vector<Variable> variables_;  // with their addresses in this process
};

}  // namespace cropdl::memory
