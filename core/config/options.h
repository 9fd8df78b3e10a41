// Every option of the program, once: the table from which reading, checking, printing and the docs page are made.
// Adding one is adding a row.
#ifndef TC_CORE_CONFIG_OPTIONS_H_
#define TC_CORE_CONFIG_OPTIONS_H_

#include "core/base/str.h"

// Types, and how they are written:
//   BOOL    true, false; in the environment and on the command line also 1, 0, yes, no, on, off
//   INT     an integer within [lo, hi]
//   SIZE    bytes: an integer, or a text such as "512M" (K, M, G, T are powers of 1024)
//   REAL    a number
//   TEXT    any text
//   CHOICE  one of `choices`
//   LIST    texts: an array in a file, separated by commas elsewhere
//   PATHS   absolute paths: an array in a file, separated by colons elsewhere
enum { TC_OPT_BOOL, TC_OPT_INT, TC_OPT_SIZE, TC_OPT_REAL, TC_OPT_TEXT, TC_OPT_CHOICE, TC_OPT_LIST, TC_OPT_PATHS };

// X(ID, key, type, built-in value, lo, hi, choices, code, doc)
// `code` is 1 if the option may change what is compiled: such options are part of cache keys and of guards.
// Debug builds check what every pass and stage made.
#ifdef NDEBUG
#define TC_VERIFY_PRESET "false"
#else
#define TC_VERIFY_PRESET "true"
#endif

