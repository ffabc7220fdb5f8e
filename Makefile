# Two commands are all a newcomer needs: `make bench` and `make test`. Both install what is missing,
# build, and run; both are quick the second time.

JOBS ?= $(shell nproc)
CUDA ?=
BUILD := build
CUDA_ARCH ?=
PREFIX ?= /usr/local
CMAKE_CUDA := $(if $(CUDA),-DSTRETTO_CUDA=$(if $(filter 0,$(CUDA)),OFF,ON)) \
  $(if $(CUDA_ARCH),-DCMAKE_CUDA_ARCHITECTURES=$(CUDA_ARCH))
CONFIGURE := cmake --preset release $(CMAKE_CUDA)

.PHONY: all build bench test install package check fuzz clean help
# One after the other: they install packages, and share a build folder. The builds take all cores themselves.
.NOTPARALLEL:

all: build

help:
	@echo "make bench       set up, build, and see what this machine does with a GPT"
	@echo "make test        set up, build, and run the tests"
	@echo "make build       only build: the program is build/stretto"
	@echo "make install     the program, manual and completion below PREFIX (/usr/local); DESTDIR is heeded"
	@echo "make package     a .deb for this system, in build/"
	@echo "make check       format of changed files, file sizes, no machine paths (tools/check --tidy: clang-tidy too)"
	@echo "make fuzz        every parser under libFuzzer for 60 s each (FUZZ_SECONDS=n)"
	@echo "CUDA=1           build the CUDA parts although no GPU is present (CUDA=0: never)"
	@echo "CUDA_ARCH=90a    for these GPUs only (default: 80 and 90a-real)"

# What is set up depends on CUDA.
SETUP := $(BUILD)/.setup$(if $(CUDA),-cuda$(CUDA))-
$(SETUP)%: tools/setup
	@tools/setup $*
	@mkdir -p $(BUILD) && touch $@

build: $(SETUP)build
	@$(CONFIGURE) -DSTRETTO_TESTS=OFF > $(BUILD)/configure.log || (cat $(BUILD)/configure.log; exit 1)
	@cmake --build $(BUILD) -j$(JOBS) --target stretto

bench: build
	@tools/first-minute

test: $(SETUP)test
	@$(CONFIGURE) -DSTRETTO_TESTS=ON
	@cmake --build $(BUILD) -j$(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -j$(JOBS) --output-junit tests.xml; \
	  code=$$?; ../tools/skipped tests.xml; exit $$code

# Under sudo only what was built before: nothing of root's is left in build/, CMake's list included.
install: $(if $(SUDO_UID),,build)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"; \
	  code=$$?; rm -f $(BUILD)/install_manifest.txt; exit $$code

package: $(SETUP)build $(SETUP)package build
	@cd $(BUILD) && cpack

check: $(SETUP)check
	@tools/check

fuzz:
	@tools/fuzz

clean:
	rm -rf $(BUILD)
