// The one expression parser. Three environments read its trees: scalar opcodes (op bodies), graph ops (derivatives and
// decompositions) and symbols (flops, grids, guards).
//
//   program := { 'let' IDENT { ',' IDENT } '=' expr ';' } expr { ',' expr }      (several results)
//   expr    := or; usual precedence, low to high:  ||   &&   == != < <= > >=   |   ^   &   << >>   + -   * / // %
//              unary - ! ~   ** (right)   postfix
//   postfix := primary { '.' IDENT | '.' INT | '(' args ')' | '[' expr { ',' expr } ']' }
//   primary := INT | FLOAT | STRING | IDENT { '::' IDENT } | '(' expr ')' | '[' [ expr { ',' expr } ] ']' | 'true'
//            | 'false' | 'none' | 'inf' | 'nan'
//   args    := [ arg { ',' arg } ];  arg := [ IDENT '=' ] expr
//
// Overloads are written with dots in a name that is called: aten::add.Tensor(a, b) parses as CALL(MEMBER(aten::add,
// Tensor), …); the graph environment puts the name together.
#ifndef TC_CORE_BASE_EXPR_H_
#define TC_CORE_BASE_EXPR_H_

#include "core/base/lex.h"

enum {
  TC_EX_INT,
  TC_EX_FLOAT,
  TC_EX_STRING,
  TC_EX_BOOL,
  TC_EX_NONE,
  TC_EX_NAME,   // text: "x" or "aten::add"
  TC_EX_MEMBER, // kids[0].text
  TC_EX_CALL,   // kids[0] is the callee, the rest arguments; argument names in `names` (empty if positional)
  TC_EX_INDEX,  // kids[0][kids[1..]]
  TC_EX_LIST,
  TC_EX_UNARY, // text: operator
  TC_EX_BINARY // text: operator
};

typedef struct tc_ex {
  int32_t kind, n;
  tc_sv text;
  int64_t integer; // INT, BOOL
  double real;     // FLOAT (inf, nan too)
  const struct tc_ex **kids;
  const tc_sv *names; // CALL: n entries, names[0] unused
  int32_t line, column;
} tc_ex;

typedef struct tc_ex_let {
  const tc_sv *names;
  int32_t n_names;
  const tc_ex *value;
} tc_ex_let;

typedef struct tc_ex_program {
  const tc_ex_let *lets;
  int32_t n_lets;
  const tc_ex **results;
  int32_t n_results;
  bool lazy; // lets are evaluated when first needed, or never
} tc_ex_program;

// Parses one expression from the lexer and stops behind it.
TC_NODISCARD tc_status tc_ex_parse(tc_lexer *lx, const tc_ex **out);
// Parses a whole text.
TC_NODISCARD tc_status tc_ex_parse_program(tc_arena *arena, tc_sv name, tc_sv text, tc_ex_program *out);
// A text of labelled results, as derivatives are: { let … ; } IDENT ':' expr { ';' IDENT ':' expr }. (*out_labels)[i]
// is the label of result i. Its lets are lazy.
TC_NODISCARD tc_status tc_ex_parse_labelled(tc_arena *arena, tc_sv name, tc_sv text, tc_ex_program *out,
                                            const tc_sv **out_labels);
void tc_ex_print(tc_sb *sb, const tc_ex *e); // fully parenthesised where needed; parses back equal

#endif
