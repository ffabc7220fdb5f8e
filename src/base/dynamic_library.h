// A shared library that is opened at run time: a program starts on machines that lack it.
#pragma once

#include <string>

namespace stretto {

class DynamicLibrary {
 public:
  explicit DynamicLibrary(const char* name);  // it stays open

  template <typename Function>
  void find(Function*& function, const char* symbol) {
    function = reinterpret_cast<Function*>(address(symbol));
  }
  // Empty: it is open and has all that was looked for.
  const std::string& why_unusable() const { return why_; }

 private:
  void* address(const char* symbol);

  std::string name_, why_;
  void* handle_;
};

}  // namespace stretto
