// A shared library that is opened at run time, so that the program also starts on machines without
// it.
#pragma once

#include <string>

namespace stretto {

class DynamicLibrary {
 public:
  explicit DynamicLibrary(const char* name);  // never closed

  template <typename Function>
  void find(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(address(symbol));
  }
  // Empty if the library is open and has all symbols that were looked for.
  const std::string& why_unusable() const { return why_; }

 private:
  void* address(const char* symbol);

  std::string name_, why_;
  void* handle_;
};

}  // namespace stretto
