#include "job/rendezvous/address.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace nccl_check::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Found = Result<std::vector<std::string>>;

AddressSource says(std::string name, Found found) {
  return {std::move(name), [found](const std::string&, Deadline) { return found; }};
}

class AddressTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/nccl-check-address.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  ~AddressTest() override { std::filesystem::remove_all(folder); }
  std::string program(const std::string& text) const {
    const std::string path = (folder / "program").string();
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }
  std::filesystem::path folder;
};

TEST_F(AddressTest, TheFirstThatKnowsIsTaken) {
  const auto found =
      find_addresses("n1",
                     {says("a", Error{"knows nothing", "", ""}), says("b", std::vector<std::string>{}),
                      says("c", std::vector<std::string>{"10.0.0.1", "fd00::1", "10.0.0.1", "n1.site"}),
                      says("d", std::vector<std::string>{"10.9.9.9"})},
                     Deadline::in(Milliseconds(1000)));
  ASSERT_TRUE(found);
  EXPECT_THAT(*found, ElementsAre("10.0.0.1", "fd00::1"));
}

TEST_F(AddressTest, TheErrorTellsWhatEachSaid) {
  const auto found = find_addresses("n1",
                                    {says("Slurm's table", Error{"knows nothing", "", ""}),
                                     says("the resolver", std::vector<std::string>{"name"})},
                                    Deadline::in(Milliseconds(1000)));
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().text(),
              HasSubstr("n1: no address was found: Slurm's table: knows nothing; the resolver: no address"));
  EXPECT_FALSE(find_addresses("n1", {}, Deadline::in(Milliseconds(1000))));
}

TEST_F(AddressTest, ANameThatLooksLikeAnOptionIsNoName) {
  for (const char* name : {"", "-x", "--rpc", "a b", "a\nb"}) {
    const auto found = find_addresses(name, {says("a", std::vector<std::string>{"10.0.0.1"})},
                                      Deadline::in(Milliseconds(1000)));
    ASSERT_FALSE(found) << name;
    EXPECT_THAT(found.error().text(), HasSubstr("is not a node's name"));
  }
}

TEST_F(AddressTest, AsksSlurmsProgram) {
  const auto path =
      program(R"([ "$*" = "address n1" ] && [ "$SLURM_CONF" = /x ] && echo '{"addresses":{"n1":"10.0.0.7"},"unknown":[]}'
[ "$*" = "address --rpc n1" ] && echo '{"addresses":{"n1":"10.0.0.8"},"unknown":[]}'; exit 0)");
  const auto table =
      find_addresses("n1", {slurm_table(path, {"SLURM_CONF=/x"})}, Deadline::in(Milliseconds(5000)));
  ASSERT_TRUE(table) << table.error().text();
  EXPECT_THAT(*table, ElementsAre("10.0.0.7"));
  const auto rpc = find_addresses("n1", {slurm_controller(path, {})}, Deadline::in(Milliseconds(5000)));
  ASSERT_TRUE(rpc) << rpc.error().text();
  EXPECT_THAT(*rpc, ElementsAre("10.0.0.8"));
}

TEST_F(AddressTest, NamesWhatSlurmsProgramDidInstead) {
  const std::pair<const char*, const char*> cases[] = {
      {"echo 'no such node' >&2; exit 1", "exit status 1: no such node"},
      {"echo rubbish", "printed no addresses: 'rubbish'"},
      {"echo '{\"addresses\":7}'", "printed no addresses"},
      {"echo '{\"addresses\":{},\"unknown\":[\"n1\"]}'", "knows no address of n1"},
      {"echo '{\"addresses\":{\"n1\":7}}'", "knows no address of n1"},
      {"echo '[]'", "printed no addresses"},
      {"exec yes", "wrote more than 65536 bytes"},
      {"kill -9 $$", "killed by signal 9"},
  };
  for (const auto& [text, why] : cases) {
    const auto found =
        find_addresses("n1", {slurm_table(program(text), {})}, Deadline::in(Milliseconds(5000)));
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().text(), HasSubstr(why));
  }
  EXPECT_FALSE(
      find_addresses("n1", {slurm_table("/nonexistent/program", {})}, Deadline::in(Milliseconds(5000))));
}

TEST_F(AddressTest, ASourceThatHangsLeavesTimeForTheNext) {
  const auto start = Clock::now();
  const auto found = find_addresses(
      "n1", {slurm_table(program("exec sleep 60"), {}), says("b", std::vector<std::string>{"10.0.0.1"})},
      Deadline::in(Milliseconds(600)));
  ASSERT_TRUE(found);
  EXPECT_LT(Clock::now() - start, Milliseconds(600));
}

TEST_F(AddressTest, AsksTheResolver) {
  const auto found = find_addresses("localhost", {resolver()}, Deadline::in(Milliseconds(5000)));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_THAT(*found, testing::Contains(testing::AnyOf("127.0.0.1", "::1")));
  const auto none = find_addresses("no-such-host.invalid", {resolver()}, Deadline::in(Milliseconds(5000)));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("the resolver: "));
}

}  // namespace
}  // namespace nccl_check::rendezvous