#define TC_OPTION_LIST(X)                                                                                              \
  /* what to run on, and how */                                                                                        \
  X(BACKEND, "backend", TEXT, "auto", 0, 0, "", 1,                                                                     \
    "kind of device to compile for, 'ref' for the references, or the name of a whole-graph compiler; auto: the first " \
    "device plugin by priority that finds a device")                                                                   \
  X(MODE, "mode", TEXT, "default", 0, 0, "", 0, "a file of the folder configs, or a path ending in .toml")             \
  X(FALLBACK, "fallback", TEXT, "ref", 0, 0, "", 1,                                                                    \
    "backend for ops that the chosen one can neither generate, call nor decompose; empty: an error instead")           \
  X(DELEGATES, "delegates", LIST, "", 0, 0, "", 1,                                                                     \
    "plugins with compilers for parts of graphs that are asked before the backend, in this order")                     \
  X(STRICT, "strict", BOOL, "false", 0, 0, "", 1, "a fallback is an error")                                            \
  X(FULLGRAPH, "fullgraph", BOOL, "false", 0, 0, "", 1, "a graph break is an error")                                   \
  X(SUPPRESS_ERRORS, "suppress_errors", BOOL, "false", 0, 0, "", 0,                                                    \
    "functions that cannot be compiled run op by op, which is said once; false: calling them is an error")             \
  X(DYNAMIC, "dynamic", CHOICE, "auto", 0, 0, "auto,true,false", 1,                                                    \
    "sizes become symbols: after their first change, always, never")                                                   \
  X(FREEZE, "freeze", BOOL, "true", 0, 0, "", 1,                                                                       \
    "weights are constants: what depends on them only is done once, not in every run")                                 \
  X(DEVICE, "device", INT, "0", 0, 65535, "", 0, "number of the device")                                               \
  X(THREADS, "threads", INT, "0", 0, 65536, "", 1, "threads of the default executor; 0: all")                          \
  X(SEED, "seed", INT, "0", INT64_MIN, INT64_MAX, "", 0, "seed of random ops")                                         \
  X(OPTIMIZE, "optimize", INT, "2", 0, 3, "", 1, "effort of code generators")                                          \
  /* what a mode is made of */                                                                                         \
  X(FUNCTIONALIZE, "functionalize", BOOL, "true", 0, 0, "", 1, "rewrite mutation and views into pure ops first")       \
  X(JOINT, "joint", BOOL, "true", 0, 0, "", 1,                                                                         \
    "derive forward and backward as one graph and cut it where least must be saved")                                   \
  X(DECOMPOSE, "decompose", BOOL, "true", 0, 0, "", 1, "take composite ops apart where that lets their parts fuse")    \
  X(FUSE, "fuse", BOOL, "true", 0, 0, "", 1, "make one kernel of several ops; false: op at a time")                    \
  X(LAYOUTS, "layouts", CHOICE, "auto", 0, 0, "auto,given,channels_last", 1,                                           \
    "strides of images inside a program: channels last on processors where convolutions are most of the work, those "  \
    "that the program gives, or channels last for all convolutions")                                                   \
  X(MEMORY_PLAN, "memory_plan", BOOL, "true", 0, 0, "", 1, "place internal buffers in an arena, reusing memory")       \
  X(TEMPLATES, "templates", BOOL, "true", 0, 0, "", 1, "expand matrix products, transforms and the like into kernels") \
  X(CALLS, "calls", CHOICE, "auto", 0, 0, "auto,never,always", 1,                                                      \
    "libraries for ops that could be generated: where they are estimated to be faster, never, wherever they can; ops " \
    "that cannot be generated use them unless it is never")                                                            \
  X(DEVICE_GRAPH, "device_graph", BOOL, "false", 0, 0, "", 1,                                                          \
    "record runs that come again into device graphs and replay them; a device without graphs says so once")            \
  X(AUTOTUNE, "autotune", BOOL, "false", 0, 0, "", 1, "time candidates on the device and keep the winners on disk")    \
  X(TUNE_BUDGET, "tune.budget_ms", INT, "5000", 0, 86400000, "", 0, "time for the candidates of one compilation")      \
  X(TUNE_ROUNDS, "tune.rounds", INT, "5", 1, 1000, "", 0, "timed runs of a candidate")                                 \
  X(REPLAY_MAX, "replay.max_graphs", INT, "16", 1, 65536, "", 0, "device graphs kept per entry")                       \
  /* fusion */                                                                                                         \
  X(FUSION_MAX_NODES, "fusion.max_nodes", INT, "64", 1, 65536, "", 1, "loop nodes in a kernel")                        \
  X(FUSION_MAX_LOADS, "fusion.max_loads", INT, "32", 1, 65536, "", 1, "buffers that a kernel reads")                   \
  X(FUSION_RECOMPUTE, "fusion.recompute_flops", INT, "32", 0, 1000000, "", 1,                                          \
    "operations per element that may be done twice to save a buffer")                                                  \
  X(FUSION_HORIZONTAL, "fusion.horizontal", BOOL, "true", 0, 0, "", 1, "let small kernels share a launch")             \
  X(FUSION_PROLOGUE, "fusion.prologue", BOOL, "true", 0, 0, "", 1, "fuse into the loads of templates")                 \
  X(FUSION_EPILOGUE, "fusion.epilogue", BOOL, "true", 0, 0, "", 1, "fuse into the stores of templates and calls")      \
  /* numbers */                                                                                                        \
  X(PRECISION_MATMUL, "precision.matmul", CHOICE, "highest", 0, 0, "highest,high,medium", 1,                           \
    "f32 matrix products: f32, three passes or tf32, bf16 passes")                                                     \
  X(AUTOCAST, "autocast", CHOICE, "off", 0, 0, "off,bf16,f16", 1,                                                      \
    "mixed precision: ops of PyTorch's lists compute in this type or in f32, and dtypes of results follow")            \
  X(AUTOCAST_LISTS, "autocast_lists", CHOICE, "processor", 0, 0, "processor,accelerator", 1,                           \
    "PyTorch's lists of ops for processors, or those for GPUs, which keep more in f32")                                \
  X(PRECISION_FAST, "precision.fast_math", BOOL, "false", 0, 0, "", 1, "division and square root within 2 ulp")        \
  X(PRECISION_COMPLEX, "precision.complex_matmul", CHOICE, "auto", 0, 0, "auto,4,3", 1,                                \
    "real products in a complex one; 3 loses accuracy by component, auto never chooses it")                            \
  X(REF_WIDE, "ref.wide", BOOL, "false", 0, 0, "", 1, "the references never round: the oracle of tolerances")          \
  /* limits */                                                                                                         \
  X(GRAD_GRAPHS, "grad.graphs", CHOICE, "joint", 0, 0, "joint,all,budget", 1,                                          \
    "forward and backward as one graph, or as two: with everything saved in between, or what the budget allows")       \
  X(GRAD_BUDGET, "grad.budget", REAL, "1", 0, 1, "", 1,                                                                \
    "1: as few bytes as possible, and only what is cheap is computed again; less: that part of those bytes; 0: none")  \
  X(GUARDS_MAX, "guards.max_entries", INT, "8", 1, 65536, "", 0, "compiled entries of one function")                   \
  X(GUARDS_LIMIT, "guards.on_limit", CHOICE, "eager", 0, 0, "eager,error", 0, "what happens beyond them")              \
  X(EAGER_BY_OP, "eager.by_op", BOOL, "false", 0, 0, "", 1,                                                            \
    "run programs op by op, each compiled when it is first used, for any size")                                        \
  X(EAGER_VARIANTS, "eager.max_variants", INT, "3", 1, 64, "", 1, "kernels of one op in eager mode, by facts")         \
  X(EAGER_ENTRIES, "eager.max_entries", INT, "64", 1, 65536, "", 0,                                                    \
    "compiled entries of one op; beyond them the one that was not used for longest goes")                              \
  X(MEMORY_LIMIT, "memory.limit", SIZE, "0", 0, INT64_MAX, "", 0, "bytes that a context may take; 0: all there are")   \
  /* caches */                                                                                                         \
  X(CACHE_ENABLED, "cache.enabled", BOOL, "true", 0, 0, "", 0, "keep compiled code on disk")                           \
  X(CACHE_DIR, "cache.dir", TEXT, "", 0, 0, "", 0, "folder of the caches; empty: $XDG_CACHE_HOME/tc, or ~/.cache/tc")  \
  X(CACHE_MAX, "cache.max_bytes", SIZE, "4G", 0, INT64_MAX, "", 0, "size at which the oldest entries go")              \
  /* seeing what happens */                                                                                            \
  X(LOGS, "logs", TEXT, "", 0, 0, "", 0, "log artifacts, by commas; all; +name in detail, -name to leave one out")     \
  X(COMPILE_DEBUG, "compile_debug", BOOL, "false", 0, 0, "", 0, "write every stage's text and code into a folder")     \
  X(DEBUG_DIR, "debug_dir", TEXT, "", 0, 0, "", 0, "that folder; naming one turns compile_debug on")                   \
  X(PROFILE, "profile", TEXT, "", 0, 0, "", 0, "file for a timeline in Chrome's trace format")                         \
  X(SELF_CHECK, "self_check", BOOL, "false", 0, 0, "", 0,                                                              \
    "compare every run, and each group of it, with the references")                                                    \
  X(VERIFY, "verify", BOOL, TC_VERIFY_PRESET, 0, 0, "", 0, "verify the program after every pass and stage")            \
  X(PASS_SKIP, "pass.skip", LIST, "", 0, 0, "", 1, "passes not to run")                                                \
  X(PASS_STOP, "pass.stop_after", INT, "0", 0, 1000000, "", 1, "stop after this many passes (bisection); 0: never")    \
  /* where things are */                                                                                               \
  X(PLUGINS_PATH, "plugins.path", PATHS, "", 0, 0, "", 0, "folders of plugins; empty: those beside the program")       \
  X(PLUGINS_PREFER, "plugins.prefer", LIST, "", 0, 0, "", 1, "plugins that win over others, whatever the priority")    \
  X(PLUGINS_DISABLED, "plugins.disabled", LIST, "", 0, 0, "", 1, "plugins that are not loaded")                        \
  X(KERNELS, "kernels", LIST, "", 0, 0, "", 0, "files of kernels by hand: definitions of ops, for any program")        \
  X(CONFIGS_PATH, "configs.path", PATHS, "", 0, 0, "", 0, "folders of modes, searched before those beside the program")

enum {
#define X(id, key, type, preset, lo, hi, choices, code, doc) TC_OPT_ID_##id,
  TC_OPTION_LIST(X)
#undef X
      TC_OPT_COUNT
};

typedef struct tc_option {
  tc_sv key, preset, choices, doc;
  int32_t type;
  int32_t code; // 1: may change what is compiled
  int64_t lo, hi;
} tc_option;
extern const tc_option tc_options[TC_OPT_COUNT]; // by TC_OPT_ID_*

// "bool", "integer", …; for docs and messages.
const char *tc_option_type_name(int32_t type);

#endif
