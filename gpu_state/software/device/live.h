// The valid handles of one kind. A handle is a pointer to CropDL's struct. Handles are looked up before they
// are followed, so a destroyed one is detected. The last destroyed structs are kept, so that their addresses
// are not reused immediately: a program that uses a stale handle gets an error, not another object. Any
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

  // Null: not a valid handle.
  std::shared_ptr<T> find(const T* handle) const {
    std::lock_guard lock(mutex_);
    auto at = objects_.find(handle);
    return at == objects_.end() ? nullptr : at->second;
  }

  // Invalidates the handle. Null: it was invalid before.
  std::shared_ptr<T> take(const T* handle) {
    std::shared_ptr<T> oldest;  // destroyed after the unlock: it may own objects of other kinds
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
  static constexpr size_t kKept = 256;  // stale handles are rarely used later; costs some 100 KiB
  mutable std::mutex mutex_;
  std::unordered_map<const T*, std::shared_ptr<T>> objects_;
  std::deque<std::shared_ptr<T>> gone_;
};

}  // namespace cropdl::device
