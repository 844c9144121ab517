// CUDA's family as a library of the lower half; interpose/libraries/library.h says when each is called.
#include "interpose/libraries/libraries.h"

#include <thread>

#include "base/caught.h"
#include "base/say.h"
#include "gpu_state/memory/steering.h"
#include "interpose/cuda/lower/callbacks.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/device_drain.h"
#include "interpose/cuda/lower/environment.h"
#include "interpose/cuda/lower/events.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/names.h"
#include "interpose/cuda/lower/nccl/library.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/cuda/lower/real_libraries.h"
#include "interpose/cuda/lower/saved_devices.h"
#include "interpose/cuda/lower/saved_memory.h"
#include "interpose/cuda/lower/static_runtime.h"
#include "interpose/cuda/lower/variables.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {
namespace {

// Runs on a new thread, and discards what the libraries keep for that thread (a device, contexts, errors). To
// the libraries, the program's main thread then has made no call yet.
template <class F>
Status on_a_thread_of_its_own(F run) {
  Status status;
  std::thread([&] { status = caught(run); }).join();
  return status;
}

Status make_all_again() {
  restore_program_environment();
  std::vector<std::string> other;
  if (auto s = open_libraries(&other); !s) return s;
  if (auto s = compare_devices(&other); !s) return s;
  if (auto s = take_addresses(); !s) return s;
  if (auto s = hold_contexts(); !s) return s;
  begin_numbers();
  begin_code_again();
  if (auto s = one_abi::make_all_again(libraries()); !s) return s;
  end_code_again();
  end_restore_of_environment();
  if (auto s = record_events(); !s) return s;
  begin_event_times();
  for (const std::string& line : other) say(line);
  return nccl::restore();
}

class Runtime final : public libraries::Library {
 public:
  seam::LibraryNumber number() override { return seam::kLibraryCudart; }
  const char* implementation() override { return "cuda"; }
  std::vector<Table> seam_tables() override {
    std::vector<Table> all;
    for (const Shipped& s : shipped())
      all.push_back({static_cast<seam::LibraryNumber>(s.library->number), s.table, s.library->count,
                     s.library->name, s.library->names});
    all.push_back(shim_calls());
    return all;
  }
  void prepare(const launching::Boot& boot) override {
    choose_real_libraries(boot);
    variables_may_move_ = boot.moved_variables;
    memory::steer_first_reservation(memory::kDriverBegin, memory::kDriverLeast);
    prepare_static_runtimes(boot);
  }
  bool follows_objects() override { return true; }
  Status look_at(const libraries::LoadedObject& object) override { return take_over_static_runtime(object); }

  bool used() override { return one_abi::family != nullptr; }  // made with the first object
  bool active() override { return used(); }
  bool met_others() override { return nccl::called(); }
  uint32_t recipes() override { return one_abi::recipe_count(); }
  Status restart() override {
    if (auto s = one_abi::restore_family(libraries()); !s || !used()) return s;
    return on_a_thread_of_its_own(make_all_again);
  }
  std::string told_at_restart() override { return nccl::told_at_restart(); }
  Status finish_restart(std::span<const std::string> told) override {
    if (!used()) return nccl::make_communicators_again(told);
    return on_a_thread_of_its_own([&] {
      auto s = nccl::make_communicators_again(told);
      let_contexts_go();
      return s;
    });
  }

  void add_counts(std::vector<coord::CollectiveCount>& counts, uint64_t (*target)(uint64_t)) override {
    nccl::add_counts(counts, target);
  }
  void fill_status(coord::RankStatus& status) override {
    nccl::add_communicators(status);
    if (status.refusal.empty()) status.refusal = one_abi::family_refusal(libraries());
  }

  std::string refusal() override {
    if (std::string why = one_abi::family_refusal(libraries()); !why.empty()) return why;
    if (!used()) return "";
    if (driver_begun()) note_reading_of_environment(Reader::kDriver);
    std::string why = environment_refusal();
    if (why.empty()) why = memory_refusal();
    return why.empty() ? code_refusal() : why;
  }

  std::string stop_trouble(int64_t since) override { return awaited_device(since); }

  void begin_drain(std::span<const coord::PeerCount>) override { devices_.begin(callbacks_awaited_since()); }
  // Devices are polled once NCCL's own threads launch nothing more.
  bool drain_step() override { return nccl::drain_step() && devices_.step(); }
  std::string drain_trouble() override {
    const std::string line = nccl::drain_trouble();
    return line.empty() ? devices_.trouble() : line;
  }
  Status quiesce() override {
    if (Status noted = note_devices(); !noted) return noted;
    if (Status noted = note_libraries(); !noted) return noted;
    if (Status kept = keep_environment_of_driver(); !kept) return kept;
    if (Status noted = event_times_.note(); !noted) return noted;
    nccl::quiesce();
    return settle_memory();
  }
  void resume() override {
    event_times_.resume();
    let_contexts_go();
  }

  Status save_contents(restart::ChunkSink& sink) override { return save_memory(sink); }
  uint64_t content_bytes() override { return memory_region_bytes(); }
  uint64_t memory_in_use() override { return cuda::memory_in_use(); }
  std::string devices() override { return noted_devices(); }
  Status load_contents(const restart::ImageReader& image) override {
    return on_a_thread_of_its_own([&] { return load_memory(image, variables_may_move_); });
  }

 private:
  // Of a cut: from its drain until the program continues.
  DeviceDrain devices_;
  EventTimes event_times_;

  bool variables_may_move_ = false;
};

}  // namespace
}  // namespace cropdl::cuda

cropdl::libraries::Library* cropdl::libraries::cuda_library() {
  static auto& runtime = *new cuda::Runtime;  // never destroyed: programs call their libraries during exit
  return &runtime;
}
