/* The operations of drafting, verifying and accepting, as a plain C interface.
 *
 * Every implementation (the CPU library, the CUDA library, the CUDA kernels emulated on a CPU) exports exactly
 * these functions, and all of them give the same bits. The readable definition is cpspec_trt/kernels/oracle.py.
 *
 * Conventions
 *   - Arrays are dense, row-major and belong to the caller: host memory for the CPU library, device memory for
 *     CUDA. Structures lie in host memory and are read before the call returns.
 *   - An operation allocates nothing, keeps nothing between calls and never synchronises: on CUDA it is enqueued
 *     on `stream` and can be captured into a graph. The CPU library ignores `stream` and is done on return.
 *   - A row's result depends on that row alone, however many others stand in the same call.
 *   - A ragged batch lies flat: sequence a has counts[a] slots, its slots follow one another, and sequences
 *     follow one another. Verified rows lie likewise with counts[a] + 1 rows for sequence a.
 *   - Ids (codes, tables, rows, heads) must lie in range. The CPU library refuses others with
 *     CPSPEC_INVALID_ARGUMENT, and what it had written until then is undefined; a device implementation cannot
 *     report them and treats them as absent: it never reads or writes outside an array because of one.
 *   - A count lies in [0, CPSPEC_MAX_GROUPS - 1], of KV rows in [0, capacity]. The CPU library refuses others; on a
 *     device they count as 0. That the counts sum to what the arrays hold is the caller's promise: no implementation
 *     can know the length of an array, and a larger sum reads beyond it. The same holds for every [R], [A] and
 *     [batch] below, and that rows of a call differ where it is said: equal ones race on a device.
 *   - An array without elements may be NULL: what has one entry per draft where there are no drafts (a plain step),
 *     everything where a call has no rows. On a device NULL is the only sign of it: NULL drafts->codes there say that
 *     every count is 0.
 *   - Sizes of 0 rows are legal and do nothing.
 */
#ifndef CPSPEC_KERNELS_H
#define CPSPEC_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CPSPEC_API __attribute__((visibility("default")))
#else
#define CPSPEC_API
#endif

/* Grows whenever a function or a structure changes. */
#define CPSPEC_ABI_VERSION 3

/* The CodePredictor's and the Talker's operations keep one row in a GPU's shared memory. */
#define CPSPEC_MAX_VOCABULARY 4096

/* Codes of a frame: the noise of a round keeps a depth in 8 bits. UNSUPPORTED above it. */
#define CPSPEC_MAX_GROUPS 256

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cpspec_status {
    CPSPEC_OK = 0,
    CPSPEC_INVALID_ARGUMENT = 1, /* a null pointer, a negative size, an unknown dtype, an id out of range */
    CPSPEC_UNSUPPORTED = 2,      /* well formed, but beyond what this implementation does */
    CPSPEC_DEVICE_ERROR = 3      /* the launch failed */
} cpspec_status;

typedef enum cpspec_dtype { CPSPEC_FLOAT32 = 0, CPSPEC_FLOAT16 = 1, CPSPEC_BFLOAT16 = 2 } cpspec_dtype;

/* What can be wrong with a row of logits; values of every `errors` array. -inf alone is a legal mask. */
typedef enum cpspec_row_error {
    CPSPEC_ROW_SOUND = 0,
    CPSPEC_ROW_NOT_FINITE = 1, /* NaN or +inf, in the logits or after the temperature */
    CPSPEC_ROW_ALL_MASKED = 2  /* every logit is -inf */
} cpspec_row_error;

/* How drafts are accepted; core/accept.h has the formulas. Rows of which one token has all the mass (greedy ones) are
 * decided alike under each. */
typedef enum cpspec_rule {
    CPSPEC_REJECTION = 0, /* draft by draft (Leviathan et al., arXiv 2211.17192) */
    CPSPEC_BLOCK = 1,     /* jointly (Sun et al., arXiv 2403.10444) */
    CPSPEC_COUPLED = 2    /* the target's own draws, with the target's noise (arXiv 2408.07978) */
} cpspec_rule;

