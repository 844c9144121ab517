// `cropdl report`: writes a page with plots of a store's versions. The store may be another user's; nothing
// is written into it.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>

#include "base/file.h"
#include "base/say.h"
#include "base/time.h"
#include "restart/cli/commands.h"
#include "restart/cli/report.h"

namespace cropdl::cli {
namespace {

using restart::StoreReader;

Status write_page(const std::string& file, const std::string& page) {
  // Through no link: the current directory may belong to another user, whose link could lead root anywhere.
  Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!out && errno == ELOOP)
    return Error{"{}: is a symbolic link, and is not written through; name the file itself with --output",
                 file};
  if (!out) return cannot_be_written(file, errno);
  if (::dprintf(out.fd(), "%s", page.c_str()) < 0) return cannot_be_written(file, errno);
  const int failure = out.close();
  return failure == 0 ? Status() : cannot_be_written(file, failure);
}

}  // namespace

Result<int> report(const Common& common, const std::string& output) {
  const bool to_stdout = output == "-";
  if (to_stdout && common.json)
    return fail(true, Error{"report: --json and --output - would both go to standard output"}, kMisuse);
  const Result<StoreReader> store = StoreReader::open(common.directory);
  if (!store) return store.error();
  if (const Status outside = check_outside(output, common.directory); !outside) return outside.error();
  const Result<StoreReader::LiveJob> job = store->live_job();
  PageFacts facts{resolved_or_same(common.directory), utc_now(), ""};
  if (!job) say(formatted("cropdl: {}", job.error().message));
  if (job && job->pid != 0) facts.running = formatted("process {} on {}", job->pid, job->host);
  const auto versions = store->all_versions();
  if (!versions) return versions.error();
  const Report summary = report_of(*versions);
  const std::string page = page_of(*versions, summary, facts);
  if (to_stdout) {
    std::fwrite(page.data(), 1, page.size(), stdout);  // main() reports a failed write
    return kDone;
  }
  if (const Status written = write_page(output, page); !written) return written.error();
  return answer(common.json,
                {{"file", json_bytes(output)},
                 {"bytes", page.size()},
                 {"complete", summary.complete},
                 {"damaged", summary.damaged},
                 {"restarts", summary.restarts},
                 {"stored", summary.bytes},
                 {"stall_seconds", summary.stall_seconds},
                 {"covered_seconds", summary.last - summary.first}},
                formatted("{}: {} complete, {} damaged", output, summary.complete, summary.damaged));
}

}  // namespace cropdl::cli
