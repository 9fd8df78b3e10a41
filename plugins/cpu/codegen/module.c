// The exported function of libtc_cpu_codegen.so: kernels → one LLVM module → passes → ELF object in memory.
//
// The pass list is short because compile time is part of a first run's latency: the body into its entry, allocas to
// registers, common subexpressions, peepholes, invariant code motion, and control flow clean-up. Vectorising and
// unrolling have been done while emitting. The processor is the host's, from LLVM's feature string; where the target
// caps the vector width, the AVX-512 features are switched off.
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen.h"

#include "tc/plugin.h"

#define TRIPLE "x86_64-pc-linux-gnu"

static void report(const tc_host *h, int32_t code, const char *text) {
  if (h && h->diag) h->diag(h->self, code, (tc_sv){text, strlen(text)});
}

static void on_fatal_error(const char *reason);

// The emitters of kernels order instructions so that few values are alive. LLVM's scheduler, which counts them while it
// places the last instruction first, keeps more where there are 16 registers, and stores what it has no room for: there
// it is not to count, and leaves the order as it is. Options of LLVM are global, so they depend on the host alone; no
// other library shares this copy of LLVM.
static void keep_order(void) {
  char *features = LLVMGetHostCPUFeatures();
  const char *const options[] = {"tc", "-misched-regpressure=false"};
  if (!strstr(features, "+avx512f")) LLVMParseCommandLineOptions(2, options, "");
  LLVMDisposeMessage(features);
}

static void init_target(void) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInstallFatalErrorHandler(on_fatal_error);
  keep_order();
}

static LLVMTargetMachineRef make_machine(const tc_host *h, const tc_cpu_target *t, int32_t optimize) {
  static pthread_once_t once = PTHREAD_ONCE_INIT; // LLVM's registry is global
  pthread_once(&once, init_target);
  LLVMTargetRef target;
  char *error = NULL, *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
  LLVMTargetMachineRef tm = NULL;
  size_t size = strlen(features) + 64;
  char *all = malloc(size);
  if (!all || LLVMGetTargetFromTriple(TRIPLE, &target, &error)) {
    report(h, TC_STATUS_INTERNAL, error ? error : "no memory for the feature string");
    LLVMDisposeMessage(error);
    goto done;
  }
  bool cap = t->words[TC_CPU_WORD_VECTOR] < 64;
  snprintf(all, size, "%s%s", features, cap ? ",-avx512f,-evex512,-prefer-256-bit" : ",-prefer-256-bit");
  LLVMCodeGenOptLevel level = optimize > 0 ? LLVMCodeGenLevelDefault : LLVMCodeGenLevelLess;
  tm = LLVMCreateTargetMachine(target, TRIPLE, cpu, all, level, LLVMRelocPIC, LLVMCodeModelSmall);
  if (!tm) report(h, TC_STATUS_INTERNAL, "LLVM has no machine for this processor");
done:
  free(all);
  LLVMDisposeMessage(cpu);
  LLVMDisposeMessage(features);
  return tm;
}

void cg_plain_data(const tc_cpu_target *t, LLVMValueRef global) {
  if (t->sanitize) LLVMSetSection(global, "tc_data");
}

static void add_target_words(LLVMContextRef ctx, LLVMModuleRef mod, const tc_cpu_target *t) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(ctx);
  LLVMValueRef words[TC_CPU_TARGET_WORDS];
  for (int32_t i = 0; i < TC_CPU_TARGET_WORDS; i++) words[i] = LLVMConstInt(i32, t->words[i], 0);
  LLVMValueRef init = LLVMConstArray2(i32, words, TC_CPU_TARGET_WORDS);
  LLVMValueRef v = LLVMAddGlobal(mod, LLVMTypeOf(init), "tc_cpu_target_words");
  LLVMSetInitializer(v, init);
  LLVMSetGlobalConstant(v, 1);
  cg_plain_data(t, v);
}

// AddressSanitizer's registration of a module's globals: kernels have none that it knows, and no initialisers are run.
static void strip_registration(LLVMModuleRef mod) {
  static const char *const globals[] = {"llvm.global_ctors", "llvm.global_dtors", "llvm.used", "llvm.compiler.used"};
  static const char *const functions[] = {"asan.module_ctor", "asan.module_dtor"};
  static const char *const marks[] = {"___asan_globals_registered", "__start_asan_globals", "__stop_asan_globals"};
  LLVMValueRef v;
  for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
    if ((v = LLVMGetNamedGlobal(mod, globals[i])) != NULL) LLVMDeleteGlobal(v);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if ((v = LLVMGetNamedFunction(mod, functions[i])) != NULL) LLVMDeleteFunction(v);
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if ((v = LLVMGetNamedGlobal(mod, marks[i])) != NULL) LLVMDeleteGlobal(v);
}

