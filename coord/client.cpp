// See client.h.
#include "coord/client.h"

#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/format.h"
#include "base/host.h"
#include "base/time.h"
#include "coord/channel.h"
#include "coord/job_file.h"

namespace cropdl::coord {

namespace {

constexpr int kLookAtPeer = 500;     // ms
constexpr double kStoppedBound = 5;  // s
constexpr double kLateAnswer = 60;   // s; of a job that is not stopped: the machine may be busy
constexpr double kSayLate = 2;       // s

double now_seconds() { return in_seconds(monotonic_us()); }

// A connection to a job's hub.
class Call {
 public:
  static Result<Call> open(const std::string& directory, double answer_within_seconds, const Message& request,
                           const Waits& waiting) {
    bool missing = false, refused = false;
    uid_t owner = 0;
    Result<JobFile> job = read_job_file(directory, &missing, &owner);
    if (!job && missing) return nobody(directory);
    if (!job) return job.error();
    const double began = now_seconds();
    for (;;) {
      Result<std::unique_ptr<Stream>> stream = connect_to(job->address, &refused);
      if (stream) {
        Call call(directory, std::move(*job), std::move(*stream), began + answer_within_seconds);
        call.began_ = began;
        call.waiting_ = waiting;
        if (const Status s = call.greet(owner); !s) return s.error();
        if (const Status s = call.send(request); !s) return s.error();
        return call;
      }
      if (refused && job->host != host_name())
        return Error{"no job is running on {} on this node ({}); the last one ran on {}: ask there",
                     directory, host_name(), job->host};
      if (refused) return nobody(directory);
      if (now_seconds() >= began + answer_within_seconds) return stream.error();
      usleep(10'000);  // the hub's backlog is full
    }
  }

  const JobFile& job() const { return job_; }
  void wait_without_limit() { deadline_ = -1; }

  Result<Message> receive() {
    for (;;) {
      while (!arrived_.empty()) {
        const std::optional<Message> m = message_from_bytes(arrived_.front());
        arrived_.erase(arrived_.begin());
        if (!m)
          return Error{"the job on {} was started by another version of CropDL; use the commands of that one",
                       directory_};
        return *m;
      }
      if (!open_) return died();
      pollfd fds[2] = {{channel_.fd(), POLLIN, 0}, {process_.fd(), POLLIN, 0}};
      int timeout = kLookAtPeer;
      if (deadline_ < 0 && channel_.stream().peer_is_stopped()) {
        if (stopped_since_ == 0) stopped_since_ = now_seconds();
        if (now_seconds() > stopped_since_ + kStoppedBound)
          return Error{
              "rank 0 of the job on {} has been stopped (SIGSTOP, or a debugger); the checkpoint goes on "
              "when its process does (kill -CONT {})",
              directory_, job_.pid};
      } else {
        stopped_since_ = 0;
      }
      if (deadline_ >= 0) {
        const double now = now_seconds(), left = deadline_ - now;
        if (now >= std::max(deadline_, began_ + kLateAnswer) ||
            (left <= 0 && channel_.stream().peer_is_stopped()))
          return Error{
              "the job on {} (pid {}) does not answer; if it is stopped (State T in /proc/{}/status), "
              "continue it: kill -CONT {}",
              directory_, job_.pid, job_.pid, job_.pid};
        if (left > 0) timeout = std::min(timeout, static_cast<int>(left * 1000) + 1);
        if (waiting_ && now >= began_ + kSayLate) {
          waiting_(formatted("waiting for {:.0f} s: the job on {} (pid {}) does not answer", now - began_,
                             directory_, job_.pid));
          waiting_ = {};
        }
      }
      if (poll(fds, 2, timeout) < 0 && errno != EINTR) return Error{"cannot wait: " + errno_text(errno)};
      // A child of a dead rank may hold its socket open; the end of the process decides.
      const bool ended = fds[1].revents != 0;
      open_ = channel_.receive(&arrived_) && !ended;
    }
  }

 private:
  Call(std::string directory, JobFile job, std::unique_ptr<Stream> stream, double deadline)
      : directory_(std::move(directory)),
        job_(std::move(job)),
        deadline_(deadline),
        channel_(std::move(stream)) {}

  static Error nobody(const std::string& directory) {
    if (const std::string who = outlives(directory, host_name()); !who.empty())
      return Error{"rank 0 of the job on {} has ended; {}, and no checkpoint of it can be taken any more",
                   directory, who};
    return Error{"no job is running on " + directory};
  }
  Error died() const {
    return accepted_ ? Error{"the job on {} ended before the checkpoint was complete", directory_}
                     : nobody(directory_);
  }

  Status send(const Message& message) {
    if (!channel_.send(message_bytes(message))) return died();
    return {};
  }

  Status greet(uid_t owner) {
    const ucred peer = channel_.stream().peer();
    if (peer.uid != geteuid() && geteuid() != 0)
      return Error{"the job on {} belongs to another user", directory_};
    // Root may ask anybody's job. Address and token are what that user has written: root must not send them
    // to a process of somebody else that trusts root (a service of the system at an abstract address).
    if (peer.uid != owner)
      return Error{"{}/job belongs to user id {}, and the process at its address to user id {}", directory_,
                   owner, peer.uid};
    process_ = channel_.stream().watch();
    if (!process_ && peer.pid > 0 && kill(peer.pid, 0) != 0 && errno == ESRCH) return nobody(directory_);
    if (Status s = send(Hello{kWireVersion, job_.token, "", kNoRank}); !s) return s;
    const Result<Message> answer = receive();
    if (!answer) return answer.error();
    if (const auto* r = std::get_if<Rejected>(&*answer))
      return Error{"the job on {} does not take this command: {}", directory_, r->reason};
    accepted_ = true;
    return {};
  }

  std::string directory_;
  JobFile job_;
  double deadline_;  // of a stopped job; < 0: it has accepted
  double began_ = 0;
  Waits waiting_;             // empty: it has been called
  double stopped_since_ = 0;  // process seen stopped since then; 0: not stopped
  Channel channel_;
  Descriptor process_;
  std::vector<std::string> arrived_;
  bool open_ = true;
  bool accepted_ = false;
};

}  // namespace

Result<Outcome> request_checkpoint(const std::string& directory, double answer_within_seconds, bool last,
                                   const Waits& waiting) {
  Result<Call> call = Call::open(directory, answer_within_seconds, AskCheckpoint{last}, waiting);
  if (!call) return call.error();
  for (;;) {
    Result<Message> m = call->receive();
    if (!m) return m.error();
    if (std::holds_alternative<Accepted>(*m)) call->wait_without_limit();
    if (const auto* r = std::get_if<Rejected>(&*m)) return Error{r->reason};
    if (const auto* w = std::get_if<Waiting>(&*m); w != nullptr && waiting) waiting(w->line);
    if (const auto* done = std::get_if<Done>(&*m)) {
      if (!done->outcome.published) return Error{done->outcome.line};
      return done->outcome;
    }
  }
}

Result<JobStatus> job_status(const std::string& directory, double answer_within_seconds,
                             const Waits& waiting) {
  Result<Call> call = Call::open(directory, answer_within_seconds, AskStatus{}, waiting);
  if (!call) return call.error();
  for (;;) {
    Result<Message> m = call->receive();
    if (!m) return m.error();
    if (const auto* r = std::get_if<Rejected>(&*m)) return Error{r->reason};
    if (const auto* s = std::get_if<StatusIs>(&*m)) return JobStatus{*s, call->job().started};
  }
}

}  // namespace cropdl::coord
