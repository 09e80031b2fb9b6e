#include "plan/exact.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/parallel.h"
#include "plan/exact_kernels.h"
#include "plan/rounding.h"

namespace tw::plan {
namespace {

using tensor::AxisSpan;
using tensor::Precision;
using HostData = std::function<const std::vector<float>&(const std::string&)>;

// Source element of a destination element: the map is additive over the destination's axes, so a table per
// axis replaces the arithmetic per element.
struct Gather {
  std::size_t base = 0;
  std::vector<std::vector<std::size_t>> tables;
};

Gather gather(const tensor::CoordMap& map, const tensor::Shape& src, const tensor::Shape& dst) {
  TW_CHECK(map.axes.size() == src.size(), "coordinate map of another rank");
  Gather g;
  for (std::uint32_t extent : dst) g.tables.emplace_back(extent, 0);
  std::size_t stride = 1, last = 0;
  for (std::size_t axis = src.size(); axis-- > 0; stride *= src[axis]) {
    const tensor::CoordAxis& source = map.axes[axis];
    std::size_t largest = source.offset;
    g.base += source.offset * stride;
    for (const tensor::CoordTerm& term : source.terms) {
      auto& table = g.tables.at(term.axis);
      std::size_t most = 0;
      for (std::size_t i = 0; i < table.size(); ++i) {
        const std::size_t coordinate = i / term.div % term.mod * term.mul;
        table[i] += coordinate * stride;
        most = std::max(most, coordinate);
      }
      largest += most;
    }
    TW_CHECK(largest < src[axis], "coordinate map leaves the source");
    last += largest * stride;
  }
  TW_CHECK(last < tensor::elements(src), "coordinate map leaves the source");
  return g;
}

Values gather_values(const Gather& g, const tensor::Shape& dst, const Values& src, unsigned threads) {
  Values out(tensor::elements(dst));
  const std::size_t width = dst.back();
  const auto& columns = g.tables.back();
  parallel_for(out.size() / width, std::max<std::size_t>(1, 16384 / width), threads,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   std::size_t from = g.base, rest = row;
                   for (std::size_t axis = dst.size() - 1; axis-- > 0; rest /= dst[axis])
                     from += g.tables[axis][rest % dst[axis]];
                   for (std::size_t i = 0; i < width; ++i) out[row * width + i] = src[from + columns[i]];
                 }
               });
  return out;
}

class Interpreter {
 public:
  Interpreter(const Plan& plan, const HostData& host, const ExactOptions& options)
      : plan_(plan), host_(host), options_(options), values_(plan.tensors.size()) {}

  std::vector<Values> run() {
    for (const Step& step : plan_.steps) execute(step, 0);
    std::vector<Values> out;
    for (TensorId id : plan_.outputs) out.push_back(read(id));
    return out;
  }

 private:
  void execute(const Step& step, std::uint32_t iteration) {
    if (const auto* repeat = std::get_if<Repeat>(&step.action)) {
      for (std::uint32_t i = 0; i < repeat->count; ++i) {
        forget_members();
        iteration_ = i;
        for (const Step& inner : repeat->body) execute(inner, i);
      }
      forget_members();
    } else {
      step_ = &step;
      std::visit([&](const auto& action) { perform(action); }, step.action);
    }
    if (options_.checkpoint && step.checkpoint.valid())
      options_.checkpoint(step.path, iteration, step.checkpoint, read(step.checkpoint));
  }