static int32_t optimise(const tc_host *h, const tc_cpu_target *t, LLVMModuleRef mod, LLVMTargetMachineRef tm) {
  char passes[256];
  snprintf(
      passes, sizeof passes,
      "always-inline,function(sroa,early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm),early-cse,simplifycfg)%s",
      t->sanitize ? ",asan" : "");
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(mod, passes, tm, options);
  LLVMDisposePassBuilderOptions(options);
  if (t->sanitize) strip_registration(mod);
  if (!error) return TC_STATUS_OK;
  char *text = LLVMGetErrorMessage(error);
  report(h, TC_STATUS_INTERNAL, text);
  LLVMDisposeErrorMessage(text);
  return TC_STATUS_INTERNAL;
}

static int32_t write_file(const tc_host *h, LLVMTargetMachineRef tm, LLVMModuleRef mod, LLVMCodeGenFileType kind,
                          const tc_sink *to) {
  LLVMMemoryBufferRef buffer = NULL;
  char *error = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(tm, mod, kind, &error, &buffer)) {
    report(h, TC_STATUS_INTERNAL, error ? error : "LLVM could not write an object");
    LLVMDisposeMessage(error);
    return TC_STATUS_INTERNAL;
  }
  int32_t s = to->write(to->self, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  return s;
}

static int32_t generate(const tc_host *h, const tc_cpu_target *t, const tc_kernel *const *kernels, int32_t n,
                        int32_t optimize, const tc_sink *sink, const tc_sink *text) {
  LLVMTargetMachineRef tm = make_machine(h, t, optimize);
  if (!tm) return TC_STATUS_INTERNAL;
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMModuleRef mod = LLVMModuleCreateWithNameInContext("kernels", ctx);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  LLVMSetModuleDataLayout(mod, layout);
  LLVMSetTarget(mod, TRIPLE);
  char why[512];
  int32_t s = TC_STATUS_OK;
  for (int32_t i = 0; i < n && s == TC_STATUS_OK; i++) {
    s = cg_kernel(ctx, mod, t, kernels[i], why, sizeof why);
    if (s != TC_STATUS_OK) report(h, s, why);
  }
  add_target_words(ctx, mod, t);
  if (s == TC_STATUS_OK) s = optimise(h, t, mod, tm);
  if (s == TC_STATUS_OK && text) { // writing changes the module
    LLVMModuleRef copy = LLVMCloneModule(mod);
    s = write_file(h, tm, copy, LLVMAssemblyFile, text);
    LLVMDisposeModule(copy);
  }
  if (s == TC_STATUS_OK) s = write_file(h, tm, mod, LLVMObjectFile, sink);
  LLVMDisposeTargetData(layout);
  LLVMDisposeModule(mod);
  LLVMContextDispose(ctx);
  LLVMDisposeTargetMachine(tm);
  return s;
}

// LLVM ends the process when it meets what it cannot compile. Instead the compilation is left where it is, its memory
// is lost, and the caller gets an error. The jump stays within this library.
typedef struct rescue {
  jmp_buf back;
  char why[300];
} rescue;
static _Thread_local rescue *current;

static void on_fatal_error(const char *reason) {
  if (!current) return;
  snprintf(current->why, sizeof current->why, "LLVM gave up: %s", reason);
  longjmp(current->back, 1);
}

int32_t tc_cpu_codegen_compile(const tc_host *h, const tc_cpu_target *t, const tc_kernel *const *kernels, int32_t n,
                               int32_t optimize, const tc_sink *sink, const tc_sink *text);

TC_PLUGIN_EXPORT int32_t tc_cpu_codegen_compile(const tc_host *h, const tc_cpu_target *t,
                                                const tc_kernel *const *kernels, int32_t n, int32_t optimize,
                                                const tc_sink *sink, const tc_sink *text) {
  int32_t s = tc_sdk_init(h);
  if (s != TC_STATUS_OK) return s;
  rescue here;
  rescue *outer = current;
  current = &here;
  if (setjmp(here.back) == 0) s = generate(h, t, kernels, n, optimize, sink, text);
  else {
    s = TC_STATUS_INTERNAL;
    report(h, s, here.why);
  }
  current = outer;
  return s;
}
