#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ripieno/accounting/base/error.hpp>
#include <ripieno/accounting/base/json.hpp>

namespace ripieno {
namespace {

using testing::HasSubstr;

class JsonFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  static std::string fault_of(const std::filesystem::path& path) {
    try {
      static_cast<void>(read_json(path));
    } catch (const DataError& e) {
      return e.what();
    }
    return "no fault";
  }
  void TearDown() override { std::filesystem::remove(path_); }

 private:
  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("ripieno_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json");
};

TEST_F(JsonFile, KeepsTheOrderOfItsKeys) {
  EXPECT_EQ(read_json(write(R"({"z": 1, "a": [2, 3]})")).dump(), R"({"z":1,"a":[2,3]})");
}

TEST_F(JsonFile, NamesFileLineAndColumnOfAFault) {
  const std::string fault = fault_of(write("{\"a\": 1,\n  \"b\": ?}\n"));
  EXPECT_THAT(fault, HasSubstr("NamesFileLineAndColumnOfAFault.json"));
  EXPECT_THAT(fault, HasSubstr("line 2, column 8"));
  EXPECT_THAT(fault_of(write("?")), HasSubstr("line 1, column 1"));
}

TEST_F(JsonFile, ThatIsCutShortOrMissingIsADataError) {
  EXPECT_THAT(fault_of(write("{\"a\": 1")), HasSubstr("line 1"));
  EXPECT_THAT(fault_of("/no/such/file.json"), HasSubstr("/no/such/file.json"));
}

TEST(JsonValue, NamesPlaceAndKey) {
  const Json object = Json::parse(R"({"steps": "many", "delta": 1e-5})");
  EXPECT_EQ(json_value<double>(object, "delta", "plan"), 1e-5);
  for (const char* key : {"steps", "epsilon"}) {
    try {
      static_cast<void>(json_value<int>(object, key, "plan"));
      FAIL() << key;
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("plan"), HasSubstr(key)));
    }
  }
}

}  // namespace
}  // namespace ripieno
