"""Plants many faults in one tree at once. Each is a choice made at run time by the environment variable STRETTO_MUTANT, so
that one build serves all of them; 0 is the program as it was."""
import os, re, subprocess
from collections import defaultdict

from faults import applied

HEADER = r'''
#pragma once
// Written by tools/mutate.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>
inline unsigned char* stretto_map_reached() {
  const char* path = std::getenv("STRETTO_MUTANTS_REACHED");
  const int file = path == nullptr ? -1 : ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, STRETTO_MUTANTS) != 0) return nullptr;
  void* map = ::mmap(nullptr, STRETTO_MUTANTS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return map == MAP_FAILED ? nullptr : static_cast<unsigned char*>(map);
}
inline int stretto_chosen_mutant() {
  const char* number = std::getenv("STRETTO_MUTANT");
  return number == nullptr ? 0 : std::atoi(number);
}
inline unsigned char* const stretto_reached = stretto_map_reached();
inline const int stretto_mutant = stretto_chosen_mutant();
'''
HOST_CHOICE = r'''
#define STRETTO_MUTANT(n) \
  ((__builtin_expect(::stretto_reached != nullptr, 0) && (::stretto_reached[n] = 1) == 0) || ::stretto_mutant == n)
'''
# A kernel reads a copy in the memory of its device, one for each file.
DEVICE_CHOICE = r'''
#include <vector>
inline std::vector<void (*)()>& stretto_device_choices() {
  static std::vector<void (*)()> all;
  return all;
}
#ifdef __CUDACC__
static __device__ int stretto_device_mutant;
namespace {
void stretto_choose_on_device() {
  cudaMemcpyToSymbol(stretto_device_mutant, &::stretto_mutant, sizeof(int));
}
[[maybe_unused]] const bool stretto_chooses = (stretto_device_choices().push_back(stretto_choose_on_device), true);
}  // namespace
#endif
#ifdef __CUDA_ARCH__
#define STRETTO_MUTANT(n) (stretto_device_mutant == n)
#else
#define STRETTO_MUTANT(n) (::stretto_mutant == n)
#endif
'''
# The file, and the statement in it after which the copies are made, without and with that.
DEVICE_START = ("src/backend/cuda/cuda_backend.cpp", "CUDA_CHECK(cudaSetDevice(device));",
                "CUDA_CHECK(cudaSetDevice(device)); for (auto choose : ::stretto_device_choices()) choose();")
# Warnings that a fault may well deserve.
QUIET = "".join(f'#pragma GCC diagnostic ignored "-W{word}"\n' for word in (
    "pragmas", "unused", "unused-variable", "unused-parameter", "unused-but-set-variable", "unused-but-set-parameter",
    "unused-function", "unused-value", "unused-result", "unused-local-typedefs", "parentheses", "conversion",
    "float-conversion", "sign-compare", "type-limits", "implicit-fallthrough", "return-type", "uninitialized",
    "maybe-uninitialized", "bool-compare", "bool-operation", "int-in-bool-context", "extra", "shadow", "address",
    "dangling-else", "empty-body", "misleading-indentation", "narrowing", "sequence-point", "tautological-compare",
    "array-bounds", "stringop-overflow", "stringop-overread", "nonnull", "aggressive-loop-optimizations", "div-by-zero",
    "shift-count-overflow", "shift-count-negative", "overflow", "logical-not-parentheses", "duplicated-branches",
    "infinite-recursion", "free-nonheap-object", "null-dereference", "format", "pessimizing-move"))


def planted(text, faults, header):
    """The file with a choice at each fault. Lines keep their numbers."""
    by_region = defaultdict(list)
    for fault in faults:
        by_region[fault.region].append(fault)
    consts = {fault.region.constant for fault in faults if fault.region.constant}
    marks = sorted([(r.start, -r.end, r) for r in by_region] + [(c[0], -c[1], c) for c in consts], key=lambda m: m[:2])

    def render(start, end, inner):
        """text[start:end] with the regions of `inner`, sorted, that lie in it."""
        parts, at = [], start
        for k, (begin, minus_last, what) in enumerate(inner):
            if begin < at:
                continue  # done with the one around it
            last = -minus_last
            parts.append(text[at:begin])
            if isinstance(what, tuple):
                parts.append(what[2])
            else:
                parts.append(choice(what, by_region[what], render(begin, last, [m for m in inner[k + 1:] if -m[1] <= last])))
            at = last
        return "".join(parts) + text[at:end]

    def choice(region, faults, original):
        others = [(f"STRETTO_MUTANT({f.number})", applied(text, region.start, region.end, f.edits)) for f in faults]
        if region.shape in ("condition", "value", "step"):
            around = {"condition": "bool", "value": "", "step": "void"}[region.shape]
            return "(" + "".join(f"{mark} ? {around}({words}) : " for mark, words in others) + f"{around}({original}))"
        return "{ " + "".join(f"if ({mark}) {{ {words} }} else " for mark, words in others) + f"{{ {original} }} }}"

    return f'#include "{header}"\n#line 1\n' + render(0, len(text), marks)
