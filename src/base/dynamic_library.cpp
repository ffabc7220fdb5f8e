#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace stretto {

DynamicLibrary::DynamicLibrary(const char* name)
    : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) why_ = dlerror();
}

void* DynamicLibrary::address(const char* symbol) {
  void* const found = handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
  if (found == nullptr && why_.empty()) why_ = fmt::format("{} has no {}: too old", name_, symbol);
  return found;
}

}  // namespace stretto
