// Graphs of operations for cuDNN (NVIDIA, "cuDNN backend API"): what this plugin needs to describe one, to have it
// planned, and to run the plan. The functions are looked up in the library that dnn.h opens.
#ifndef TC_PLUGINS_CUDA_DNN_GRAPH_H_
#define TC_PLUGINS_CUDA_DNN_GRAPH_H_

#include <stdbool.h>

#include "cuda.h"

enum { DNN_GRAPH_RANK = 4, DNN_GRAPH_MOST = 64, DNN_GRAPH_OPS = 16, DNN_GRAPH_TENSORS = 8 };

typedef struct dnn_item_ *dnn_item; // cudnnBackendDescriptor_t
#define DNN_GRAPH_FUNCTIONS(X)                                                                                        \
  X(create, "cudnnBackendCreateDescriptor", (int kind, dnn_item *item))                                               \
  X(destroy, "cudnnBackendDestroyDescriptor", (dnn_item item))                                                        \
  X(finalize, "cudnnBackendFinalize", (dnn_item item))                                                                \
  X(set, "cudnnBackendSetAttribute", (dnn_item item, int name, int type, int64_t count, const void *values))          \
  X(get, "cudnnBackendGetAttribute", (dnn_item item, int name, int type, int64_t room, int64_t *count, void *values)) \
  X(execute, "cudnnBackendExecute", (dnn_handle handle, dnn_item plan, dnn_item pack))

typedef struct dnn_graph {
#define X(field, symbol, params) dnn_status(*field) params;
  DNN_GRAPH_FUNCTIONS(X)
#undef X
  tc_device_ *d;
  dnn_status status; // of the first call that failed; then nothing more is done
  dnn_item made[DNN_GRAPH_MOST], ops[DNN_GRAPH_OPS], plan;
  int32_t n_made, n_ops;
  int64_t next_id, workspace;
} dnn_graph;

// cudnnDataType_t besides those of dnn.h, cudnnPointwiseMode_t, cudnnReduceTensorOp_t
enum { DNN_INT32 = 4, DNN_BOOLEAN = 11 };
enum {
  DNN_ADD = 0,
  DNN_MUL = 1,
  DNN_DIV = 6,
  DNN_SUB = 9,
  DNN_EXP = 13,
  DNN_LOG = 15,
  DNN_AT_LEAST = 303,
  DNN_INDEX = 501,
  DNN_SELECT = 601
};
enum { DNN_REDUCE_SUM = 0, DNN_REDUCE_MAX = 3 };

// An empty graph in memory of the caller's, whose library is open. UNIMPLEMENTED, reported, if it has no graphs.
int32_t dnn_graph_open(tc_device_ *d, dnn_graph *g);
void dnn_graph_close(dnn_graph *g);

// Tensors: of the caller's, by their number in runs; one number on the host; what lies between operations.
dnn_item dnn_graph_tensor(dnn_graph *g, int64_t id, int type, const int64_t *sizes, const int64_t *strides);
dnn_item dnn_graph_number(dnn_graph *g, int64_t id);
dnn_item dnn_graph_between(dnn_graph *g, int type, const int64_t *sizes);
// Operations, in f32 if it is not said otherwise. y = x op b; of SELECT: t ? x : b; of INDEX: the number along `axis`.
void dnn_graph_pointwise(dnn_graph *g, int mode, int type, dnn_item x, dnn_item b, dnn_item t, int64_t axis,
                         dnn_item y);
void dnn_graph_reduce(dnn_graph *g, int mode, dnn_item x, dnn_item y);
void dnn_graph_product(dnn_graph *g, dnn_item a, dnn_item b, dnn_item c);

// Plans the graph by the library's first choice that it can do. UNIMPLEMENTED, reported with the library's words.
int32_t dnn_graph_plan(dnn_graph *g);
// Runs the plan on the stream of the device's handle, which the caller holds. Thread-safe.
dnn_status dnn_graph_run(const dnn_graph *g, int32_t n, const int64_t *ids, void *const *addresses, void *workspace);

#endif