  // Parameters with a member per iteration are loaded anew in each.
  void forget_members() {
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i)
      if (plan_.tensors[i].members.size() > 1) values_[i].reset();
  }

  const tensor::TensorType& type(TensorId id) const { return plan_.at(id).type; }

  const Values& read(TensorId id) {
    auto& slot = values_[plan_.storage_of(id).value];
    if (!slot) slot = load(id);
    TW_CHECK(slot->size() == tensor::elements(type(id).shape),
             "shared storage of another size: " + plan_.at(id).name);
    return *slot;
  }
  Values load(TensorId id) {
    const Tensor& tensor = plan_.at(id);
    TW_CHECK(tensor.role == Role::Input || tensor.role == Role::Parameter,
             tensor.name + " is read before it is written");
    const std::size_t member = tensor.members.size() > 1 ? iteration_ : 0;
    const std::string& name = tensor.members.empty() ? tensor.name : tensor.members.at(member);
    std::vector<float> storage;
    const std::span<const float> data =
        rounded_parameter(plan_, tensor, host_(name), storage, options_.threads);
    if (data.size() != tensor::elements(tensor.type.shape))
      throw Error(ErrorKind::Shape, fmt::format("\"{}\": {} values given for shape {}", name, data.size(),
                                                tensor::to_string(tensor.type.shape)));
    Values encoded(data.size());
    if (!exact::encode(data, tensor.type.encoding, encoded, options_.threads))
      throw Error(ErrorKind::Numeric, fmt::format("\"{}\" has values outside the F16 range", name));
    return encoded;
  }
  // Results are complete before they replace what an operand in the same storage held.
  void write(TensorId id, Values values, bool in_range) {
    if (!in_range)
      throw Error(ErrorKind::DeviceFault, fmt::format("F16 overflow in {}: {} (iteration {})", step_->path,
                                                      plan_.at(id).name, iteration_));
    values_[plan_.storage_of(id).value] = std::move(values);
  }
  Values fresh(TensorId id) const { return Values(tensor::elements(type(id).shape)); }

  // The distinct partitions of one axis, ascending.
  std::vector<AxisSpan> partitions(TensorId id, std::size_t axis) const {
    const tensor::ResolvedLayout layout(type(id));
    if (layout.linear()) return {{0, type(id).shape[axis], type(id).shape[axis]}};
    std::vector<AxisSpan> spans;
    for (std::uint32_t owner = 0; owner < layout.owners(); ++owner)
      spans.push_back(layout.bounds(owner)[axis]);
    std::sort(spans.begin(), spans.end(), [](const AxisSpan& a, const AxisSpan& b) {
      return a.start != b.start ? a.start < b.start : a.physical_end < b.physical_end;
    });
    spans.erase(std::unique(spans.begin(), spans.end()), spans.end());
    return spans;
  }
  std::vector<AxisSpan> columns(TensorId id) const { return partitions(id, type(id).shape.size() - 1); }

  void perform(const Copy& copy) {
    TW_CHECK(type(copy.dst).encoding == type(copy.src).encoding, "a copy changes the encoding");
    const Values& src = read(copy.src);
    const Gather g = gather(copy.map, type(copy.src).shape, type(copy.dst).shape);
    write(copy.dst, gather_values(g, type(copy.dst).shape, src, options_.threads), true);
  }

  void perform(const Product& product) {
    const tensor::Shape &left = type(product.left).shape, &right = type(product.right).shape;
    exact::ProductArguments p;
    const bool batched = tensor::elements(right) != std::uint64_t{right.back()} * right[right.size() - 2];
    p.inner = left.back();
    p.cols = right[right.size() - (product.right_transposed ? 2 : 1)];
    p.rows = batched ? left[left.size() - 2] : tensor::elements(left) / p.inner;
    p.streams = tensor::elements(left) / p.inner / p.rows;
    TW_CHECK(tensor::elements(right) == (batched ? p.streams : 1) * p.inner * p.cols,
             "product operands do not match");
    p.left = read(product.left).data();
    p.right = read(product.right).data();
    p.right_transposed = product.right_transposed;
    p.group = tensor::mu_of(type(product.left).encoding.precision);
    p.accumulate = product.accumulate;
    p.round_groups = options_.drop_group_rounding.empty() || step_->path != options_.drop_group_rounding;
    p.threads = options_.threads;
    const auto parts = columns(product.left);
    TW_CHECK(parts.size() == product.k_parts, "K partitions of the left operand do not match the partials");
    Values out = product.accumulate ? Values(read(product.out)) : fresh(product.out);
    TW_CHECK(out.size() == parts.size() * p.streams * p.rows * p.cols, "product result has a wrong size");
    bool in_range = true;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      p.k = parts[part];
      p.out = out.data() + part * p.streams * p.rows * p.cols;
      in_range &= exact::product(p);
    }
    write(product.out, std::move(out), in_range);
  }

  void perform(const Sum& sum) {
    Values out = fresh(sum.out);
    const std::uint32_t parts = type(sum.partials).shape.at(0);
    const bool in_range = exact::sum(read(sum.partials), parts, out, options_.threads);
    if (plan_.at(sum.partials).role == Role::Partials) values_[plan_.storage_of(sum.partials).value].reset();
    write(sum.out, std::move(out), in_range);
  }

  void perform(const Repeat&) { fail_check("Repeat", "a repeat is no single step"); }

  void perform(const Local& local) {
    const TensorId target = local.outputs.at(0);
    const auto in = [&](std::size_t i) -> const Values& { return read(local.inputs.at(i)); };
    const unsigned threads = options_.threads;
    Values out = fresh(target);
    bool good = true;
    switch (local.kind) {
      case LocalKind::Cast:
        good = exact::encode(in(0), type(target).encoding, out, threads);
        break;
      case LocalKind::Reorder:
        out = in(0);
        break;
      case LocalKind::Add:
        good = exact::add(in(0), in(1), out, threads);
        break;
      case LocalKind::Gelu:
        good = exact::gelu(in(0), out, threads);
        break;
      case LocalKind::BiasGelu:
        good = exact::bias_gelu(in(0), in(1), out, threads);
        break;
      case LocalKind::LayerNorm:
        good = exact::layer_norm(in(0), in(1), in(2), local.epsilon, out, threads);
        break;
      case LocalKind::AddLayerNorm:
        good = add_layer_norm(local, out);
        break;
      case LocalKind::AddMoments:
        return add_moments(local, std::move(out));
      case LocalKind::Moments:
        good =
            exact::moments(in(0), type(local.inputs[0]).shape.back(), columns(local.inputs[0]), out, threads);
        break;
      case LocalKind::Apply:
        good =
            exact::apply(in(0), in(1), in(2), in(3), local.epsilon, columns(local.inputs[0]), out, threads);
        break;
      case LocalKind::Softmax:
        return softmax(local, std::move(out));
      case LocalKind::Merge: {
        const exact::MergeArguments arguments{type(local.inputs.at(0)).shape.back(), local.initial,
                                              local.final};
        good = exact::merge(in(0), in(1), local.initial ? nullptr : &in(2), arguments, out, threads);
        break;
      }
      default:
        good = general(local, out);
    }
    if (type(target).encoding.precision == Precision::F8 && local.kind != LocalKind::Cast)
      good &= exact::encode(out, type(target).encoding, out, threads);
    write(target, std::move(out), good);
  }

  bool general(const Local& local, Values& out) {
    const TensorId x = local.inputs.at(0);
    const auto in = [&](std::size_t i) -> const Values& { return read(local.inputs.at(i)); };
    const std::size_t width = type(x).shape.back();
    const unsigned threads = options_.threads;
    switch (local.kind) {
      case LocalKind::Unary:
        return exact::unary(static_cast<numeric::Unary>(local.function), in(0),
                            type(x).encoding.precision == Precision::F16, out, threads);
      case LocalKind::Binary:
        exact::binary(static_cast<numeric::Binary>(local.function), in(0), in(1), local.swapped, out,
                      threads);
        return true;
      case LocalKind::Reduce:
        exact::reduce(static_cast<numeric::Reduction>(local.function), in(0), width, out);
        return true;
      case LocalKind::SoftmaxRows:
        exact::softmax_rows(in(0), width, out);
        return true;
      case LocalKind::NormRows:
        exact::norm_rows(in(0), in(1), in(2), local.epsilon, out);
        return true;
      case LocalKind::Rope:
        return exact::rope(in(0), in(1), in(2), width, local.interleaved, out, threads);
      case LocalKind::Join:
        join(local, out);
        return true;
      default:
        fail_check("LocalKind", "unknown kind of local step");
    }
  }

  void join(const Local& local, Values& out) {
    const tensor::Shape& shape = type(local.outputs.at(0)).shape;
    std::size_t at = 0;
    for (const TensorId id : local.inputs) {
      const Values& part = read(id);
      const std::size_t row = std::size_t{type(id).shape[1]} * shape[2],
                        whole = std::size_t{shape[1]} * shape[2];
      for (std::size_t o = 0; o < shape[0]; ++o)
        std::copy_n(part.begin() + static_cast<std::ptrdiff_t>(o * row), row,
                    out.begin() + static_cast<std::ptrdiff_t>(o * whole + at));
      at += row;
    }
  }

  bool add_layer_norm(const Local& local, Values& out) {
    Values sum(out.size());
    bool good = exact::add(read(local.inputs.at(0)), read(local.inputs.at(1)), sum, options_.threads);
    good &= exact::layer_norm(sum, read(local.inputs.at(2)), read(local.inputs.at(3)), local.epsilon, out,
                              options_.threads);
    return good;
  }

  void add_moments(const Local& local, Values sum) {
    const TensorId id = local.outputs.at(0), statistics_id = local.outputs.at(1);
    const bool good = exact::add(read(local.inputs.at(0)), read(local.inputs.at(1)), sum, options_.threads);
    Values statistics = fresh(statistics_id);
    exact::moments(sum, type(id).shape.back(), columns(id), statistics, options_.threads);
    write(id, std::move(sum), good);
    write(statistics_id, std::move(statistics), true);
  }

  void softmax(const Local& local, Values weights) {
    const TensorId scores = local.inputs.at(0), state_id = local.outputs.at(1);
    const auto parts = columns(scores);
    TW_CHECK(parts.size() == 1, "softmax over split rows");
    exact::SoftmaxArguments arguments{type(scores).shape.back(), parts[0].physical(), local.scale,
                                      local.split};
    Values state = fresh(state_id);
    const bool good = exact::softmax(read(scores), arguments, weights, state, options_.threads);
    write(local.outputs[0], std::move(weights), good);
    write(state_id, std::move(state), true);
  }

  const Plan& plan_;
  const HostData& host_;
  const ExactOptions& options_;
  std::vector<std::optional<Values>> values_;  // by storage root
  std::uint32_t iteration_ = 0;
  const Step* step_ = nullptr;
};

}  // namespace

std::vector<Values> run_exact(const Plan& plan, const HostData& host, const ExactOptions& options) {
  return Interpreter(plan, host, options).run();
}

}  // namespace tw::plan
