#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/version.h"
#include "inspect/problem.h"

namespace tw::inspect {
namespace {
using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxFaults = 50;
constexpr std::uint32_t kMaxIterations = 4096;  // of a Repeat: as many layers as the command line takes

// --- writing ---

Json range_json(const place::Range& r) { return {{"begin", r.begin}, {"end", r.end}}; }

Json head(const Device& d, const char* kind) {
  return {{"schema_version", 1},
          {"tool", {{"name", "tilewright"}, {"version", kVersion}, {"commit", kCommit}}},
          {"kind", kind},
          {"target", d.name}};
}

Json placement_json(const Device& d, const PlacementProblem& p) {
  Json j = head(d, "placement");
  j["tile"] = p.tile;
  j["memory"] = {{"element_bytes", d.element_bytes},
                 {"pair_bytes", d.pair_bytes},
                 {"interleaved_base", d.interleaved_base}};
  Json free = Json::array(), aperture = Json::array(), requests = Json::array(), separate = Json::array(),
       apart = Json::array();
  for (const place::Range& r : p.problem.free) free.push_back(range_json(r));
  for (const place::Range& r : p.problem.aperture) aperture.push_back(range_json(r));
  for (std::size_t i = 0; i < p.problem.requests.size(); ++i) {
    const place::Request& r = p.problem.requests[i];
    requests.push_back({{"tensor", p.tensors[i]},
                        {"bytes", r.bytes},
                        {"alignment", r.alignment},
                        {"class", r.cls == place::Class::Interleaved ? "interleaved" : "standard"},
                        {"first", r.first},
                        {"last", r.last == place::kForever ? Json(nullptr) : Json(r.last)}});
  }
  for (const auto& [a, b] : p.problem.separate) separate.push_back({{"a", a}, {"b", b}});
  for (const place::Preference& w : p.problem.apart)
    apart.push_back({{"a", w.a}, {"b", w.b}, {"weight", w.weight}});
  j["free"] = free;
  j["aperture"] = aperture;
  j["requests"] = requests;
  j["separate"] = separate;
  j["apart"] = apart;
  j["solution"] = nullptr;
  if (p.addresses) j["solution"] = {{"solver", p.solver}, {"addresses", *p.addresses}};
  return j;
}

Json transfer_json(const exchange::Transfer& t, const std::vector<exchange::Receiver>& receivers) {
  Json to = Json::array();
  for (std::uint32_t k = 0; k < t.receiver_count; ++k) {
    const exchange::Receiver& r = receivers[t.first_receiver + k];
    to.push_back({{"tile", r.tile.value}, {"address", r.address}});
  }
  return {{"source", t.source.value},
          {"address", t.source_address},
          {"stride", t.source_stride},
          {"words", t.words},
          {"receivers", to}};
}

Json exchange_json(const Device& d, const ExchangeProblem& p) {
  Json j = head(d, "exchange");
  j["phase"] = p.phase;
  j["operation"] = p.operation;
  j["iterations"] = p.problem.iterations;
  Json transfers = Json::array(), messages = Json::array();
  for (std::size_t i = 0; i < p.problem.transfers.size(); ++i) {
    Json t = transfer_json(p.problem.transfers[i], p.problem.receivers);
    t["tensor"] = p.tensors[i];
    transfers.push_back(t);
  }
  j["transfers"] = transfers;
  j["solution"] = nullptr;
  if (!p.schedule) return j;
  for (const exchange::Message& m : p.schedule->messages) {
    Json message = {{"start", m.start}};
    message.update(transfer_json(m.transfer, p.schedule->receivers));
    messages.push_back(message);
  }
  j["solution"] = {{"solver", p.solver}, {"messages", messages}};
  return j;
}

std::string one_line(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool is_list_of_objects(const Json& j) { return j.is_array() && !j.empty() && j.front().is_object(); }

// Members of the file, and of what holds lists of objects, on lines of their own; so are the entries of such
// lists.
std::string laid_out(const Json& j, std::size_t indent) {
  const bool list = is_list_of_objects(j);
  const bool members = j.is_object() && (indent == 2 || std::ranges::any_of(j, is_list_of_objects));
  if (!list && !members) return one_line(j);
  std::string text = list ? "[" : "{";
  const char* separator = "\n";
  for (const auto& [key, value] : j.items()) {
    text += separator + std::string(indent, ' ');
    text += list ? one_line(value) : one_line(Json(key)) + ": " + laid_out(value, indent + 2);
    separator = ",\n";
  }
  return text + "\n" + std::string(indent - 2, ' ') + (list ? "]" : "}");
}

// --- reading ---

using Faults = std::vector<std::string>;

// A value of the file and its path. A value of another kind than asked for is a fault and reads as zero.
class Field {
 public:
  Field(const Json& value, std::string path, Faults& faults)
      : value_(&value), path_(std::move(path)), faults_(&faults) {}

  void fault(const std::string& what) const { faults_->push_back(path_ + ": " + what); }
  bool is_null() const { return value_->is_null(); }

  // Whether it is an object with the required members. Other members than these and the optional ones are
  // faults.
  bool has_members(std::initializer_list<const char*> required,
                   std::initializer_list<const char*> optional) const {
    if (!value_->is_object()) return fault("is no object"), false;
    bool good = true;
    for (const char* key : required) {
      if (!value_->contains(key)) fault(fmt::format("has no \"{}\"", key)), good = false;
    }
    for (const auto& [key, ignored] : value_->items()) {
      const auto is_key = [&key = key](const char* k) { return key == k; };
      if (std::ranges::none_of(required, is_key) && std::ranges::none_of(optional, is_key))
        fault("knows no " + Json(key).dump());
    }
    return good;
  }
  Field operator[](const char* key) const {
    static const Json null;
    const auto it = value_->find(key);
    return {it == value_->end() ? null : *it, path_ + "." + key, *faults_};
  }
  std::vector<Field> list() const {
    std::vector<Field> out;
    if (!value_->is_array()) return fault("is no list"), out;
    for (std::size_t i = 0; i < value_->size(); ++i)
      out.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i), *faults_);
    return out;
  }
  std::uint64_t number(std::uint64_t low, std::uint64_t high) const {
    if (value_->is_number_unsigned()) {
      const auto value = value_->get<std::uint64_t>();
      if (value >= low && value <= high) return value;
    }
    fault(fmt::format("is no whole number {}..{}", low, high));
    return low;
  }
  std::uint32_t u32(std::uint32_t low = 0, std::uint32_t high = UINT32_MAX) const {
    return static_cast<std::uint32_t>(number(low, high));
  }
  std::string text() const {
    if (value_->is_string()) return value_->get<std::string>();
    if (!value_->is_null()) fault("is no string");
    return {};
  }
  void must_be(const Json& wanted) const {
    if (*value_ != wanted) fault("is not " + wanted.dump());
  }

