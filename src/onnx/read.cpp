#include "onnx/read.h"

#include <fmt/core.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include <fstream>
#include <limits>
#include <queue>
#include <set>

#include "base/error.h"
#include "import/files.h"
#include "import/problems.h"
#include "onnx/proto.h"

namespace tw::onnx {

namespace {

using import::printable;
namespace pb = ::onnx;

// Reads through a stream, so that a file is not held beside the message made from it.
template <typename Message>
Message parse(const std::filesystem::path& path, const char* what) {
  static const auto silent = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silent);
  import::require_regular(path);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) import::refuse(path, {"cannot be read"});
  if (size > static_cast<std::uint64_t>(std::numeric_limits<int>::max()))
    import::refuse(path, {fmt::format("{} bytes; more than 2 GiB must be external data", size)});
  std::ifstream in(path, std::ios::binary);
  if (!in) import::refuse(path, {"cannot be read"});
  google::protobuf::io::IstreamInputStream stream(&in);
  Message message;
  if (size == 0 || !message.ParseFromZeroCopyStream(&stream))
    import::refuse(path, {fmt::format("no {}, or damaged", what)});
  return message;
}

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

class Reader {
 public:
  Reader(const std::filesystem::path& folder, std::int64_t oldest_opset)
      : oldest_opset_(oldest_opset), tensors_(folder, problems_) {}

  Model read(pb::ModelProto& proto) {
    read_header(proto);
    if (!proto.has_graph()) {
      problems_.push_back("no graph");
      return {};
    }
    pb::GraphProto& graph = *proto.mutable_graph();
    if (graph.sparse_initializer_size() > 0)
      problems_.push_back("sparse initializers, which are not supported");
    for (pb::TensorProto& t : *graph.mutable_initializer()) read_initializer(t);
    for (const pb::ValueInfoProto& v : graph.input()) {
      if (model_.initializers.contains(v.name())) continue;
      if (v.name().empty()) problems_.push_back("an input without a name");
      model_.inputs.push_back(read_value(v, true));
      declare(v.name(), "input");
    }
    for (pb::NodeProto& n : *graph.mutable_node()) read_node(n);
    for (const pb::ValueInfoProto& v : graph.output()) model_.outputs.push_back(read_value(v, false));
    check_values();
    return std::move(model_);
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void read_header(const pb::ModelProto& proto) {
    model_.producer = printable(proto.producer_name());
    if (!proto.producer_version().empty()) model_.producer += " " + printable(proto.producer_version());
    for (const auto& opset : proto.opset_import()) model_.opsets[domain_of(opset.domain())] = opset.version();
    const std::int64_t opset = model_.opset();
    if (opset == 0) {
      problems_.push_back("no opset version of the domain ai.onnx");
    } else if (opset < oldest_opset_) {
      problems_.push_back(fmt::format("opset {}; {} is the oldest that is supported", opset, oldest_opset_));
    }
    for (const auto& f : proto.functions()) {
      problems_.push_back(
          fmt::format("model-local function '{}', which is not supported", printable(f.name())));
    }
  }

  void declare(const std::string& value, const std::string& who) {
    if (!value.empty() && !values_.insert(value).second)
      problems_.push_back(fmt::format("{}: value '{}' exists already", who, printable(value)));
  }

  void read_initializer(pb::TensorProto& proto) {
    const std::string what = "initializer '" + printable(proto.name()) + "'";
    if (proto.name().empty()) problems_.push_back("an initializer without a name");
    declare(proto.name(), what);
    if (auto t = tensors_.read(proto, what)) model_.initializers.emplace(proto.name(), std::move(*t));
  }

  Value read_value(const pb::ValueInfoProto& proto, bool is_input) {
    const std::string what = (is_input ? "input '" : "output '") + printable(proto.name()) + "'";
    Value out{proto.name(), Element::Undefined, false, {}};
    if (!proto.type().has_tensor_type()) {
      if (is_input || proto.has_type()) problems_.push_back(what + ": no tensor, which is not supported");
      return out;
    }
    const auto& type = proto.type().tensor_type();
    const int element = type.elem_type();
    out.element = element < 0 || element > 255 ? Element::Undefined : static_cast<Element>(element);
    if (bytes_of(out.element) == 0)
      problems_.push_back(
          fmt::format("{}: elements of type {}, which are not supported", what, name_of(out.element)));
    out.has_shape = type.has_shape();
    if (!out.has_shape && is_input) problems_.push_back(what + ": no shape");
    for (const auto& d : type.shape().dim()) {
      Dim dim{d.has_dim_value() ? d.dim_value() : -1, d.has_dim_param() ? d.dim_param() : ""};
      if (d.has_dim_value() && d.dim_value() < 0)
        problems_.push_back(fmt::format("{}: extent {}", what, d.dim_value()));
      if (dim.value < 0 && dim.name.empty() && is_input)
        dim.name = fmt::format("{}.{}", out.name, out.dims.size());
      out.dims.push_back(std::move(dim));
    }
    if (out.dims.size() > kMostAxes) problems_.push_back(fmt::format("{}: {} axes", what, out.dims.size()));
    return out;
  }

  void read_node(pb::NodeProto& proto) {
    Node node;
    node.op_type = proto.op_type();
    node.domain = domain_of(proto.domain());
    node.name = proto.name();
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    const std::string what = title(node);
    if (node.op_type.empty()) problems_.push_back(what + ": no operator");
    for (pb::AttributeProto& a : *proto.mutable_attribute()) read_attribute(a, what, node);
    for (const std::string& output : node.outputs) declare(output, what);
    model_.nodes.push_back(std::move(node));
  }

  void read_attribute(pb::AttributeProto& a, const std::string& what, Node& node) {
    const auto set = [&](Attribute value) {
      if (!node.attributes.emplace(a.name(), std::move(value)).second)
        problems_.push_back(fmt::format("{}: attribute '{}' stands twice", what, printable(a.name())));
    };
    switch (a.type()) {
      case pb::AttributeProto::FLOAT:
        return set(a.f());
      case pb::AttributeProto::INT:
        return set(std::int64_t{a.i()});
      case pb::AttributeProto::STRING:
        return set(a.s());
      case pb::AttributeProto::FLOATS:
        return set(std::vector<float>(a.floats().begin(), a.floats().end()));
      case pb::AttributeProto::INTS:
        return set(std::vector<std::int64_t>(a.ints().begin(), a.ints().end()));
      case pb::AttributeProto::STRINGS:
        return set(std::vector<std::string>(a.strings().begin(), a.strings().end()));
      case pb::AttributeProto::TENSOR: {
        auto t = tensors_.read(*a.mutable_t(), fmt::format("{}, attribute '{}'", what, printable(a.name())));
        if (t) set(std::move(*t));
        return;
      }
      case pb::AttributeProto::GRAPH:
      case pb::AttributeProto::GRAPHS:
        problems_.push_back(fmt::format("{}: subgraphs are not supported", what));
        return;
      default:
        problems_.push_back(fmt::format("{}: attribute '{}' of kind {} is not supported", what,
                                        printable(a.name()), static_cast<int>(a.type())));
    }
  }

  // Every value read exists, and the nodes are in an order in which each can run: that of the file where it
  // is one.
  void check_values() {
    std::map<std::string, std::size_t> producer;
    for (std::size_t i = 0; i < model_.nodes.size(); ++i)
      for (const std::string& output : model_.nodes[i].outputs) producer.emplace(output, i);
    const std::size_t n = model_.nodes.size();
    std::vector<std::vector<std::size_t>> readers(n);
    std::vector<std::size_t> waiting(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      for (const std::string& input : model_.nodes[i].inputs) {
        if (input.empty()) continue;
        if (!values_.contains(input))
          problems_.push_back(
              fmt::format("{}: its input '{}' does not exist", title(model_.nodes[i]), printable(input)));
        if (const auto found = producer.find(input); found != producer.end()) {
          readers[found->second].push_back(i);
          ++waiting[i];
        }
      }
    }
    if (model_.outputs.empty()) problems_.push_back("no output");
    for (const Value& v : model_.outputs)
      if (!values_.contains(v.name))
        problems_.push_back(fmt::format("output '{}' does not exist", printable(v.name)));
    sort_nodes(readers, waiting);
  }

  void sort_nodes(const std::vector<std::vector<std::size_t>>& readers, std::vector<std::size_t>& waiting) {
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < waiting.size(); ++i)
      if (waiting[i] == 0) ready.push(i);
    std::vector<Node> sorted;
    while (!ready.empty()) {
      const std::size_t i = ready.top();
      ready.pop();
      sorted.push_back(std::move(model_.nodes[i]));
      for (const std::size_t reader : readers[i])
        if (--waiting[reader] == 0) ready.push(reader);
    }
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i] == 0) continue;
      problems_.push_back(title(model_.nodes[i]) + ": waits for its own result");
      break;
    }
    model_.nodes = std::move(sorted);
  }

  std::int64_t oldest_opset_;
  std::vector<std::string> problems_;
  TensorReader tensors_;
  Model model_;
  std::set<std::string> values_;  // everything that a node may read
};

