// The strict YAML layer: what it refuses, with the place, and inputs that are not YAML at all.
#include "config/yaml.h"

#include <sys/stat.h>

#include "config/support.h"

namespace stretto {
namespace {

using test::error_of;
using test::TempDir;

Error parse_error(const std::string& text) {
  return error_of([&] { parse_yaml(text, "my.yaml"); });
}

TEST(Yaml, KeepsPlacesAndQuotes) {
  const YamlNode root = parse_yaml("a: 1\nb:\n  - x\n  - \"y\"\n", "my.yaml");
  EXPECT_EQ(root.find("a")->text, "1");
  EXPECT_EQ(root.find("a")->place.text(), "my.yaml:1:4");
  const YamlNode& list = *root.find("b");
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[1].text, "y");
  EXPECT_TRUE(list.items[1].quoted);
  EXPECT_FALSE(list.items[0].quoted);
  EXPECT_EQ(list.items[1].place.line_text(), "my.yaml:4");
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(Yaml, EmptyTextsAreEmptyMappings) {
  for (const char* text : {"", "\n\n", "# only a comment\n"}) {
    EXPECT_TRUE(parse_yaml(text, "my.yaml").items.empty()) << text;
  }
}

struct Refused {
  const char* name;
  std::string text;
  const char* message;
};

TEST(Yaml, RefusesWithThePlace) {
  const Refused cases[] = {
      {"duplicate", "a: 1\nb: 2\na: 3\n", "my.yaml:3:1  a: this key is already set at my.yaml:1"},
      {"nested duplicate", "t:\n  x: 1\n  x: 2\n", "my.yaml:3:3  x: this key is already set"},
      {"anchor", "a: &x 1\n", "my.yaml:1:4  anchors (&name) are not allowed"},
      {"alias", "a: 1\nb: *x\n", "my.yaml:2:4"},
      {"tag", "a: !!int 1\n", "tags (tag:yaml.org,2002:int) are not allowed"},
      {"own tag", "a: !python/object x\n", "are not allowed"},
      {"list as key", "? [a]\n: 1\n", "a key must be a word"},
      {"empty key", ": 1\n", "a key is missing or empty"},
      {"two documents", "a: 1\n---\nb: 2\n", "more than one YAML document"},
      {"bad flow", "a: [1, 2\n", "not valid YAML"},
      {"bad indent", "a: 1\n  b: 2\n", "my.yaml:2:4  not valid YAML"},
      {"open quote", "a: \"x\nb: \"y\"\n", "not valid YAML"},
      {"tab indent", "a:\n\tb: 1\n", "not valid YAML"},
      {"binary", std::string("a: \x01\n"), "my.yaml:1:4  byte 0x01 is a control character"},
      {"nul", std::string("a\0b", 3), "byte 0x00"},
      {"latin-1", "a: caf\xe9\n", "my.yaml:1:7  byte 0xe9"},
      {"overlong", "a: \xc0\xaf\n", "byte 0xc0"},
      {"surrogate", "a: \xed\xa0\x80\n", "byte 0xed"},
      {"cut off", "a: \xe2\x82", "byte 0xe2"},
      {"utf-16",
       std::string("\xff\xfe"
                   "a\0:\0",
                   6),
       "my.yaml:1:1  byte 0xff"},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.name);
    const Error error = parse_error(c.text);
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_CONTAINS(std::string(error.what()), c.message);
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST(Yaml, AcceptsUtf8) {
  EXPECT_EQ(parse_yaml("a: \"\u00e9\u6587\U0001F600\"\n", "my.yaml").find("a")->text,
            "\u00e9\u6587\U0001F600");
}

std::string nested(int levels) {
  return std::string(static_cast<size_t>(levels), '[') +
         std::string(static_cast<size_t>(levels), ']');
}

TEST(Yaml, NestingIsLimited) {
  EXPECT_NO_THROW(parse_yaml("a: " + nested(kMaxYamlDepth - 1), "my.yaml"));
  EXPECT_CONTAINS(std::string(parse_error("a: " + nested(kMaxYamlDepth)).what()),
                  "nested deeper than 64 levels");
  EXPECT_CONTAINS(std::string(parse_error(nested(100'000)).what()), "nested");
  std::string maps;
  for (int i = 0; i < 200; ++i) maps += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_CONTAINS(std::string(parse_error(maps + std::string(200, ' ') + "b: 1\n").what()),
                  "nested");
}

TEST(Yaml, LongLinesAndManyKeys) {
  const std::string long_value(1 << 20, 'x');
  EXPECT_EQ(parse_yaml("a: " + long_value, "my.yaml").find("a")->text.size(), long_value.size());
  std::string list = "a: [";
  for (int i = 0; i < 100'000; ++i) list += "1,";
  EXPECT_EQ(parse_yaml(list + "1]", "my.yaml").find("a")->items.size(), 100'001u);
}

TEST(YamlFile, MissingDirectoryLargeUnreadable) {
  const TempDir dir;
  Error error = error_of([&] { read_yaml_file(dir / "none.yaml"); });
  EXPECT_EQ(error.code(), ExitCode::no_input);
  EXPECT_CONTAINS(std::string(error.what()), "none.yaml");

  error = error_of([&] { read_yaml_file(dir / ""); });
  EXPECT_EQ(error.code(), ExitCode::bad_config);
  EXPECT_CONTAINS(std::string(error.what()), "is a directory");
  EXPECT_CONTAINS(error.hint(), "name a file in it");
  std::filesystem::create_directories(dir / "run/checkpoints");
  error = error_of([&] { read_yaml_file(dir / "run"); });
  EXPECT_CONTAINS(error.hint(), "output=" + (dir / "run"));

  error = error_of([&] { read_yaml_file("/dev/null"); });
  EXPECT_CONTAINS(std::string(error.what()), "is not a file");

  const std::string large = dir.write("large.yaml", std::string(kMaxYamlBytes + 1, '#'));
  error = error_of([&] { read_yaml_file(large); });
  EXPECT_EQ(error.code(), ExitCode::bad_config);
  EXPECT_CONTAINS(std::string(error.what()), "larger than 1.00 MiB");

  const std::string binary = dir.write("binary.yaml", std::string("\x7f"
                                                                  "ELF\0\0",
                                                                  6));
  EXPECT_EQ(error_of([&] { read_yaml_file(binary); }).code(), ExitCode::bad_config);
}

// What came before the error is not the whole configuration. Nothing is mapped at the address 0.
TEST(YamlFile, ErrorsOfTheDiskAreErrors) {
  const Error error = error_of([] { read_yaml_file("/proc/self/mem"); });
  EXPECT_EQ(error.code(), ExitCode::io_error);
  EXPECT_CONTAINS(std::string(error.what()), "cannot read /proc/self/mem: ");
}

}  // namespace
}  // namespace stretto