/* The guard. Where a pass of many rows may round otherwise than a pass of one, a code that is decided by a hair could
 * come out differently with and without drafts. So a verified row whose two best candidates lie closer than a
 * tolerance decides nothing: the drafts before it stand, this stands in the place of its code, and the caller decides
 * it from a pass of one row. Rows are looked at in order, the guard before the match. Every sequence has a tolerance of
 * its own (`tolerances`, [A]; NULL where nothing is guarded); 0 guards nothing. The CPU library refuses negative ones.
 * Greedy rows are judged by the gap of their logits (cpspec_argmax writes it; the probabilities of such a row do not
 * show it), coupled ones by the gap of their perturbed log-probabilities. */
#define CPSPEC_GUARDED (-2)

/* A cudaStream_t of the CUDA library. */
typedef void* cpspec_stream;

/* CPSPEC_ABI_VERSION of the library that was loaded. */
CPSPEC_API int32_t cpspec_abi_version(void);

/* What was loaded, for example "cpu avx512". */
CPSPEC_API const char* cpspec_implementation(void);

/* Why the last call of this thread failed; valid until this thread's next call. */
CPSPEC_API const char* cpspec_last_error(void);

/* Kernels this thread has launched so far; the CPU library counts operations. */
CPSPEC_API uint64_t cpspec_launches(void);

/* ---- parameters shared by several operations ---------------------------------------------------------------- */

/* Filter parameters, one per row. A temperature below 1e-3 makes the row greedy (one-hot at the lowest maximum);
 * top_k = 0 or beyond the vocabulary keeps all; top_p >= 1 keeps all. Values are validated by the caller. */
typedef struct cpspec_filter_rows {
    const float* temperature; /* [R] */
    const int32_t* top_k;     /* [R] */
    const float* top_p;       /* [R] */
} cpspec_filter_rows;

/* Where the noise of a row comes from: the Philox key and two counter words. */
typedef struct cpspec_noise_rows {
    const uint64_t* seeds;   /* [R] */
    const uint32_t* streams; /* [R], counter word 1: purpose, depth and round */
    const uint32_t* frames;  /* [R], counter word 2 */
} cpspec_noise_rows;

/* The heads of the CodePredictor: head s predicts c_(s+1). */
typedef struct cpspec_heads {
    const void* weights; /* [count, vocabulary, width] */
    cpspec_dtype dtype;
    int64_t count;
    int64_t vocabulary;
    int64_t width;
} cpspec_heads;

/* Which head is applied to which hidden row: logits[r] = heads[head_rows[r]] @ hidden[hidden_rows[r]]. */
typedef struct cpspec_head_rows {
    const void* hidden; /* [hidden_count, width] */
    cpspec_dtype dtype;
    int64_t hidden_count;
    const int64_t* hidden_rows; /* [R] */
    const int64_t* head_rows;   /* [R] */
    int64_t count;              /* R */
} cpspec_head_rows;

/* One codec embedding table per RVQ depth, the Talker's own first. On CUDA both arrays lie on the device. */
typedef struct cpspec_tables {
    const void* const* tables; /* [count] pointers to [rows[g], width] */
    const int64_t* rows;       /* [count] */
    int64_t count;
    int64_t width;
    cpspec_dtype dtype;
} cpspec_tables;

/* The drafts of a round. */
typedef struct cpspec_drafts {
    const int64_t* rows;   /* [A], the row of the batch in which sequence a stands; all different */
    const int64_t* counts; /* [A], its drafts */
    const int64_t* codes;  /* [sum(counts)] */
    int64_t sequences;     /* A */
} cpspec_drafts;

/* Trees of drafts. A node stands for a code that is fed, and its row decides the code after it. Node 0 of a sequence is
 * its root, the last committed code; a node at depth d below it decides c_(m+1+d). A count lies in
 * [1, CPSPEC_MAX_TREE_NODES]. */
typedef struct cpspec_trees {
    const int64_t* rows;    /* [A], the row of the batch in which sequence a stands; all different */
    const int64_t* nodes;   /* [A], nodes of each sequence */
    const int64_t* parents; /* [sum(nodes)], an index within the sequence, smaller than the node's own; the root's is
                             * not read */
    const int64_t* codes;   /* [sum(nodes)], siblings hold different ones; -1 where a node does not exist; the root's is
                             * not read */
    const int64_t* places;  /* [sum(nodes)] or NULL: node i holds codes[places[i]] then, of a `codes` of any length. A
                             * negative place is a node that does not exist. So the nodes of a depth share what
                             * cpspec_draw_candidates wrote for it */
    int64_t sequences;      /* A */
} cpspec_trees;

