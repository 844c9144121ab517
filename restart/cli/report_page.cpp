// The page of report.h.
#include <algorithm>
#include <map>

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"
#include "base/words.h"
#include "restart/cli/report.h"

namespace cropdl::cli {
namespace {

using restart::Manifest;
using restart::Version;

constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--page:#fbfbf9;--card:#fff;--text:#1d1d1b;--faint:#6b6b66;--rule:#e4e4df;
--one:#2563b8;--two:#c2570c;--three:#7c4dbe;--mark:#b42318;--good:#1f7a3f}
@media(prefers-color-scheme:dark){:root{--page:#16171a;--card:#1e2024;--text:#e9e9e6;--faint:#9c9ca0;--rule:#33353b;
--one:#79adf2;--two:#f0995a;--three:#b99bea;--mark:#ff8a7a;--good:#6fcf8f}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.45 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 40px}
h1{font-size:23px;line-height:1.25;margin:0;overflow-wrap:anywhere;unicode-bidi:isolate}
h2{font-size:15px;margin:0 0 2px}
code,td,dd{unicode-bidi:isolate}
code{font:13px ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.faint,figcaption{color:var(--faint)}
.badge{font-size:13px;font-weight:600;color:var(--good);border:1px solid;border-radius:99px;padding:1px 10px;
margin-left:8px;vertical-align:3px;white-space:nowrap}
.sub{margin:4px 0 18px}
dl.job{display:grid;grid-template-columns:max-content 1fr;gap:3px 16px;margin:0 0 20px}
dl.job dt{color:var(--faint)}dl.job dd{margin:0;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin:0 0 12px}
.tile,figure,.versions{background:var(--card);border:1px solid var(--rule);border-radius:8px}
.tile{padding:11px 14px}
.tile b{display:block;font-size:22px;font-weight:600;line-height:1.3}
.tile span{display:block;font-size:13px;color:var(--faint)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:12px;margin:0 0 12px}
figure{margin:0;padding:13px 14px 11px;break-inside:avoid}
figcaption{font-size:13px;margin-top:4px}
svg{display:block;width:100%;height:auto;overflow:visible;margin-top:6px}
svg text{fill:var(--faint);font-size:12px;font-family:inherit}
svg .label{fill:var(--text)}
.grid{stroke:var(--rule)}.axis{stroke:var(--faint)}
.line{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round}
.area{fill:currentColor;opacity:.16}
.band{fill:currentColor;stroke:currentColor;stroke-width:1.5;opacity:.22}
.one{color:var(--one)}.two{color:var(--two)}.three{color:var(--three)}
.two .line{stroke-dasharray:5 3}
circle{fill:currentColor}
circle.quiet{opacity:0}
circle.bad{fill:var(--card);stroke:var(--mark);stroke-width:1.8}
circle.near{opacity:1;stroke:var(--card);stroke-width:1.5;r:4.5px}
.mark path{stroke:var(--mark);stroke-dasharray:3 3;fill:none}.mark .flag{fill:var(--mark);stroke:none}
.key{font-size:13px;margin-right:14px}
.key i{display:inline-block;width:18px;height:0;border-top:3px solid currentColor;vertical-align:4px;margin-right:6px}
.key.two i{border-top-style:dashed}
.key span{color:var(--faint)}
.key.restart{color:var(--mark)}.key.restart i{width:0;height:0;border:5px solid transparent;border-top:8px solid;vertical-align:-3px}
.versions{padding:13px 14px;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:4px 9px;border-bottom:1px solid var(--rule);white-space:nowrap}
tr:last-child td{border-bottom:0}
th{color:var(--faint);font-weight:600}
th:last-child,td:last-child{text-align:left;white-space:normal;min-width:130px;overflow-wrap:anywhere}
.bad{color:var(--mark)}
#tip{position:fixed;pointer-events:none;display:none;background:var(--text);color:var(--page);font-size:13px;
padding:4px 9px;border-radius:5px;max-width:300px}
footer{margin-top:16px;font-size:13px;color:var(--faint)}
@media print{:root{--page:#fff;--card:#fff;--text:#000;--faint:#444;--rule:#ccc;--one:#1d4f94;--two:#a34700;--three:#6237a0;
--mark:#a11212;--good:#12632f}main{max-width:none;padding:0}body{font-size:12px}
.plots{grid-template-columns:1fr 1fr}.tiles{grid-template-columns:repeat(3,1fr)}tr{break-inside:avoid}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)";

// Shows the text of the point nearest to the pointer. Without it, browsers do so only over the point.
constexpr char kScript[] = R"(
const tip=document.getElementById('tip');
for(const svg of document.querySelectorAll('svg')){
  const points=[...svg.querySelectorAll('circle')].map(e=>{
    const title=e.querySelector('title'),text=title.textContent;title.remove();
    return{e,text,x:+e.getAttribute('cx'),y:+e.getAttribute('cy')}});
  let near=null;
  const leave=()=>{if(near)near.e.classList.remove('near');near=null;tip.style.display='none'};
  svg.addEventListener('pointerleave',leave);
  svg.addEventListener('pointermove',event=>{
    const at=new DOMPoint(event.clientX,event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    leave();
    let best=40;
    for(const p of points){const d=Math.abs(p.x-at.x)+Math.abs(p.y-at.y)/9;if(d<best){best=d;near=p}}
    if(!near)return;
    near.e.classList.add('near');tip.textContent=near.text;tip.style.display='block';
    tip.style.left=Math.max(4,Math.min(event.clientX+14,innerWidth-tip.offsetWidth-8))+'px';
    tip.style.top=Math.max(4,event.clientY-tip.offsetHeight-10)+'px'})}
)";

// --- The job.

std::string row(const char* name, const std::string& html) {
  return html.empty() ? "" : formatted("<dt>{}</dt><dd>{}</dd>\n", name, html);
}

std::string code(const std::string& text, size_t most) {
  return text.empty() ? "" : formatted("<code>{}</code>", html_text(text, most));
}

// "2 on node1, 2 on node2"
std::string hosts_of(const Manifest& manifest) {
  constexpr size_t kMostHosts = 8;
  std::map<std::string, size_t> ranks_on;
  for (const restart::ManifestImage& image : manifest.images) ++ranks_on[image.host];
  std::string text;
  size_t shown = 0;
  for (const auto& [host, ranks] : ranks_on) {
    if (++shown > kMostHosts) return text + formatted(" and {} more hosts", ranks_on.size() - kMostHosts);
    text += formatted("{}{} on {}", text.empty() ? "" : ", ", ranks, html_text(host, 80));
  }
  return text;
}

std::string job_rows(const Manifest& m) {
  std::string mpi = html_text(m.mpi_name, 40), version = m.mpi_version;
  std::replace(version.begin(), version.end(), '\t', ' ');  // MPICH's version contains a tab
  if (!version.empty()) mpi += ", " + html_text(version, 120);
  if (m.mpi_name == "none") mpi = "none";
  return row("Command", code(command_line(m.program, m.args), 2000)) + row("Directory", code(m.cwd, 1000)) +
         row("Launcher", code(command_line(m.launcher, m.launcher_options), 1000)) +
         row("Ranks", formatted("{}: {}", m.ranks, hosts_of(m))) + row("MPI", mpi) +
         row("Devices", m.devices().empty() ? "none" : html_text(m.devices(), 1000)) +
         row("System", formatted("Linux {}, glibc {}", html_text(m.kernel, 80), html_text(m.glibc, 40))) +
         row("Job", code(m.job, 80));
}

// --- The summary.

std::string tile(const std::string& name, const std::string& value, const std::string& more) {
  return formatted("<div class=\"tile\"><span>{}</span><b>{}</b><span>{}</span></div>\n", name, value, more);
}

std::string tiles(const Report& report, const Version* newest) {
  std::string html = "<section class=\"tiles\">\n";
  html += tile("Versions", std::to_string(report.complete),
               report.damaged == 0
                   ? "complete, none damaged"
                   : formatted("complete; <span class=\"bad\">{} damaged</span>", report.damaged));
  html += tile("Stored", amount(report.bytes),
               newest == nullptr ? "" : "newest: " + amount(newest->manifest.bytes()));
  const bool observed = report.observed_seconds > 0;
  html += tile(
      "Program stood still", duration_text(report.stall_seconds),
      observed ? formatted("{} of the time between versions",
                           value_text(std::min(1.0, report.observed_stall_seconds / report.observed_seconds),
                                      Unit::kShare))
               : "for all versions together");
  html += tile("Time covered", duration_text(report.last - report.first),
               report.dated ? formatted("{} to {}", time_text(report.first), time_text(report.last)) : "");
  const auto last = std::find_if(report.marks.rbegin(), report.marks.rend(),
                                 [](const RestartMark& mark) { return mark.parent != 0; });
  html += tile("Restarts", std::to_string(report.restarts),
               report.restarts == 0          ? "none among these versions"
               : last == report.marks.rend() ? ""
                                             : formatted("the last before version {}", last->version));
  const uint64_t iteration = newest == nullptr ? 0 : newest->manifest.iteration();
  html += tile("Iterations", iteration == 0 ? "unknown" : std::to_string(iteration),
               report.iteration_seconds.empty()
                   ? "complete in the newest version"
                   : formatted("complete; {} each at the end",
                               value_text(report.iteration_seconds.back().value, Unit::kSeconds)));
  return html + "</section>\n";
}

// --- The plots.

std::string key(const char* style, const char* text) {
  return formatted("<span class=\"key {}\"><i></i><span>{}</span></span>", style, text);
}

// `otherwise`: shown if there are no points; says why.
std::string figure(const std::string& keys, const Plot& plot, const std::string& caption,
                   const std::string& otherwise) {
  const bool empty = std::ranges::all_of(plot.curves, [](const Curve& c) { return c.points.empty(); });
  return formatted("<figure>\n<h2>{}</h2>\n{}{}\n<figcaption>{}</figcaption>\n</figure>\n", plot.title,
                   empty ? "" : keys, empty ? "" : svg_of(plot), empty ? otherwise : caption);
}

std::string plots(const Report& report) {
  const std::string marks = report.marks.empty() ? "" : key("restart", "restart");
  const auto plot = [&](const char* title, const char* value, Unit unit, std::vector<Curve> curves) {
    return Plot{title, value, unit, std::move(curves), report.marks, report.first, report.last};
  };
  std::string html = "<section class=\"plots\">\n";
  html += figure(
      marks,
      plot("Time per iteration", "time per iteration", Unit::kSeconds,
           {{"per iteration", "one", false, report.iteration_seconds}}),
      formatted("From the iterations and times of two versions of one run. Times of versions are whole "
                "seconds: a point covers at least {} s where the run is that long, and lies somewhere "
                "in the band.",
                kMeasuredSpan),
      "It takes two versions of one run, a second or more apart, that say how many iterations of the "
      "main loop are complete.");
  html += figure(
      marks, plot("Stall of each version", "stall", Unit::kSeconds, {{"stall", "one", false, report.stalls}}),
      "How long the program stood still for it.", "No version says when it was made.");
  const bool devices = std::ranges::any_of(report.device_memory, [](const Point& p) { return p.value > 0; });
  std::vector<Curve> sizes{{"stored", "one", true, report.stored},
                           {"of memory", "two", false, report.memory}};
  std::string keys = key("one", "stored: size of the images") + key("two", "memory in them");
  if (devices) {
    sizes.push_back({"of device memory", "three", false, report.device_memory});
    keys += key("three", "devices' part of it");
  }
  html += figure(keys + marks, plot("Size of each version", "size", Unit::kBytes, std::move(sizes)),
                 "All ranks together.", "No version says when it was made.");
  std::string caption = "All stalls so far as a share of the time so far, without the time between runs.";
  if (report.pruned_gaps != 0)
    caption += formatted(" {} in which versions were removed {} left out.",
                         counted(report.pruned_gaps, "span"), report.pruned_gaps == 1 ? "is" : "are");
  html += figure(marks,
                 plot("Share of the time that stalls took", "share of the time", Unit::kShare,
                      {{"of the time so far", "one", true, report.stall_share}}),
                 caption, "It takes two consecutive versions of one run.");
  return html + "</section>\n";
}

// --- The table.

std::string table_row(const Version& version) {
  const Manifest& m = version.manifest;
  const std::string state =
      version.damage.empty() ? "complete"
                             : formatted("<span class=\"bad\">damaged: {}</span>", html_text(version.damage));
  const auto number = [](uint64_t value) { return value == 0 ? "-" : std::to_string(value); };
  std::vector<std::string> cells(8, "-");
  if (readable(version))
    cells = {html_text(m.created, 40),
             number(m.iteration()),
             number(m.ranks),
             amount(m.bytes()),
             amount(m.memory()),
             m.devices().empty() ? "-" : amount(m.device_memory()),
             duration_text(m.stall_seconds),
             number(m.parent)};
  std::string html = formatted("<tr><td>{}</td>", version.number);
  for (const std::string& cell : cells) html += formatted("<td>{}</td>", cell);
  return html + formatted("<td>{}{}</td></tr>\n", m.restarted ? "first after a restart; " : "", state);
}

std::string table(const std::vector<Version>& versions) {
  const size_t rows = std::min<size_t>(versions.size(), 50);
  std::string html = formatted(
      "<section class=\"versions\">\n<h2>{}</h2>\n",
      rows < versions.size() ? formatted("The newest {} of {} versions", rows, versions.size()) : "Versions");
  html +=
      "<table>\n<thead><tr><th>Version</th><th>Created</th><th>Iteration</th><th>Ranks</th><th>Stored</th>"
      "<th>Memory</th><th>Devices</th><th>Stall</th><th>After</th><th>State</th></tr></thead>\n<tbody>\n";
  for (size_t i = 0; i < rows; ++i) html += table_row(versions[i]);
  return html + "</tbody>\n</table>\n</section>\n";
}

}  // namespace

std::string html_text(const std::string& text, size_t most) {
  std::string clean = shown(text.substr(0, most + 1));
  if (text.size() > most) {
    clean.resize(std::min(clean.size(), most));
    while (!clean.empty() && (static_cast<unsigned char>(clean.back()) & 0xc0) == 0x80) clean.pop_back();
    if (!clean.empty() && static_cast<unsigned char>(clean.back()) >= 0xc0) clean.pop_back();
    clean += "\u2026";
  }
  static const std::map<char, std::string> kMarkup = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string html;
  for (const char c : clean) {
    const auto markup = kMarkup.find(c);
    html += markup == kMarkup.end() ? std::string(1, c) : markup->second;
  }
  return html;
}

std::string page_of(const std::vector<Version>& versions, const Report& report, const PageFacts& facts) {
  const auto newest = std::find_if(versions.begin(), versions.end(), readable);
  const Version* const job = newest == versions.end() ? nullptr : &*newest;
  const std::string name =
      job == nullptr ? "No versions" : html_text(file_name_of(job->manifest.program), 200);
  std::string html = formatted(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{} - CropDL "
      "report</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<main>\n<h1>{}{}</h1>\n<p class=\"sub faint\">CropDL's checkpoints, as of {} (UTC)</p>\n",
      name, kStyle, name,
      facts.running.empty()
          ? ""
          : formatted("<span class=\"badge\">running: {}</span>", html_text(facts.running, 100)),
      html_text(facts.written));
  html += "<dl class=\"job\">\n" + row("Store", code(facts.store, 1000)) +
          (job == nullptr ? "" : job_rows(job->manifest)) + "</dl>\n" + tiles(report, job);
  if (job != nullptr) html += plots(report);
  if (!versions.empty()) html += table(versions);
  html += "<footer>Times are UTC. Stored bytes are the sizes of the images.";
  if (report.unreadable != 0)
    html += formatted(" Of {} the manifest cannot be read: not in the plots.",
                      counted(report.unreadable, "damaged version"));
  return html +
         formatted("</footer>\n</main>\n<div id=\"tip\"></div>\n<script>{}</script>\n</body>\n</html>\n",
                   kScript);
}

}  // namespace cropdl::cli
