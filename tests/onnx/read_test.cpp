// Files written with protobuf by the test itself: what is accepted, and every refusal with its reason.
#include "onnx/read.h"

#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "base/error.h"

namespace tw::onnx {
namespace {

namespace fs = std::filesystem;
namespace pb = ::onnx;
using testing::HasSubstr;

class Read : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tw-onnx-" + std::to_string(getpid()) +
                                           testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_ / "model");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path(const std::string& name = "m.onnx") const { return folder_ / "model" / name; }
  fs::path write_bytes(const std::string& bytes, const std::string& name = "m.onnx") const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  fs::path write(const pb::ModelProto& model) const { return write_bytes(model.SerializeAsString()); }
  Model read(const pb::ModelProto& model) const { return read_model(write(model)); }
  std::string refusal(const pb::ModelProto& model) const { return refusal(write(model)); }
  static std::string refusal(const fs::path& file) {
    try {
      read_model(file);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::File);
      EXPECT_THAT(e.what(), HasSubstr(file.string()));
      return e.what();
    }
    return "accepted";
  }

  fs::path folder_;
};

void add_value(pb::ValueInfoProto& v, const std::string& name, const std::vector<std::string>& dims) {
  v.set_name(name);
  auto& type = *v.mutable_type()->mutable_tensor_type();
  type.set_elem_type(pb::TensorProto::FLOAT);
  type.mutable_shape();
  for (const std::string& d : dims) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (d.empty()) continue;
    std::isdigit(static_cast<unsigned char>(d[0])) ? dim.set_dim_value(std::stol(d)) : dim.set_dim_param(d);
  }
}

pb::NodeProto& add_node(pb::ModelProto& m, const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& output) {
  pb::NodeProto& n = *m.mutable_graph()->add_node();
  n.set_op_type(op);
  n.set_name("my " + op);
  for (const std::string& i : inputs) n.add_input(i);
  n.add_output(output);
  return n;
}

// y = Add(x, w) with x [batch,3].
pb::ModelProto small(std::int64_t opset = 17) {
  pb::ModelProto m;
  m.set_ir_version(8);
  m.set_producer_name("test");
  m.add_opset_import()->set_version(opset);
  add_value(*m.mutable_graph()->add_input(), "x", {"batch", "3"});
  add_value(*m.mutable_graph()->add_output(), "y", {"batch", "3"});
  pb::TensorProto& w = *m.mutable_graph()->add_initializer();
  w.set_name("w");
  w.add_dims(3);
  w.set_data_type(pb::TensorProto::FLOAT);
  for (const float v : {1.0F, 2.0F, 3.0F}) w.add_float_data(v);
  add_node(m, "Add", {"x", "w"}, "y");
  return m;
}
pb::TensorProto& weight(pb::ModelProto& m) { return *m.mutable_graph()->mutable_initializer(0); }

