#include "interpose/host/restart_candidates.h"

#include "base/format.h"
#include "interpose/host/restart_ranks.h"
#include "restart/files/directories.h"
#include "restart/process/attributes.h"
#include "restart/process/machine.h"
#include "restart/session/process_state.h"

namespace cropdl::host {
namespace {

// "" or why the libraries of this process are not enough for the program.
std::string missing_library(const Process& p, const session::Metadata& m) {
  for (const session::SavedLibrary& saved : m.libraries) {
    const auto here = p.libraries.table(saved.number);
    if (!here && saved.number == seam::kLibraryMpi)
      return "the program needs an MPI; start cropdl-restart with mpirun";
    if (!here)
      return formatted("the program needs {}, which this lower half does not have", saved.implementation);
    if (saved.functions > here->functions)
      return formatted(
          "the image was written by a newer CropDL (its {} has {} functions, this one's {}); restart it "
          "with that one",
          saved.implementation, saved.functions, here->functions);
    if (saved.implementation != here->name && !saved.only_functions.empty())
      return formatted("the program uses {}, which only {} has; restart it under that one",
                       saved.only_functions.front(), saved.implementation);
  }
  return "";
}

// "" or why this process can continue no version of the job, older ones included.
std::string why_not_here(const Process& p, const session::Metadata& m) {
  if (m.ranks != p.launch.ranks)
    return formatted("the version has {} ranks, but {} were started; use mpirun -n {}", m.ranks,
                     p.launch.ranks, m.ranks);
  if (m.rank != p.launch.rank) return formatted("its image is of rank {}", m.rank);
  if (auto missing = process::missing_features(m.cpu_features); !missing.empty())
    return formatted("this CPU lacks {}, which the program was started with", missing.front());
  if (auto line = process::vector_state_refusal(m.vector_state); !line.empty()) return line;
  if (auto line = missing_library(p, m); !line.empty()) return line;
  if (auto line = process::unknown_attribute(m.attributes); !line.empty()) return line;
  for (const auto& thread : m.threads)
    if (auto line = process::unknown_attribute(thread.attributes); !line.empty()) return line;
  // An affinity that the program set itself is put back, whatever the launcher's is.
  if (m.attributes.count(process::kAffinity) == 0)
    if (auto line = process::no_processor_below(m.processors); !line.empty()) return line;
  return session::raise_stack_limit(m);
}

}  // namespace

std::vector<Candidate> read_candidates(const Process& p, std::vector<restart::Version> versions) {
  std::vector<Candidate> all;
  for (auto& version : versions) {
    if (p.boot.version != 0 && version.number != p.boot.version) continue;
    Candidate& c = all.emplace_back(Candidate{std::move(version), {}, {}});
    c.damage = c.version.damage;
    if (!c.damage.empty() || c.version.manifest.seam > seam::kSeamVersion ||
        c.version.manifest.seam < seam::kOldestSeam || c.version.manifest.ranks != p.launch.ranks)
      continue;  // load_candidate() says it
    const auto folder = c.version.folder();
    const auto image = folder ? restart::ImageReader::open(*folder, restart::image_name(p.launch.rank))
                              : Result<restart::ImageReader>(folder.error());
    auto metadata = image ? session::parse_metadata(image->metadata(), image->path())
                          : Result<session::Metadata>(image.error());
    if (metadata)
      c.metadata = std::move(*metadata);
    else
      c.damage = metadata.error().message;
  }
  return all;
}

std::string load_candidate(Process& p, const Candidate& candidate, files::FilesPolicy policy,
                           const files::FilesPutBack& put_back, host_memory::ReservedAddresses& reserved,
                           std::unique_ptr<restart::ImageReader>* loaded) {
  const restart::Version& version = candidate.version;
  const session::Metadata& metadata = candidate.metadata;
  if (!version.damage.empty()) return (version.not_mine ? kRefused : kDamaged) + version.damage;
  if (version.manifest.ranks != p.launch.ranks)
    return kRefused +
           (formatted("version {} has {} ranks, but {} were started; use mpirun -n {}", version.number,
                      version.manifest.ranks, p.launch.ranks, version.manifest.ranks));
  if (version.manifest.seam > seam::kSeamVersion)
    return kRefused + (formatted("version {} was written by a newer CropDL (seam {}, this one knows {}); "
                                 "restart it with that one",
                                 version.number, version.manifest.seam, seam::kSeamVersion));
  if (version.manifest.seam < seam::kOldestSeam)
    return kRefused + (formatted("version {} was written by an older CropDL (seam {}, this one needs at "
                                 "least {}); restart it with that one",
                                 version.number, version.manifest.seam, seam::kOldestSeam));
  if (!candidate.damage.empty()) return kDamaged + candidate.damage;
  const auto folder = version.folder();
  if (!folder) return kDamaged + folder.error().message;
  auto image = restart::ImageReader::open(*folder, restart::image_name(p.launch.rank));
  if (!image) return kDamaged + image.error().message;
  if (image->totals().checksum != version.manifest.images[p.launch.rank].checksum)
    return formatted("{}{}: is not the image that the manifest names", kDamaged, image->path());
  if (auto line = why_not_here(p, metadata); !line.empty()) return kRefused + line;
  if (p.boot.software_gpu && !metadata.software_gpu) {
    const std::string devices = version.manifest.devices();
    return kRefused + formatted(
                          "version {} was taken without --software-gpu{}; restart it without that "
                          "option: what a real device holds is not restored on a software one",
                          version.number, devices.empty() ? "" : ", on " + devices);
  }
  const files::SavedFiles saved{metadata.files, metadata.contents, *folder, policy, put_back};
  // A file that is gone may not have been open when an older version was taken.
  files::FileVerdict v =
      files::check_current_directory(metadata.cwd, metadata.cwd_identity, metadata.cwd_is_mount_root, policy);
  if (v) v = files::check_files(saved);
  if (!v)
    return (v.kind == files::FileVerdict::kRefused ||
                    (v.kind == files::FileVerdict::kMissing && policy == files::FilesPolicy::kFail)
                ? kRefused
                : kDamaged) +
           v.line;
  if (auto s = host_memory::map_memory(*image, metadata.memory, reserved); !s)
    return kRefused + s.error().message;
  Status done = host_memory::load_memory(*image, metadata.memory);
  const bool whole = static_cast<bool>(done);
  if (whole)
    done =
        host_memory::load_references(*image, metadata.memory, policy == files::FilesPolicy::kKeep, put_back);
  if (!done) {
    host_memory::unmap_memory(*image, reserved);
    // An older version most likely names the same file: nothing is lost before somebody has looked.
    return (whole ? kRefused : kDamaged) + done.error().message;
  }
  *loaded = std::make_unique<restart::ImageReader>(std::move(*image));
  return formatted("{}, version {}", kFine, version.number);
}

}  // namespace cropdl::host