#define CPSPEC_MAX_TREE_NODES 1024

/* Where each row of the batch stands inside its frame. */
typedef struct cpspec_frame_state {
    int64_t* codes; /* [batch, groups], committed codes */
    int64_t* last;  /* [batch], index m of the last committed code */
    void* context;  /* [batch, width], the hidden row whose head produced c_m */
    cpspec_dtype dtype;
    int64_t batch;
    int64_t groups;
    int64_t width;
} cpspec_frame_state;

/* ---- logits to codes ---------------------------------------------------------------------------------------- */

/* Temperature, top-k, top-p, then renormalise: logits [R, V] -> probabilities float [R, V], dense; a faulty row
 * becomes zeros. Equal logits: the lower index first; exactly top_k survive; the token that reaches top_p is kept.
 * UNSUPPORTED above CPSPEC_MAX_VOCABULARY. */
CPSPEC_API cpspec_status cpspec_filter(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                                       const cpspec_filter_rows* filters, float* probabilities, int32_t* errors,
                                       cpspec_stream stream);

/* The lowest index of each row's maximum, -1 where the row is faulty. Any vocabulary.
 *   margins  float [R] or NULL: the gap between the two best logits, +inf where only one is above -inf, 0 where the row
 *            is faulty */
CPSPEC_API cpspec_status cpspec_argmax(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                                       int64_t* codes, int32_t* errors, float* margins, cpspec_stream stream);

/* argmax over the support of log p(v) + g(v), g Gumbel noise; -1 where a row has no mass. Rows need not sum to 1.
 * UNSUPPORTED above CPSPEC_MAX_VOCABULARY. */
CPSPEC_API cpspec_status cpspec_draw(const float* probabilities, int64_t rows, int64_t vocabulary,
                                     const cpspec_noise_rows* noise, int64_t* codes, cpspec_stream stream);

/* The first `widths[r]` of each row's race, best first; cpspec_draw gives the first. -1 beyond the width and beyond the
 * support. UNSUPPORTED above CPSPEC_MAX_VOCABULARY.
 *   widths      int64 [R], 1 to `most`; on a device others are cut to that
 *   candidates  int64 [R, most] */
CPSPEC_API cpspec_status cpspec_draw_candidates(const float* probabilities, int64_t rows, int64_t vocabulary,
                                                const int64_t* widths, int64_t most, const cpspec_noise_rows* noise,
                                                int64_t* candidates, cpspec_stream stream);

/* The Talker's c0: repetition penalty over seen codes, suppression, EOS ban, filter, draw with the Talker's stream
 * (purpose 4, depth 0). codes is -1 where a row is faulty. UNSUPPORTED above CPSPEC_MAX_VOCABULARY.
 *   seen       [R, V]  1 where the request has produced the code: its logit is multiplied by the penalty if it is
 *                      negative and divided by it otherwise
 *   penalty    [R]
 *   suppressed [V]     1 where a code may never be drawn
 *   ban_eos    [R]     1 where the row may not end yet */
CPSPEC_API cpspec_status cpspec_draw_talker(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                                            const uint8_t* seen, const float* penalty, const uint8_t* suppressed,
                                            int64_t eos, const uint8_t* ban_eos, const cpspec_filter_rows* filters,
                                            const uint64_t* seeds, const uint32_t* frames, float* probabilities,
                                            int64_t* codes, int32_t* errors, cpspec_stream stream);

/* Bytes of workspace that cpspec_sample needs for the same sizes; 0 where an argument is invalid. */
CPSPEC_API size_t cpspec_sample_workspace_bytes(int64_t rows, int64_t vocabulary);

/* Filter and draw over any vocabulary (the Thinker). codes is -1 where a row is faulty.
 *   probabilities [R, V] or NULL where they are not wanted
 *   workspace     aligned to 16 bytes, any content */
CPSPEC_API cpspec_status cpspec_sample(const void* logits, cpspec_dtype dtype, int64_t rows, int64_t vocabulary,
                                       const cpspec_filter_rows* filters, const cpspec_noise_rows* noise,
                                       float* probabilities, int64_t* codes, int32_t* errors, void* workspace,
                                       size_t workspace_bytes, cpspec_stream stream);