void set_external(pb::TensorProto& t, const std::string& location, const std::string& offset,
                  const std::string& length) {
  t.clear_float_data();
  t.set_data_location(pb::TensorProto_DataLocation_EXTERNAL);
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"location", location}, {"offset", offset}, {"length", length}}) {
    if (value.empty()) continue;
    auto& entry = *t.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

TEST_F(Read, AModelAsPlainValues) {
  pb::ModelProto m = small();
  add_value(*m.mutable_graph()->add_input(), "w", {"3"});  // an initializer with a default is no input
  const Model model = read(m);
  EXPECT_EQ(model.opset(), 17);
  EXPECT_EQ(model.producer, "test");
  ASSERT_EQ(model.inputs.size(), 1);
  EXPECT_EQ(model.inputs[0].name, "x");
  EXPECT_EQ(model.inputs[0].dims, (std::vector<Dim>{{-1, "batch"}, {3, ""}}));
  EXPECT_EQ(model.initializers.at("w").floats, (std::vector<float>{1, 2, 3}));
  ASSERT_EQ(model.nodes.size(), 1);
  EXPECT_EQ(model.nodes[0].inputs, (std::vector<std::string>{"x", "w"}));
}

TEST_F(Read, AttributesOfEveryKind) {
  pb::ModelProto m = small();
  pb::NodeProto& n = *m.mutable_graph()->mutable_node(0);
  const auto add = [&](const std::string& name,
                       pb::AttributeProto::AttributeType type) -> pb::AttributeProto& {
    pb::AttributeProto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(type);
    return a;
  };
  add("f", pb::AttributeProto::FLOAT).set_f(1.5F);
  add("i", pb::AttributeProto::INT).set_i(-7);
  add("s", pb::AttributeProto::STRING).set_s("text");
  add("fs", pb::AttributeProto::FLOATS).add_floats(2.5F);
  add("is", pb::AttributeProto::INTS).add_ints(9);
  add("ss", pb::AttributeProto::STRINGS).add_strings("t");
  pb::TensorProto& t = *add("t", pb::AttributeProto::TENSOR).mutable_t();
  t.set_data_type(pb::TensorProto::INT64);
  t.add_int64_data(5);
  const Node node = read(m).nodes[0];
  EXPECT_EQ(*node.attribute<float>("f"), 1.5F);
  EXPECT_EQ(*node.attribute<std::int64_t>("i"), -7);
  EXPECT_EQ(*node.attribute<std::string>("s"), "text");
  EXPECT_EQ(*node.attribute<std::vector<float>>("fs"), std::vector<float>{2.5F});
  EXPECT_EQ(*node.attribute<std::vector<std::int64_t>>("is"), std::vector<std::int64_t>{9});
  EXPECT_EQ(*node.attribute<std::vector<std::string>>("ss"), std::vector<std::string>{"t"});
  EXPECT_EQ(node.attribute<Tensor>("t")->ints, std::vector<std::int64_t>{5});
  EXPECT_EQ(node.attribute<float>("i"), nullptr);
}

// Bit patterns and values from the format definitions (models.md A.1, IEEE 754, OCP 8-bit formats).
TEST_F(Read, ElementTypes) {
  struct Case {
    int type;
    std::string raw;
    std::vector<float> floats;
    std::vector<std::int64_t> ints;
  };
  const auto bytes = [](std::initializer_list<int> list) {
    std::string s;
    for (const int b : list) s += static_cast<char>(b);
    return s;
  };
  const Case cases[] = {
      {1, bytes({0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0}), {1, -2}, {}},
      {2, bytes({0, 255}), {}, {0, 255}},
      {3, bytes({1, 255}), {}, {1, -1}},
      {4, bytes({1, 0, 255, 255}), {}, {1, 65535}},
      {5, bytes({1, 0, 255, 255}), {}, {1, -1}},
      {6, bytes({1, 0, 0, 0, 254, 255, 255, 255}), {}, {1, -2}},
      {7, bytes({1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}), {}, {1, -1}},
      {9, bytes({0, 2}), {}, {0, 1}},
      {10, bytes({0, 0x3C, 1, 0}), {1, 0x1p-24F}, {}},
      {11, bytes({0, 0, 0, 0, 0, 0, 0xF8, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0}), {1.5F, 0}, {}},
      {12, bytes({1, 0, 0, 0, 255, 255, 255, 255}), {}, {1, 4294967295}},
      {16, bytes({0x80, 0x3F, 0x80, 0xBF}), {1, -1}, {}},
      {17, bytes({0x38, 0x7E}), {1, 448}, {}},
      {18, bytes({0x40, 0xFF}), {1, -240}, {}},
      {19, bytes({0x3C, 0x7B}), {1, 57344}, {}},
      {20, bytes({0x40, 0x01}), {1, 0x1p-17F}, {}},
  };
  for (const Case& c : cases) {
    pb::ModelProto m = small();
    pb::TensorProto& t = *m.mutable_graph()->add_initializer();
    t.set_name("t");
    t.add_dims(2);
    t.set_data_type(c.type);
    t.set_raw_data(c.raw);
    const Tensor got = read(m).initializers.at("t");
    EXPECT_EQ(got.floats, c.floats) << c.type;
    EXPECT_EQ(got.ints, c.ints) << c.type;
  }
}

TEST_F(Read, HalvesInTheIntegerField) {
  pb::ModelProto m = small();
  weight(m).clear_float_data();
  weight(m).set_data_type(pb::TensorProto::FLOAT16);
  for (const int bits : {0x3C00, 0xC000, 0x7BFF}) weight(m).add_int32_data(bits);
  EXPECT_EQ(read(m).initializers.at("w").floats, (std::vector<float>{1, -2, 65504}));
}

TEST_F(Read, ExternalDataAtAnOffset) {
  pb::ModelProto m = small();
  set_external(weight(m), "weights.bin", "4", "12");
  std::string data(16, '\0');
  const float values[] = {9, 4, 5, 6};
  std::memcpy(data.data(), values, sizeof values);
  write_bytes(data, "weights.bin");
  EXPECT_EQ(read(m).initializers.at("w").floats, (std::vector<float>{4, 5, 6}));
}

// Download caches keep weights elsewhere behind a link, as for checkpoints.
TEST_F(Read, ExternalDataBehindALink) {
  const float values[] = {4, 5, 6};
  std::ofstream(folder_ / "blob", std::ios::binary)
      .write(reinterpret_cast<const char*>(values), sizeof values);
  fs::create_symlink("../blob", path("weights.bin"));
  pb::ModelProto m = small();
  set_external(weight(m), "weights.bin", "", "12");
  EXPECT_EQ(read(m).initializers.at("w").floats, (std::vector<float>{4, 5, 6}));
  fs::create_symlink("/dev/zero", path("zero.bin"));
  set_external(weight(m), "zero.bin", "", "12");
  EXPECT_THAT(refusal(m), HasSubstr("'zero.bin' is missing"));
}

TEST_F(Read, ExternalDataThatMustBeRefused) {
  write_bytes(std::string(16, '\0'), "weights.bin");
  std::ofstream(folder_ / "secret.bin", std::ios::binary) << std::string(16, '\0');
  struct Case {
    const char *location, *offset, *length, *reason;
  };
  const Case cases[] = {
      {"gone.bin", "", "", "'gone.bin' is missing"},
      {"weights.bin", "8", "12", "12 bytes at 8 of 'weights.bin', which has 16 bytes"},
      {"weights.bin", "18446744073709551615", "12", "which has 16 bytes"},
      {"weights.bin", "0", "8", "needs 12 bytes, its external data has length 8"},
      {"weights.bin", "-4", "12", "offset '-4'"},
      {"weights.bin", "4x", "12", "offset '4x'"},
      {"../secret.bin", "", "", "file \"../secret.bin\" is outside the model's folder"},
      {"sub/../../secret.bin", "", "", "is outside the model's folder"},
      {"/etc/passwd", "", "", "is outside the model's folder"},
      {"", "", "", "an empty file name"},
      {".", "", "", "'.' is missing"},
  };
  for (const Case& c : cases) {
    pb::ModelProto m = small();
    set_external(weight(m), c.location, c.offset, c.length);
    EXPECT_THAT(refusal(m), testing::AllOf(HasSubstr("initializer 'w'"), HasSubstr(c.reason))) << c.location;
  }
}

TEST_F(Read, AFewBytesCannotAskForTheSameDataAgainAndAgain) {
  write_bytes(std::string(1200, '\0'), "weights.bin");
  pb::ModelProto m = small();
  for (int i = 0; i < 20; ++i) {
    pb::TensorProto& t = *m.mutable_graph()->add_initializer();
    t.set_name("t" + std::to_string(i));
    t.add_dims(300);
    t.set_data_type(pb::TensorProto::FLOAT);
    set_external(t, "weights.bin", "", "");
  }
  EXPECT_THAT(refusal(m), HasSubstr("more than 4 times the external data"));
}

TEST_F(Read, WhatIsWrongWithAModel) {
  using Change = std::function<void(pb::ModelProto&)>;
  const std::vector<std::pair<const char*, Change>> cases = {
      {"no graph", [](auto& m) { m.clear_graph(); }},
      {"no opset version", [](auto& m) { m.clear_opset_import(); }},
      {"opset 8; 9 is the oldest", [](auto& m) { m.mutable_opset_import(0)->set_version(8); }},
      {"model-local function 'f'", [](auto& m) { m.add_functions()->set_name("f"); }},
      {"initializer 'w': value 'w' exists already",
       [](auto& m) { *m.mutable_graph()->add_initializer() = weight(m); }},
      {"'w': shape [3] needs 3 values, it has 2",
       [](auto& m) { weight(m).mutable_float_data()->RemoveLast(); }},
      {"'w': shape [3] needs 12 bytes, it has 3",
       [](auto& m) {
         weight(m).clear_float_data();
         weight(m).set_raw_data("abc");
       }},
      {"'w': shape [-3] is negative", [](auto& m) { weight(m).set_dims(0, -3); }},
      {"is negative or too large",
       [](auto& m) {
         weight(m).set_dims(0, std::int64_t{1} << 40);
         weight(m).add_dims(std::int64_t{1} << 40);
       }},
      {"a shape of 40 axes",
       [](auto& m) {
         for (int i = 1; i < 40; ++i) weight(m).add_dims(1);
       }},
      {"'w': elements of type STRING", [](auto& m) { weight(m).set_data_type(pb::TensorProto::STRING); }},
      {"'w': elements of type COMPLEX64",
       [](auto& m) { weight(m).set_data_type(pb::TensorProto::COMPLEX64); }},
      {"'w': elements of type 77", [](auto& m) { weight(m).set_data_type(77); }},
      {"'w': a segment", [](auto& m) { weight(m).mutable_segment()->set_begin(1); }},
      {"sparse initializers", [](auto& m) { m.mutable_graph()->add_sparse_initializer(); }},
      {"node 'my Add' (Add): its input 'z' does not exist",
       [](auto& m) { m.mutable_graph()->mutable_node(0)->set_input(1, "z"); }},
      {"node 'my Neg' (Neg): value 'y' exists already", [](auto& m) { add_node(m, "Neg", {"x"}, "y"); }},
      {"output 'q' does not exist", [](auto& m) { m.mutable_graph()->mutable_output(0)->set_name("q"); }},
      {"no output", [](auto& m) { m.mutable_graph()->clear_output(); }},
      {"waits for its own result",
       [](auto& m) {
         add_node(m, "Neg", {"b"}, "a");
         add_node(m, "Neg", {"a"}, "b");
       }},
      {"node 'my If' (If): subgraphs are not supported",
       [](auto& m) {
         pb::AttributeProto& a = *add_node(m, "If", {"x"}, "z").add_attribute();
         a.set_name("then_branch");
         a.set_type(pb::AttributeProto::GRAPH);
         a.mutable_g()->set_name("g");
       }},
      {"attribute 'k' of kind 13",
       [](auto& m) {
         pb::AttributeProto& a = *m.mutable_graph()->mutable_node(0)->add_attribute();
         a.set_name("k");
         a.set_type(pb::AttributeProto::TYPE_PROTO);
       }},
      {"attribute 'k' stands twice",
       [](auto& m) {
         for (int i = 0; i < 2; ++i) {
           pb::AttributeProto& a = *m.mutable_graph()->mutable_node(0)->add_attribute();
           a.set_name("k");
           a.set_type(pb::AttributeProto::INT);
         }
       }},
      {"input 'x': no tensor",
       [](auto& m) { m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_sequence_type(); }},
      {"input 'x': no shape",
       [](auto& m) {
         m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
       }},
      {"input 'x': extent -5",
       [](auto& m) {
         m.mutable_graph()
             ->mutable_input(0)
             ->mutable_type()
             ->mutable_tensor_type()
             ->mutable_shape()
             ->mutable_dim(0)
             ->set_dim_value(-5);
       }},
  };
  for (const auto& [reason, change] : cases) {
    pb::ModelProto m = small();
    change(m);
    EXPECT_THAT(refusal(m), HasSubstr(reason));
  }
}

TEST_F(Read, AllProblemsAtOnce) {
  pb::ModelProto m = small(8);
  weight(m).set_dims(0, 4);
  m.mutable_graph()->mutable_node(0)->set_input(0, "z");
  EXPECT_THAT(refusal(m), testing::AllOf(HasSubstr("3 problems"), HasSubstr("opset 8"),
                                         HasSubstr("needs 4 values"), HasSubstr("'z' does not exist")));
}

TEST_F(Read, AtMostFiftyProblemsAreListed) {
  pb::ModelProto m = small();
  for (int i = 0; i < 60; ++i) m.mutable_graph()->mutable_node(0)->add_input("none" + std::to_string(i));
  EXPECT_THAT(refusal(m), testing::AllOf(HasSubstr("60 problems"), HasSubstr("'none49'"),
                                         HasSubstr("and 10 more"), testing::Not(HasSubstr("'none50'"))));
}

TEST_F(Read, WhatIsNoModel) {
  EXPECT_THAT(refusal(path("missing.onnx")), HasSubstr("no such file"));
  EXPECT_THAT(refusal(folder_), HasSubstr("is no regular file"));
  EXPECT_THAT(refusal(write_bytes("")), HasSubstr("no ONNX model, or damaged"));
  EXPECT_THAT(refusal(write_bytes("hello world, this is text")), HasSubstr("no ONNX model, or damaged"));
}

// Cut anywhere or with one byte changed: an Error or a model, never more.
TEST_F(Read, DamagedFiles) {
  const std::string good = small().SerializeAsString();
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_NE(refusal(write_bytes(good.substr(0, n))), "accepted") << n;
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ flip);
      refusal(write_bytes(bad));
    }
  }
}

