#include "config/yaml.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_set>

#include "base/error.h"
#include "base/log.h"

namespace stretto {
namespace {

// Turns the events of yaml-cpp into YamlNodes and refuses what is not allowed. It also checks the
// depth, because yaml-cpp's own limit is far beyond what we accept.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}

  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    YamlNode node;
    // For a value that is not written, yaml-cpp reports the place of whatever comes next.
    node.place = expects_value() ? stack_.back().node.keys.back().place : place(mark);
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "aliases (*name) are not allowed", "write the value, or use ${key}");
  }

  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_anchor(mark, 1); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode node = yaml_scalar(value, place(mark));
    node.quoted = tag == "!";
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::mapping);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    bool key_pending = false;  // a mapping's key has been read, but not its value
    std::unordered_set<std::string> seen;
  };

  Place place(const YAML::Mark& mark) const {
    return {Source::file, file_, mark.line + 1, mark.column + 1};
  }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what,
                         const std::string& fix) const {
    throw Error(ExitCode::bad_config, fmt::format("{}  {}", place(mark).text(), what), fix);
  }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != 0) {
      fail(mark, "anchors (&name) are not allowed", "write the value twice, or use ${key}");
    }
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(mark, fmt::format("tags ({}) are not allowed", printable(tag.substr(0, 40))),
           "remove the tag; types follow from the key");
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (expects_key())
      fail(mark, "a key must be a word", "use a plain word as the key, and close every bracket");
    if (stack_.size() >= kMaxYamlDepth) {
      fail(mark, fmt::format("nested deeper than {} levels", kMaxYamlDepth), "nest less");
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.place = place(mark);
    stack_.push_back(std::move(frame));
  }

  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
  }

  bool expects_key() const {
    return !stack_.empty() && stack_.back().node.is_mapping() && !stack_.back().key_pending;
  }

  bool expects_value() const { return !stack_.empty() && stack_.back().key_pending; }

  void add(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
    } else if (expects_key()) {
      add_key(std::move(node));
    } else {
      stack_.back().key_pending = false;
      stack_.back().node.items.push_back(std::move(node));
    }
  }

  void add_key(YamlNode node) {
    Frame& frame = stack_.back();
    const std::string where = node.place.text();
    if (!node.is_scalar() || node.text.empty()) {
      throw Error(ExitCode::bad_config, where + "  a key is missing or empty", "name the value");
    }
    if (!frame.seen.insert(node.text).second) {
      const std::string name = printable(node.text.substr(0, 60));
      std::string first;
      for (const YamlKey& key : frame.node.keys) {
        if (key.name == node.text) first = key.place.line_text();
      }
      throw Error(ExitCode::bad_config,
                  fmt::format("{}  {}: this key is already set at {}", where, name, first),
                  "keep one of the two");
    }
    frame.node.keys.push_back({std::move(node.text), std::move(node.place)});
    frame.key_pending = true;
  }

  std::string file_;
  std::vector<Frame> stack_;
  YamlNode root_;
};

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& name) {
  require_text(text, name);
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(name);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      YamlNode empty;
      empty.kind = YamlNode::Kind::mapping;
      empty.place = {Source::file, name, 1, 1};
      return empty;
    }
    YamlNode root = builder.take_root();
    TreeBuilder rest(name);
    if (parser.HandleNextDocument(rest)) {
      throw Error(ExitCode::bad_config, name + ": holds more than one YAML document",
                  "keep one document per file (no '---' in the middle)");
    }
    return root;
  } catch (const YAML::DeepRecursion&) {
    throw Error(ExitCode::bad_config, fmt::format("{}: nested too deep", name), "nest less");
  } catch (const YAML::Exception& error) {
    const Place place{Source::file, name, error.mark.line + 1, error.mark.column + 1};
    throw Error(ExitCode::bad_config,
                fmt::format("{}  not valid YAML: {}", place.text(), printable(error.msg)),
                "check indentation, colons, quotes and brackets around this place");
  }
}

}  // namespace stretto
