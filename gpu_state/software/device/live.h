// The handles of one kind that are valid now. A handle is a pointer to our struct; one that was destroyed is
// found out instead of followed, and the structs of the last ones destroyed are kept so that their addresses
// are not given out again at once: a program that uses a stale handle is told, not served with another's. Any
// thread.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace cropdl::device {

template <class T>
class Live {
 public:
  T* add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    T* handle = object.get();
    objects_[handle] = std::move(object);
    return handle;
  }

  // Null: there is none of that handle.
  std::shared_ptr<T> find(const T* handle) const {
    std::lock_guard lock(mutex_);
    auto at = objects_.find(handle);
    return at == objects_.end() ? nullptr : at->second;
  }

  // The handle is invalid from now on. Null: it was before.
  std::shared_ptr<T> take(const T* handle) {
    std::shared_ptr<T> oldest;  // goes without the lock: what it owns may be of other kinds
    std::lock_guard lock(mutex_);
    auto at = objects_.find(handle);
    if (at == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(at->second);
    objects_.erase(at);
    gone_.push_back(object);
    if (gone_.size() > kKept) {
      oldest = std::move(gone_.front());
      gone_.pop_front();
    }
    return object;
  }

  std::vector<std::shared_ptr<T>> all() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> result;
    for (const auto& [handle, object] : objects_) result.push_back(object);
    return result;
  }

 private:
  static constexpr size_t kKept = 256;  // a stale handle is rarely used later than that; costs some 100 KiB
  mutable std::mutex mutex_;
  std::unordered_map<const T*, std::shared_ptr<T>> objects_;
  std::deque<std::shared_ptr<T>> gone_;
};

}  // namespace cropdl::device