TEST_F(Read, NodesThatAreOutOfOrderAreSorted) {
  pb::ModelProto m = small();
  m.mutable_graph()->mutable_node(0)->set_input(1, "late");
  add_node(m, "Neg", {"w"}, "late");
  const Model model = read(m);
  ASSERT_EQ(model.nodes.size(), 2);
  EXPECT_EQ(model.nodes[0].op_type, "Neg");
  EXPECT_EQ(model.nodes[1].op_type, "Add");
}

TEST_F(Read, SymbolicExtents) {
  pb::ModelProto m = small();
  add_value(*m.mutable_graph()->add_input(), "u", {"tokens", "", "batch"});
  const Model read_once = read(m);
  Model model = read_once;
  try {
    bind_dims(model, {{"tokens", 5}});
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::Usage);
    EXPECT_THAT(e.what(), HasSubstr("--dim batch=N --dim u.1=N"));
  }
  model = read_once;
  bind_dims(model, {{"batch", 2}, {"tokens", 5}, {"u.1", 7}});
  EXPECT_EQ(model.inputs[0].dims[0].value, 2);
  EXPECT_EQ(model.inputs[1].dims, (std::vector<Dim>{{5, "tokens"}, {7, "u.1"}, {2, "batch"}}));
  EXPECT_EQ(model.outputs[0].dims[0].value, 2);
  for (const auto& [wrong, text] : std::vector<std::pair<std::map<std::string, std::int64_t>, const char*>>{
           {{{"width", 2}}, "--dim width: the model has no extent of that name; it has batch, tokens, u.1"},
           {{{"batch", 0}}, "--dim batch=0: must be at least 1"}}) {
    model = read_once;
    try {
      bind_dims(model, wrong);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::Usage);
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
  }
}

TEST_F(Read, TensorFiles) {
  pb::ModelProto m = small();
  const Tensor t = read_tensor(write_bytes(weight(m).SerializeAsString(), "t.pb"));
  EXPECT_EQ(t.dims, Dims{3});
  EXPECT_EQ(t.floats, (std::vector<float>{1, 2, 3}));
  weight(m).set_dims(0, 9);
  EXPECT_THROW(read_tensor(write_bytes(weight(m).SerializeAsString(), "t.pb")), Error);
  EXPECT_THROW(read_tensor(path("gone.pb")), Error);
}

}  // namespace
}  // namespace tw::onnx
