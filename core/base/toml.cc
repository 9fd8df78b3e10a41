// TOML: toml++ parses; the tree is copied into the arena in the file's order (toml++ keeps tables sorted by key).
//
// toml++'s tree is owned by C++ objects, over which an unwinding arena must not jump: the copy runs in its own guard
// and has no locals with destructors.
#include <cstring>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

extern "C" {
#include "core/base/toml.h"
}

namespace {

constexpr size_t max_size = 4u << 20;
constexpr size_t max_dots = 256;

struct copy_args {
  tc_arena *arena;
  tc_sv name;
  const toml::table *root;
  const tc_toml *out;
};

tc_sv copy_text(tc_arena *arena, std::string_view s) { return tc_sv_copy(arena, tc_sv{s.data(), s.size()}); }

bool before(const tc_toml &a, const tc_toml &b) { return a.line != b.line ? a.line < b.line : a.column < b.column; }

tc_status copy_node(const copy_args *a, const toml::node &node, tc_toml *out);

tc_status copy_table(const copy_args *a, const toml::table &table, tc_toml *out) {
  out->kind = TC_TOML_TABLE;
  auto *kids = TC_NEW_ARRAY(a->arena, tc_toml, table.size());
  for (const auto &member : table) {
    const toml::key &key = member.first;
    tc_toml kid = {};
    kid.key = copy_text(a->arena, key.str());
    kid.line = static_cast<int32_t>(key.source().begin.line);
    kid.column = static_cast<int32_t>(key.source().begin.column);
    TC_TRY(copy_node(a, member.second, &kid));
    int32_t i = out->n++;
    for (; i > 0 && before(kid, kids[i - 1]); i--) kids[i] = kids[i - 1];
    kids[i] = kid;
  }
  out->kids = kids;
  return TC_OK;
}

tc_status copy_array(const copy_args *a, const toml::array &array, tc_toml *out) {
  out->kind = TC_TOML_ARRAY;
  auto *kids = TC_NEW_ARRAY(a->arena, tc_toml, array.size());
  out->kids = kids;
  for (const toml::node &node : array) TC_TRY(copy_node(a, node, &kids[out->n++]));
  return TC_OK;
}

// The place of a member is its key's; of an element, its own.
tc_status copy_node(const copy_args *a, const toml::node &node, tc_toml *out) {
  if (out->line == 0) {
    out->line = static_cast<int32_t>(node.source().begin.line);
    out->column = static_cast<int32_t>(node.source().begin.column);
  }
  switch (node.type()) {
  case toml::node_type::table: return copy_table(a, *node.as_table(), out);
  case toml::node_type::array: return copy_array(a, *node.as_array(), out);
  case toml::node_type::string:
    out->kind = TC_TOML_STRING;
    out->text = copy_text(a->arena, node.as_string()->get());
    return TC_OK;
  case toml::node_type::integer:
    out->kind = TC_TOML_INT;
    out->integer = node.as_integer()->get();
    out->real = static_cast<double>(out->integer);
    return TC_OK;
  case toml::node_type::floating_point:
    out->kind = TC_TOML_FLOAT;
    out->real = node.as_floating_point()->get();
    return TC_OK;
  case toml::node_type::boolean:
    out->kind = TC_TOML_BOOL;
    out->integer = node.as_boolean()->get();
    return TC_OK;
  default:
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%d:%d: dates and times are not used here",
                    TC_SV_ARG(a->name), out->line, out->column);
  }
}

tc_status copy_root(void *arg) {
  auto *a = static_cast<copy_args *>(arg);
  auto *root = TC_NEW(a->arena, tc_toml);
  TC_TRY(copy_table(a, *a->root, root));
  root->line = root->column = 1;
  a->out = root;
  return TC_OK;
}

// toml++ bounds the nesting of values but not of dotted keys, whose tables it destroys recursively: more dots than any
// sane key has between two separators are refused up front.
bool dots_are_sane(tc_sv text) {
  size_t dots = 0;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] == '.') {
      if (++dots > max_dots) return false;
    } else if (std::memchr("=,{[\n", text.data[i], 5)) dots = 0;
  }
  return true;
}

} // namespace

extern "C" tc_status tc_toml_parse(tc_arena *arena, tc_sv name, tc_sv text, const tc_toml **out) {
  *out = nullptr;
  if (text.size > max_size)
    return tc_error(TC_STATUS_RESOURCE_EXHAUSTED, TC_SV_FMT ": larger than %zu bytes", TC_SV_ARG(name), max_size);
  if (!dots_are_sane(text))
    return tc_error(TC_STATUS_RESOURCE_EXHAUSTED, TC_SV_FMT ": a key has more than %zu dots", TC_SV_ARG(name),
                    max_dots);
  toml::parse_result result = toml::parse(std::string_view{text.size ? text.data : "", text.size});
  if (!result) {
    const toml::parse_error &e = result.error();
    return tc_error(TC_STATUS_INVALID_ARGUMENT, TC_SV_FMT ":%u:%u: %.*s", TC_SV_ARG(name),
                    static_cast<unsigned>(e.source().begin.line), static_cast<unsigned>(e.source().begin.column),
                    static_cast<int>(e.description().size()), e.description().data());
  }
  copy_args a = {arena, name, &result.table(), nullptr};
  tc_status status = tc_arena_guard(arena, copy_root, &a);
  *out = a.out;
  return status;
}

extern "C" const tc_toml *tc_toml_get(const tc_toml *table, const char *key) {
  if (table == nullptr || table->kind != TC_TOML_TABLE) return nullptr;
  for (int32_t i = 0; i < table->n; i++)
    if (tc_sv_is(table->kids[i].key, key)) return &table->kids[i];
  return nullptr;
}