void bind(Dim& dim, const std::map<std::string, std::int64_t>& values, std::set<std::string>& known) {
  if (dim.name.empty()) return;
  known.insert(dim.name);
  if (const auto found = values.find(dim.name); found != values.end()) dim.value = found->second;
}

}  // namespace

Model read_model(const std::filesystem::path& path, std::int64_t oldest_opset) {
  auto proto = parse<pb::ModelProto>(path, "ONNX model");
  Reader reader(path.parent_path(), oldest_opset);
  Model model = reader.read(proto);
  if (!reader.problems().empty()) import::refuse(path, reader.problems());
  return model;
}

Tensor read_tensor(const std::filesystem::path& path) {
  auto proto = parse<pb::TensorProto>(path, "ONNX tensor");
  std::vector<std::string> problems;
  std::optional<Tensor> out = TensorReader(path.parent_path(), problems).read(proto, "tensor");
  if (!out) import::refuse(path, problems);
  return std::move(*out);
}

void bind_dims(Model& model, const std::map<std::string, std::int64_t>& values) {
  std::set<std::string> known;
  std::vector<std::string> missing;
  for (Value& input : model.inputs) {
    for (Dim& dim : input.dims) {
      bind(dim, values, known);
      if (dim.value < 0 && std::find(missing.begin(), missing.end(), dim.name) == missing.end())
        missing.push_back(dim.name);
    }
  }
  for (Value& output : model.outputs)
    for (Dim& dim : output.dims) bind(dim, values, known);
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + printable(name);
  for (const auto& [name, value] : values) {
    if (!known.contains(name))
      throw Error(ErrorKind::Usage, fmt::format("--dim {}: the model has no extent of that name; it has {}",
                                                printable(name), names.empty() ? "none" : names));
    if (value < 1)
      throw Error(ErrorKind::Usage, fmt::format("--dim {}={}: must be at least 1", printable(name), value));
  }
  if (missing.empty()) return;
  std::string text;
  for (const std::string& name : missing)
    text += fmt::format("{}--dim {}=N", text.empty() ? "" : " ", printable(name));
  throw Error(ErrorKind::Usage, "extents of the model's inputs have no value: give " + text);
}

}  // namespace tw::onnx