/* ---- a round ------------------------------------------------------------------------------------------------ */

/* logits float [R, V], float32 accumulation in one fixed order (core/dot.h). Rows that share a head read it once.
 * Any vocabulary, any width. */
CPSPEC_API cpspec_status cpspec_grouped_heads(const cpspec_heads* heads, const cpspec_head_rows* rows, float* logits,
                                              cpspec_stream stream);

/* Grouped heads, filter and draw of every slot, as the three operations would do them.
 *   logits   float [R, V], written
 *   arrivals uint32 [R], zeroed once by the caller; every call leaves zeros. The CPU library ignores it.
 *   codes    int64 [R], -1 where the row is faulty */
CPSPEC_API cpspec_status cpspec_draft(const cpspec_heads* heads, const cpspec_head_rows* rows,
                                      const cpspec_filter_rows* filters, const cpspec_noise_rows* noise, float* logits,
                                      uint32_t* arrivals, float* probabilities, int64_t* codes, int32_t* errors,
                                      cpspec_stream stream);

/* Grouped heads and filter of every verified row; parameters as for cpspec_draft. */
CPSPEC_API cpspec_status cpspec_score(const cpspec_heads* heads, const cpspec_head_rows* rows,
                                      const cpspec_filter_rows* filters, float* logits, uint32_t* arrivals,
                                      float* probabilities, int32_t* errors, cpspec_stream stream);

/* What the verify pass is fed: row b, position t is the embedding of code c_(m+t), c_m from the state and the rest
 * from the drafts, each from the table of its own depth. Positions beyond a sequence's drafts, and rows that are in
 * no sequence, become zeros.
 *   positions   S, at least max(counts) + 1
 *   fed         int64 [batch, S], the codes themselves, 0 where there is none; or NULL
 *   embeddings  [batch, S, width] in the tables' dtype */
CPSPEC_API cpspec_status cpspec_build_verify_input(const cpspec_frame_state* state, const cpspec_drafts* drafts,
                                                   const cpspec_tables* tables, int64_t positions, int64_t* fed,
                                                   void* embeddings, cpspec_stream stream);

/* The same for trees: row b, position j is the embedding of node j of the sequence in row b, from the table of its
 * depth. Zeros, and 0 in `fed`, where there is no such node.
 *   positions   S, at least max(nodes) */
CPSPEC_API cpspec_status cpspec_build_tree_input(const cpspec_frame_state* state, const cpspec_trees* trees,
                                                 const cpspec_tables* tables, int64_t positions, int64_t* fed,
                                                 void* embeddings, cpspec_stream stream);

/* Accept drafts while they equal the target's argmax.
 *   targets   int64 [sum(counts + 1)]
 *   margins     float [sum(counts + 1)], what cpspec_argmax wrote, or NULL where nothing is guarded
 *   tolerances  of margins
 *   accepted    int64 [A], how many drafts stand
 *   codes       int64 [A], the code that follows them, or CPSPEC_GUARDED
 * drafts->rows is not read and may be NULL. */
CPSPEC_API cpspec_status cpspec_accept_greedy(const int64_t* targets, const cpspec_drafts* drafts, const float* margins,
                                              const float* tolerances, int64_t* accepted, int64_t* codes,
                                              cpspec_stream stream);

/* Rejection sampling of a draft chain (Leviathan et al., arXiv 2211.17192): keep x while u * q(x) < p(x); at the
 * first rejection draw from max(p - q, 0), or from p where that has no mass; if all stand draw the bonus from the
 * last p. codes is -1 where the row that decides has no mass. drafts->rows is not read and may be NULL.
 * UNSUPPORTED above CPSPEC_MAX_VOCABULARY.
 *   target float [sum(counts + 1), V]
 *   draft  float [sum(counts), V]
 *   last   int64 [A], index m of the last committed code
 *   seeds  uint64 [A], frames uint32 [A]
 *   accepted, codes  int64 [A] */
CPSPEC_API cpspec_status cpspec_accept_rejection(const float* target, const float* draft, int64_t vocabulary,
                                                 const cpspec_drafts* drafts, const int64_t* last,
                                                 const uint64_t* seeds, const uint32_t* frames, int64_t* accepted,
                                                 int64_t* codes, cpspec_stream stream);