 private:
  const Json* value_;
  std::string path_;
  Faults* faults_;
};

std::vector<place::Range> read_ranges(const Device& d, const Field& list) {
  std::vector<place::Range> out;
  for (const Field& f : list.list()) {
    if (!f.has_members({"begin", "end"}, {})) continue;
    const place::Range r{f["begin"].u32(d.memory_base, d.memory_end),
                         f["end"].u32(d.memory_base, d.memory_end)};
    if (r.begin >= r.end) f.fault("does not begin before its end");
    if (r.begin < d.interleaved_base && r.end > d.interleaved_base)
      f.fault(fmt::format("crosses the interleaved base {}", d.interleaved_base));
    if (!out.empty() && r.begin < out.back().end) f.fault("begins before the end of the range before");
    out.push_back(r);
  }
  return out;
}

place::Request read_request(const Field& f) {
  place::Request r;
  r.bytes = f["bytes"].u32();
  r.alignment = f["alignment"].u32(1);
  if (!std::has_single_bit(r.alignment)) f["alignment"].fault("is no power of two");
  const std::string cls = f["class"].text();
  if (cls != "standard" && cls != "interleaved")
    f["class"].fault("is neither \"standard\" nor \"interleaved\"");
  r.cls = cls == "interleaved" ? place::Class::Interleaved : place::Class::Standard;
  r.first = f["first"].u32(0, place::kForever - 1);
  r.last = f["last"].is_null() ? place::kForever : f["last"].u32(0, place::kForever - 1);
  if (r.first > r.last) f["last"].fault("is before 'first'");
  return r;
}

// A pair of two different requests.
std::pair<std::uint32_t, std::uint32_t> read_pair(const Field& f, std::size_t requests) {
  const auto last = static_cast<std::uint32_t>(requests == 0 ? 0 : requests - 1);
  const std::uint32_t a = f["a"].u32(0, last), b = f["b"].u32(0, last);
  if (a == b) f.fault("names one request twice");
  return {a, b};
}

PlacementProblem read_placement(const Device& d, const Field& root) {
  PlacementProblem p;
  if (!root.has_members({"schema_version", "kind", "target", "tile", "memory", "free", "aperture", "requests",
                         "separate", "apart", "solution"},
                        {"tool"}))
    return p;
  p.tile = root["tile"].u32(0, d.tiles - 1);
  if (const Field m = root["memory"];
      m.has_members({"element_bytes", "pair_bytes", "interleaved_base"}, {})) {
    m["element_bytes"].must_be(d.element_bytes);
    m["pair_bytes"].must_be(d.pair_bytes);
    m["interleaved_base"].must_be(d.interleaved_base);
  }
  p.problem.free = read_ranges(d, root["free"]);
  p.problem.aperture = read_ranges(d, root["aperture"]);
  for (const Field& f : root["requests"].list()) {
    p.problem.requests.emplace_back();
    p.tensors.emplace_back();
    if (!f.has_members({"bytes", "alignment", "class", "first", "last"}, {"tensor"})) continue;
    p.tensors.back() = f["tensor"].text();
    p.problem.requests.back() = read_request(f);
  }
  const std::size_t requests = p.problem.requests.size();
  for (const Field& f : root["separate"].list()) {
    if (f.has_members({"a", "b"}, {})) p.problem.separate.push_back(read_pair(f, requests));
  }
  for (const Field& f : root["apart"].list()) {
    if (!f.has_members({"a", "b", "weight"}, {})) continue;
    const auto [a, b] = read_pair(f, requests);
    p.problem.apart.push_back({a, b, f["weight"].number(0, INT64_MAX)});
  }
  const Field solution = root["solution"];
  if (solution.is_null() || !solution.has_members({"addresses"}, {"solver"})) return p;
  p.solver = solution["solver"].text();
  p.addresses.emplace();
  for (const Field& f : solution["addresses"].list()) p.addresses->push_back(f.u32());
  return p;
}

// A transfer whose receivers are appended to `receivers`.
exchange::Transfer read_transfer(const Device& d, const Field& f,
                                 std::vector<exchange::Receiver>& receivers) {
  exchange::Transfer t;
  t.source = PhysId(f["source"].u32(0, d.tiles - 1));
  t.source_address = f["address"].u32();
  t.source_stride = f["stride"].u32();
  t.words = f["words"].u32();
  t.first_receiver = static_cast<std::uint32_t>(receivers.size());
  for (const Field& r : f["receivers"].list()) {
    if (!r.has_members({"tile", "address"}, {})) continue;
    receivers.push_back({PhysId(r["tile"].u32(0, d.tiles - 1)), r["address"].u32()});
  }
  t.receiver_count = static_cast<std::uint32_t>(receivers.size()) - t.first_receiver;
  return t;
}

ExchangeProblem read_exchange(const Device& d, const Field& root) {
  ExchangeProblem p;
  if (!root.has_members({"schema_version", "kind", "target", "phase", "iterations", "transfers", "solution"},
                        {"tool", "operation"}))
    return p;
  p.phase = root["phase"].u32();
  p.operation = root["operation"].text();
  p.problem.iterations = root["iterations"].u32(1, kMaxIterations);
  for (const Field& f : root["transfers"].list()) {
    if (!f.has_members({"source", "address", "stride", "words", "receivers"}, {"tensor"})) continue;
    p.tensors.push_back(f["tensor"].text());
    p.problem.transfers.push_back(read_transfer(d, f, p.problem.receivers));
    const std::string fault =
        exchange::fault_of(d, p.problem.transfers.back(), p.problem.receivers, p.problem.iterations);
    if (!fault.empty()) f.fault(fault);
  }
  const Field solution = root["solution"];
  if (solution.is_null() || !solution.has_members({"messages"}, {"solver"})) return p;
  p.solver = solution["solver"].text();
  p.schedule.emplace();
  p.schedule->iterations = p.problem.iterations;
  for (const Field& f : solution["messages"].list()) {
    if (!f.has_members({"start", "source", "address", "stride", "words", "receivers"}, {})) continue;
    p.schedule->messages.push_back({read_transfer(d, f, p.schedule->receivers), f["start"].u32()});
  }
  return p;
}

[[noreturn]] void refuse(const Faults& faults, const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kMaxFaults); ++i)
    text += fmt::format("{}{}: {}", i == 0 ? "" : "\n", name, faults[i]);
  if (faults.size() > kMaxFaults) text += fmt::format("\nand {} more", faults.size() - kMaxFaults);
  throw Error(ErrorKind::File, text);
}

}  // namespace

