// Runs tests/passes/*.txt: graphs in, passes by name, graphs out.
//
// A file holds cases:   === title
//                       passes: dead_code common_subexpressions
//                       graph f(…) { … }
//                       ---
//                       graph f(…) { … }
// FIRESTEEL_UPDATE_EXPECTED=1 rewrites what stands under ---.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "graph/graph.h"
#include "graph/passes/pass.h"

namespace firesteel {
namespace {

struct Case {
  std::string title;
  std::string comments;  // lines between the title and the passes
  std::vector<std::string> passes;
  std::string input;
  std::string expected;
};

struct File {
  std::filesystem::path path;
  std::string preamble;  // lines before the first case
  std::vector<Case> cases;
};

File read_file(const std::filesystem::path& path) {
  File file{path, {}, {}};
  std::ifstream stream(path);
  bool in_expected = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("=== ")) {
      file.cases.push_back({line.substr(4), {}, {}, {}, {}});
      in_expected = false;
    } else if (file.cases.empty()) {
      file.preamble += line + "\n";
    } else if (line == "---") {
      in_expected = true;
    } else if (line.starts_with("passes: ")) {
      std::istringstream names(line.substr(8));
      for (std::string name; names >> name;) file.cases.back().passes.push_back(name);
    } else if (!line.empty()) {
      Case& current = file.cases.back();
      std::string& part = in_expected ? current.expected : current.passes.empty() ? current.comments : current.input;
      part += line + "\n";
    }
  }
  return file;
}

void write_file(const File& file) {
  std::ofstream stream(file.path);
  stream << file.preamble;
  bool first = true;
  for (const Case& test : file.cases) {
    stream << (first ? "" : "\n") << "=== " << test.title << "\n" << test.comments << "passes:";
    first = false;
    for (const std::string& pass : test.passes) stream << " " << pass;
    stream << "\n" << test.input << "---\n" << test.expected;
  }
}

std::string run(const Case& test) {
  Graph graph = parse_graph(test.input);
  for (const std::string& pass : test.passes) run_pass(pass, graph);
  return graph.str();
}

class PassCase : public testing::Test {
 public:
  explicit PassCase(Case test) : test_(std::move(test)) {}
  void TestBody() override {
    std::string actual = run(test_);
    EXPECT_EQ(actual, test_.expected);
    EXPECT_EQ(parse_graph(actual).str(), actual);
  }

 private:
  Case test_;
};

bool register_cases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(FIRESTEEL_SOURCE_DIR "/tests/passes")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  const char* update = std::getenv("FIRESTEEL_UPDATE_EXPECTED");
  for (const auto& path : paths) {
    File file = read_file(path);
    if (update && *update == '1') {
      for (Case& test : file.cases) test.expected = run(test);
      write_file(file);
    }
    for (const Case& test : file.cases) {
      std::string name = path.stem().string() + "_" + test.title;
      std::replace_if(
          name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
      testing::RegisterTest("PassFiles", name.c_str(), nullptr, nullptr, path.c_str(), 1,
                            [test]() -> PassCase* { return new PassCase(test); });
    }
  }
  return !paths.empty();
}

const bool registered = register_cases();

TEST(Passes, FilesAreFound) { EXPECT_TRUE(registered); }

TEST(Passes, AnUnknownNameIsAnInternalError) {
  Graph graph;
  EXPECT_ANY_THROW(run_pass("no_such_pass", graph));
}

}  // namespace
}  // namespace firesteel
