#!/usr/bin/env bash
# What tools/skipped says of ctest's XML: how many tests were skipped, and the reasons, most frequent first.
#   skipped.sh SOURCE_DIR
set -euo pipefail
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 125; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/tests.xml" << 'END'
<testsuite>
<testcase name="A.Passes" status="run"><system-out>skipped: not me</system-out></testcase>
<testcase name="Browser" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>browser: SKIPPED: no Chromium</system-out></testcase>
<testcase name="Gpu.One" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>[ RUN      ] Gpu.One
../gpu_test.cpp:24: Skipped
no GPU
[  SKIPPED ] Gpu.One (0 ms)</system-out></testcase>
<testcase name="Gpu.Two" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>[ RUN      ] Gpu.Two
../gpu_test.cpp:24: Skipped
no GPU
[  SKIPPED ] Gpu.Two (0 ms)</system-out></testcase>
<testcase name="Mute" status="notrun"><skipped message="SKIP_RETURN_CODE=125"/></testcase>
</testsuite>
END
diff - <("$1/tools/skipped" "$dir/tests.xml") << 'END'
skipped: 4 of 5 tests, because of:
     2  no GPU (Gpu.One, Gpu.Two)
     1  no Chromium (Browser)
     1  it does not say why (Mute)
END
echo '<testsuite><testcase name="A.Passes" status="run"/></testsuite>' > "$dir/tests.xml"
[ "$("$1/tools/skipped" "$dir/tests.xml")" = "skipped: 0 of 1 tests" ]
