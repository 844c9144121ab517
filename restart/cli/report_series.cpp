// The series and counts of report.h.
#include <algorithm>
#include <optional>
#include <set>

#include "restart/cli/report.h"
#include "restart/retention.h"

namespace cropdl::cli {
namespace {

using restart::Version;

// A version whose manifest can be read.
struct Seen {
  const Version* version;
  std::optional<double> time;
  bool new_run = false;    // first of a run, but not the first version of all
  bool restarted = false;  // the run was restarted from `parent`
};

// Returns the versions in number order, the order of their creation.
std::vector<Seen> in_order(const std::vector<Version>& versions) {
  std::vector<Seen> seen;
  for (const Version& version : versions)
    if (readable(version)) seen.push_back({&version, restart::seconds_of(version.manifest.created)});
  std::ranges::sort(seen, {}, [](const Seen& one) { return one.version->number; });
  for (size_t i = 0; i < seen.size(); ++i) {
    const restart::Manifest& now = seen[i].version->manifest;
    const Version* const before = i == 0 ? nullptr : seen[i - 1].version;
    // Within a run each version's parent is the preceding version. If that one was pruned, the parent's
    // number is larger than the number of the preceding version that still exists.
    const bool follows =
        before == nullptr || (now.parent >= before->number && now.parent < seen[i].version->number);
    seen[i].restarted = now.restarted || (now.parent != 0 && !follows);
    seen[i].new_run =
        before != nullptr && (seen[i].restarted || now.parent == 0 || now.job != before->manifest.job);
  }
  return seen;
}

class Plotted {
 public:
  explicit Plotted(Report* report) : report_(*report) {}

  void add(const Seen& one) {
    const restart::Manifest& m = one.version->manifest;
    const bool begins = report_.stalls.empty() || one.new_run;
    const auto exact = [&](double value) { return point(one, value, value, value, begins); };
    report_.stalls.push_back(exact(m.stall_seconds));
    report_.memory.push_back(exact(static_cast<double>(m.memory())));
    report_.stored.push_back(exact(static_cast<double>(m.bytes())));
    report_.device_memory.push_back(exact(static_cast<double>(m.device_memory())));
    if (!begins) observe(one);
    measure(one, begins);
    last_ = &one;
  }

  // Makes the measured span a point, also one that is too short.
  void end_span() {
    if (waiting_) report_.iteration_seconds.push_back(*waiting_);
    waiting_.reset();
  }

 private:
  static Point point(const Seen& one, double value, double low, double high, bool begins) {
    return {*one.time, value, low, high, one.version->number, !one.version->damage.empty(), begins};
  }

  void observe(const Seen& one) {
    if (one.version->number != last_->version->number + 1) {
      ++report_.pruned_gaps;
      return;
    }
    const double span = *one.time - *last_->time;
    if (span < 0) return;  // the clock was set back
    report_.observed_seconds += span;
    report_.observed_stall_seconds += one.version->manifest.stall_seconds;
    if (report_.observed_seconds <= 0) return;
    // A counted stall may have begun before the observed time: the share is at most 1.
    const double share = std::min(1.0, report_.observed_stall_seconds / report_.observed_seconds);
    report_.stall_share.push_back(point(one, share, share, share, report_.stall_share.empty()));
  }

  void measure(const Seen& one, bool begins) {
    const uint64_t iteration = one.version->manifest.iteration();
    const bool anew =
        begins || iteration == 0 || from_iteration_ == 0 || iteration < from_iteration_ || *one.time < from_;
    if (!anew) {
      const double span = *one.time - from_;
      const auto done = static_cast<double>(iteration - from_iteration_);
      if (span < 1 || done < 1) return;
      waiting_ = point(one, span / done, (span - 1) / done, (span + 1) / done, run_begins_);
      if (span < static_cast<double>(kMeasuredSpan)) return;
    }
    end_span();
    from_ = *one.time;
    from_iteration_ = iteration;
    run_begins_ = anew;
  }

  Report& report_;
  const Seen* last_ = nullptr;
  std::optional<Point> waiting_;  // of a span that is still too short
  double from_ = 0;
  uint64_t from_iteration_ = 0;
  bool run_begins_ = true;
};

}  // namespace

Report report_of(const std::vector<Version>& versions) {
  Report report;
  for (const Version& version : versions) {
    ++(version.damage.empty() ? report.complete : report.damaged);
    if (!readable(version)) {
      ++report.unreadable;
      continue;
    }
    report.bytes += version.manifest.bytes();
    report.stall_seconds += version.manifest.stall_seconds;
  }
  const std::vector<Seen> seen = in_order(versions);
  Plotted plotted(&report);
  for (const Seen& one : seen) {
    if (one.restarted) ++report.restarts;
    if (!one.time) continue;
    const double time = *one.time;
    report.first = report.dated ? std::min(report.first, time) : time;
    report.last = report.dated ? std::max(report.last, time) : time;
    report.dated = true;
    if (one.restarted || one.new_run)
      report.marks.push_back({time, one.version->number, one.restarted ? one.version->manifest.parent : 0});
    plotted.add(one);
  }
  plotted.end_span();
  return report;
}

Series thinned(const Series& series, size_t limit) {
  if (series.size() <= limit || limit < 4) return series;
  const size_t groups = limit / 4;
  Series kept;
  for (size_t group = 0; group < groups; ++group) {
    const Point* next = series.data() + series.size() * group / groups;
    const Point* const end = series.data() + series.size() * (group + 1) / groups;
    const Point* const lowest = std::ranges::min_element(next, end, {}, &Point::value);
    const Point* const highest = std::ranges::max_element(next, end, {}, &Point::value);
    for (const Point* const one : std::set<const Point*>{next, lowest, highest, end - 1}) {
      kept.push_back(*one);
      kept.back().begins = std::any_of(next, one + 1, [](const Point& p) { return p.begins; });
      next = one + 1;
    }
  }
  return kept;
}

}  // namespace cropdl::cli
