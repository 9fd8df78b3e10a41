// tcrun: the command line. Finds the command, runs it in an arena, turns its status into an exit code.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tcrun/gradcheck.h"

static tc_status cmd_help(run_options *o);
static const struct {
  const char *name;
  tc_status (*run)(run_options *o);
  const char *usage, *doc, *more; // more: of `help COMMAND`, or NULL
} commands[] = {
    {"run", cmd_run, "[run] MODEL [--inputs=FILE|--random[=SEED]] [--output=FILE]",
     "load, compile and run a model, print its outputs", NULL},
    {"compile", cmd_compile, "compile MODEL… -o FILE.tcx [--backend=NAME[,NAME…]] [--sizes=LIST]… [--beside]",
     "compile ahead of time: what `run`, `check`, `bench` and embedders load in milliseconds",
     "Each --backend is another device that the file has code for; for `ref` it has the program as text.\n"
     "Each --sizes is another executable: SYMBOL=N or INPUT=NxNx…, joined by commas, fix open sizes; `any` leaves\n"
     "them open. A run takes the first whose sizes fit, `any` last. Several MODELs are one model in several sizes.\n"
     "Tensors are in the file once, with --beside in FILE.tcx.tensors.\n"
     "Example: tcrun compile model.pt2 -o model.tcx --backend=cpu,cuda --sizes=x=1x128x64 --sizes=s0=1 --sizes=any\n"},
    {"check", cmd_check, "check PATH… [--filter=GLOB] [--report=FILE.json] [--round-trip] [--replays=N]",
     "compare with PyTorch's stored results, or with the references; or hold every stage's text, or repeated runs, to "
     "that",
     "Cases are shared out among --jobs=N processes; one that takes more than --limit=SECONDS (300) fails.\n"},
    {"gradcheck", cmd_gradcheck, "gradcheck PATH… [--filter=GLOB] [--report=FILE.json] [--skip-list=FILE]",
     "hold the derivatives of first and second order to differences in double precision", NULL},
    {"bench", cmd_bench, "bench MODEL… [--random] [--json] [--wall] [--unchecked]", "time a model", NULL},
    {"minify", cmd_minify, "minify MODEL [-o FILE.tc] [--rtol=X --atol=X]",
     "make a model that fails on a backend small: a few ops with their inputs, as a .tc file", NULL},
    {"dump", cmd_dump, "dump MODEL --stage=graph|functional|joint|forward|backward|loop|schedule|kernel|plan|code",
     "print a stage of the compilation",
     "Stages:\n"
     "  graph       the model as it was imported\n"
     "  functional  behind the graph passes of the mode\n"
     "  joint       the program with the gradients of its parameters and inputs\n"
     "  forward     what the joint graph is cut into: the program, and the values that it saves\n"
     "  backward    the gradients, of saved values, inputs and cotangents\n"
     "  loop        loops with scalar bodies\n"
     "  schedule    which loops became one kernel, and why others did not\n"
     "  kernel      the kernels, and the plan that launches them\n"
     "  plan        buffers, launches, calls\n"
     "  code        what the backend's plugin generated\n"
     "All but code are texts that tcrun reads again: a .tc file runs like a model. --grad with any later stage prints\n"
     "that of the joint graph. grad.graphs=all saves all that the backward reads, grad.budget=X a part of it.\n"
     "Example: tcrun dump model.pt2 --stage=backward > backward.tc\n"},
    {"explain", cmd_explain, "explain MODEL", "what was fused, what not and why, kernels, memory", NULL},
    {"backends", cmd_backends, "backends", "devices that were found", NULL},
    {"plugins", cmd_plugins, "plugins", "plugins, their state, and why some were refused", NULL},
    {"conform", cmd_conform, "conform --plugin=FILE.so [--filter=GLOB] [--report=FILE.json] [--skip-list=FILE]",
     "the vendor's test suite: does a plugin keep the rules?",
     "Groups of cases, for --filter='GROUP.*':\n"
     "  abi      the handshake, tables\n"
     "  device   properties, memory, copies, streams, times\n"
     "  kernel   code generation, bit for bit\n"
     "  rows     rows of a plugin's ops\n"
     "  op       small graphs against the references\n"
     "  grad     derivatives\n"
     "  opcheck  a plugin's ops on their samples; strides, sizes known at the run only\n"
     "  support  what is claimed compiles and is right\n"
     "  capture  recorded work\n"
     "  fault    failing allocations\n"
     "  perf     rates against those that the device claims\n"
     "A manifest NAME.tc-plugin.toml lies beside FILE.so. --random=SEED repeats a run; a line of the --skip-list is\n"
     "GROUP.NAME  # why it is known to fail. A case that takes more than --limit=SECONDS (300) fails.\n"
     "--set NAME.KEY=VALUE reaches the plugin.\n"
     "Example: tcrun conform --plugin=build/libabacus.so --filter='device.*'\n"},
    {"ops", cmd_ops, "ops [PATTERN]", "the ops that are known", NULL},
    {"modes", cmd_modes, "modes", "the modes there are", NULL},
    {"cache", cmd_cache, "cache [list|clear|bound]", "the compiled code kept on disk", NULL},
    {"config", cmd_config, "config", "the options in force, and where each value comes from", NULL},
    {"help", cmd_help, "help [COMMAND]", "this page, or more about a command", NULL},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

// Commands that show what they are at. Those that fork have no thread for it.
static const struct {
  tc_status (*run)(run_options *o);
  bool threaded;
} watched[] = {{cmd_run, true},   {cmd_compile, true}, {cmd_dump, true},      {cmd_explain, true},
               {cmd_bench, true}, {cmd_check, false},  {cmd_gradcheck, false}};

static tcrun_progress *start_progress(int32_t command) {
  for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
    if (watched[i].run == commands[command].run) return tcrun_progress_start(watched[i].threaded);
  return NULL;
}

static void help_on(int32_t i) {
  printf("tcrun %s\n  %s\n", commands[i].usage, commands[i].doc);
  if (commands[i].more) printf("\n%s", commands[i].more);
}

static void help(void) {
  printf("tcrun: compile and run exported PyTorch models\n\n");
  for (int i = 0; i < N_COMMANDS; i++) printf("  tcrun %-72s %s\n", commands[i].usage, commands[i].doc);
  printf("\nOptions: --backend=NAME --mode=NAME --config=FILE.toml --set key=value --device=N --threads=N --strict\n"
         "         --logs=LIST --quiet --json. `tcrun config` shows every key.\n"
         "Example: tcrun model.pt2 --backend=ref --random\n");
}

static tc_status cmd_help(run_options *o) {
  tc_sv names[N_COMMANDS];
  if (!o->args.count) return help(), TC_OK;
  for (int32_t i = 0; i < N_COMMANDS; i++) {
    names[i] = tc_sv_of(commands[i].name);
    if (tc_sv_eq(names[i], o->args.data[0])) return help_on(i), TC_OK;
  }
  tc_sv near = tc_sv_nearest(o->args.data[0], names, N_COMMANDS);
  return tc_error(TC_STATUS_INVALID_ARGUMENT, "no command '" TC_SV_FMT "'%s" TC_SV_FMT "%s", TC_SV_ARG(o->args.data[0]),
                  near.size ? "; did you mean " : "", TC_SV_ARG(near), near.size ? "?" : "");
}

typedef struct call {
  int argc;
  char **argv;
  tc_arena *arena;
  int command;
  tcrun_progress *progress;
} call;

static tc_status enter(void *arg) {
  call *c = arg;
  run_options o = {0};
  tc_status s = tcrun_parse(c->arena, c->argc, c->argv, &o);
  if (s != TC_OK) {
    tc_config_destroy(o.config);
    return s;
  }
  if (!o.quiet && !o.help) o.progress = c->progress = start_progress(c->command);
  if (o.help) help_on(c->command);
  else s = commands[c->command].run(&o);
  tc_config_destroy(o.config);
  return s;
}

static int exit_code(int32_t code) {
  switch (code) {
  case TC_STATUS_OK: return EXIT_OK;
  case TC_STATUS_MISMATCH: return EXIT_WRONG;
  case TC_STATUS_DEVICE:
  case TC_STATUS_PLUGIN: return EXIT_DEVICE;
  default: return EXIT_BAD_USE;
  }
}

int main(int argc, char **argv) {
  call c = {.argc = argc - 1, .argv = argv + 1, .command = -1};
  if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    help();
    return argc < 2 ? EXIT_BAD_USE : EXIT_OK;
  }
  for (int i = 0; i < N_COMMANDS; i++) {
    if (strcmp(argv[1], commands[i].name) == 0) c.command = i;
  }
  if (c.command >= 0) c.argc--, c.argv++;
  else c.command = 0; // a model by itself is run
  tc_status s = tc_arena_create(tc_system_allocator(), &c.arena);
  if (s == TC_OK) s = tc_arena_guard(c.arena, enter, &c);
  if (s == TC_OK && (fflush(stdout) != 0 || ferror(stdout))) s = tc_fs_error(errno, "write", "standard output");
  tcrun_progress_free(c.progress);
  int32_t code = tc_status_code(s);
  if (s != TC_OK) fprintf(stderr, "tcrun: %s\n", tc_status_text(s));
  tc_status_free(s);
  tc_arena_destroy(c.arena);
  return exit_code(code);
}