std::string to_json(const Device& device, const Problem& problem) {
  const auto* placement = std::get_if<PlacementProblem>(&problem);
  const Json j = placement != nullptr ? placement_json(device, *placement)
                                      : exchange_json(device, std::get<ExchangeProblem>(problem));
  return laid_out(j, 2) + "\n";
}

Problem problem_from_json(const Device& device, std::string_view text, const std::string& name) {
  Json j;
  try {
    j = Json::parse(text);
  } catch (const Json::parse_error& e) {  // its text may quote bytes that are no text
    const std::string_view read = text.substr(0, e.byte == 0 ? 0 : e.byte - 1);
    refuse({fmt::format("is no JSON, at line {}", 1 + std::ranges::count(read, '\n'))}, name);
  } catch (const Json::out_of_range&) {
    refuse({"is no JSON: a number is out of range"}, name);
  }
  Faults faults;
  const Field root(j, "$", faults);
  if (!j.is_object()) {
    root.fault("is no object");
    refuse(faults, name);
  }
  root["schema_version"].must_be(1);
  root["target"].must_be(device.name);
  const std::string kind = root["kind"].text();
  Problem problem;
  if (kind == "placement")
    problem = read_placement(device, root);
  else if (kind == "exchange")
    problem = read_exchange(device, root);
  else
    root["kind"].fault("is neither \"placement\" nor \"exchange\"");
  if (!faults.empty()) refuse(faults, name);
  return problem;
}

}  // namespace tw::inspect
