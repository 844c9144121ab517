// The page of `cropdl report`: one self-contained HTML file. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "restart/cli/report_series.h"
#include "restart/store.h"

namespace cropdl::cli {

struct PageFacts {
  std::string store;    // path
  std::string written;  // utc_now()
  std::string running;  // where the job runs now; "": it does not run
};

// Returns `text`, cut after `most` bytes, as HTML, never markup: names in a store may be another user's.
std::string html_text(const std::string& text, size_t most = 300);

// `versions`: newest first; `report`: report_of() of them.
std::string page_of(const std::vector<restart::Version>& versions, const Report& report,
                    const PageFacts& facts);

}  // namespace cropdl::cli