/* Block verification (Sun et al., arXiv 2403.10444): drafts are accepted jointly. Arguments, uniforms and noise are
 * those of cpspec_accept_rejection. */
CPSPEC_API cpspec_status cpspec_accept_block(const float* target, const float* draft, int64_t vocabulary,
                                             const cpspec_drafts* drafts, const int64_t* last, const uint64_t* seeds,
                                             const uint32_t* frames, int64_t* accepted, int64_t* codes,
                                             cpspec_stream stream);

/* Gumbel coupling (arXiv 2408.07978): the code of slot t is the draw from its p with the target's noise of its depth,
 * which the autoregressive loop takes too; go on while the drafts are these codes. So the codes do not depend on what
 * was drafted. codes is CPSPEC_GUARDED or -1 as above. UNSUPPORTED above CPSPEC_MAX_VOCABULARY.
 *   tolerances  of the gap between the two best perturbed log-probabilities (+inf where one token has all the mass) */
CPSPEC_API cpspec_status cpspec_accept_coupled(const float* target, int64_t vocabulary, const cpspec_drafts* drafts,
                                               const int64_t* last, const uint64_t* seeds, const uint32_t* frames,
                                               const float* tolerances, int64_t* accepted, int64_t* codes,
                                               cpspec_stream stream);

/* cpspec_accept_coupled down a tree: go to the child that holds the code, while there is one. trees->rows is not read
 * and may be NULL.
 *   target        float [sum(nodes), V], p of every node
 *   margins       float [sum(nodes)] or NULL, as for cpspec_accept_commit
 *   most          D, the longest path
 *   path          int64 [A, D], the visited nodes, the root first; -1 beyond them
 *   path_lengths  int64 [A], how many; one fewer drafts stand. 0 on a device where a sequence has no nodes
 *   codes         int64 [A, D], the code that each visited node decided, the last CPSPEC_GUARDED where it is guarded and
 *                 -1 where it has no mass; -1 beyond them */
CPSPEC_API cpspec_status cpspec_accept_tree(const float* target, int64_t vocabulary, const cpspec_trees* trees,
                                            const int64_t* last, const uint64_t* seeds, const uint32_t* frames,
                                            const float* margins, const float* tolerances, int64_t most,
                                            int64_t* path, int64_t* path_lengths, int64_t* codes,
                                            cpspec_stream stream);

/* cpspec_accept_rejection, _block or _coupled, then commit: the accepted drafts and the code after them enter
 * state->codes, last grows by accepted + 1, and hidden row first_hidden[a] + accepted[a] becomes the context row. A
 * guarded sequence commits its accepted drafts alone: last grows by accepted, and the hidden row before that one
 * becomes the context row; with no accepted draft it is left as it was. A sequence from which nothing can be drawn is
 * left as it was and gets accepted = -1.
 *   draft        not read under CPSPEC_COUPLED and may be NULL then
 *   hidden       [hidden_count, width] in the state's dtype: the rows of the verify pass
 *   first_hidden int64 [A]
 *   margins      float [sum(counts + 1)] or NULL: guards rows under every rule. For greedy rows what cpspec_argmax wrote
 *                of their logits, +inf for the others
 *   tolerances   of margins, and under CPSPEC_COUPLED of the gap between the two best perturbed log-probabilities
 *   accepted     int64 [A]
 *   commits      int64 [batch], codes committed per row of the batch, 0 for rows in no sequence */
CPSPEC_API cpspec_status cpspec_accept_commit(const float* target, const float* draft, int64_t vocabulary,
                                              const cpspec_drafts* drafts, const uint64_t* seeds,
                                              const uint32_t* frames, const void* hidden, int64_t hidden_count,
                                              const int64_t* first_hidden, const cpspec_frame_state* state,
                                              cpspec_rule rule, const float* margins, const float* tolerances,
                                              int64_t* accepted, int64_t* commits, cpspec_stream stream);

/* cpspec_accept_tree, then commit: the codes that the visited nodes decided enter state->codes, last grows by as many,
 * and the hidden row of the last node that decided one becomes the context row. A sequence that is guarded, or from
 * which nothing can be drawn, is treated as by cpspec_accept_commit.
 *   hidden       [hidden_count, width] in the state's dtype: the rows of the verify pass, node by node
 *   first_hidden int64 [A], of the root
 *   margins, tolerances  as for cpspec_accept_tree
 *   first        int64 [A], the KV slot of the root; node j lies j slots behind it
 *   most         D, the longest path, at most CPSPEC_MAX_GROUPS
 *   accepted     int64 [A], how many drafts stand
 *   commits      int64 [batch], as for cpspec_accept_commit
 *   sources      int64 [A, D], the KV slots of the nodes that decided a code, the root's first; -1 beyond them. With D
 *                as every count these are the sources of cpspec_copy_accepted_rows */
CPSPEC_API cpspec_status cpspec_accept_commit_tree(const float* target, int64_t vocabulary, const cpspec_trees* trees,
                                                   const uint64_t* seeds, const uint32_t* frames, const void* hidden,
                                                   int64_t hidden_count, const int64_t* first_hidden,
                                                   const cpspec_frame_state* state, const float* margins,
                                                   const float* tolerances, const int64_t* first, int64_t most,
                                                   int64_t* accepted, int64_t* commits, int64_t* sources,
                                                   cpspec_stream stream);

/* Bring the KV rows of an accepted path together: in every cache, slot sources[i] of sequence a's batch row is
 * copied to slot first[a] + i, i running over the sequence's own sources. Within a sequence sources ascend and
 * sources[i] >= first[a] + i, so no row is overwritten before it was read. A source of -1 copies nothing.
 *   caches  [cache_count] pointers to [batch, heads, capacity, head_size]; on CUDA the array lies on the device
 *   rows, counts, first  int64 [A]; sources int64 [sum(counts)] */
CPSPEC_API cpspec_status cpspec_copy_accepted_rows(void* const* caches, int64_t cache_count, cpspec_dtype dtype,
                                                   int64_t batch, int64_t heads, int64_t capacity, int64_t head_size,
                                                   const int64_t* rows, const int64_t* counts, const int64_t* first,
                                                   int64_t sequences, const int64_t* sources, cpspec_stream stream);

/* ---- codec embeddings --------------------------------------------------------------------------------------- */

/* out[r] = tables[table_ids[r]][codes[r]], in the tables' dtype. */
CPSPEC_API cpspec_status cpspec_gather_codec_embeddings(const cpspec_tables* tables, const int64_t* table_ids,
                                                        const int64_t* codes, int64_t rows, void* out,
                                                        cpspec_stream stream);

/* The Talker's next input: feedback[b] = sum over g, in order and in float32, of tables[g][codes[b, g]].
 *   codes int64 [batch, tables->count], feedback float [batch, width] */
CPSPEC_API cpspec_status cpspec_sum_codec_embeddings(const cpspec_tables* tables, const int64_t* codes, int64_t batch,
                                                     float* feedback, cpspec_stream stream);

/* ---- the functions that every implementation shares, for tests ------------------------------------------------ */

/* Philox4x32-10: counters [n, 4], keys [n, 2] -> out [n, 4]. */
CPSPEC_API cpspec_status cpspec_philox(const uint32_t* counters, const uint32_t* keys, int64_t n, uint32_t* out,
                                       cpspec_stream stream);

/* One 32-bit word per entry: token tokens[i] of the noise row i. */
CPSPEC_API cpspec_status cpspec_token_words(const cpspec_noise_rows* noise, const int64_t* tokens, int64_t n,
                                            uint32_t* words, cpspec_stream stream);

/* Uniform and Gumbel number of each word. */
CPSPEC_API cpspec_status cpspec_noise(const uint32_t* words, int64_t n, float* uniforms, float* gumbels,
                                      cpspec_stream stream);

typedef enum cpspec_function { CPSPEC_EXP = 0, CPSPEC_LOG = 1, CPSPEC_LOG1P = 2 } cpspec_function;

/* y[i] = f(x[i]); ranges and errors stand in core/elementary.h. */
CPSPEC_API cpspec_status cpspec_evaluate(cpspec_function function, const float* x, int64_t n, float* y,
                                         cpspec_stream stream);

#ifdef __cplusplus
}
#endif

#endif
