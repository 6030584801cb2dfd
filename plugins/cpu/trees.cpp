// Trees of drafts: the candidates they are made of, what their verify pass is fed, and the walk down one.
#include <cstring>

#include "arguments.h"
#include "decide.h"
#include "sizes.h"
#include "steps.h"
#include "tables.h"

using namespace cpspec;

namespace {

// One sequence's tree.
struct Tree {
    const int64_t* parents;
    const int64_t* codes;
    int64_t nodes;
};

Tree tree_at(const cpspec_trees& trees, int64_t a, int64_t first) {
    return {trees.parents + first, trees.codes + first, trees.nodes[a]};
}

int64_t depth_of(const Tree& tree, int64_t node) {
    int64_t depth = 0;
    for (; node > 0; node = tree.parents[node]) ++depth;
    return depth;
}

// The child that holds a code, 0 where there is none.
int64_t child_with(const Tree& tree, int64_t node, int64_t code) {
    for (int64_t child = node + 1; child < tree.nodes; ++child) {
        if (tree.parents[child] == node && tree.codes[child] == code) return child;
    }
    return 0;
}

}  // namespace

cpspec_status cpspec_draw_candidates(const float* probabilities, int64_t rows, int64_t vocabulary,
                                     const int64_t* widths, int64_t most, const cpspec_noise_rows* noise,
                                     int64_t* candidates, cpspec_stream) {
    constexpr const char* kName = "cpspec_draw_candidates";
    begin_operation();
    CPSPEC_CHECK(check_size(kName, "rows", rows, 0));
    CPSPEC_CHECK(check_size(kName, "most", most, 1));
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    if (rows == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(
        kName, {{"probabilities", probabilities}, {"widths", widths}, {"candidates", candidates}}));
    CPSPEC_CHECK(check_noise(kName, noise));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    for (int64_t r = 0; r < rows; ++r) {
        CPSPEC_CHECK(check_size(kName, "widths", widths[r], 1));
        CPSPEC_CHECK(check_index(kName, "widths", widths[r], most + 1));
        int64_t* own = candidates + r * most;
        const Survivors support = level().support(probabilities + r * vocabulary, vocabulary, scratch);
        int64_t found = level().best(support, noise_of(noise, r), scratch, widths[r], own, nullptr);
        while (found < most) own[found++] = -1;
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_build_tree_input(const cpspec_frame_state* state, const cpspec_trees* trees,
                                      const cpspec_tables* tables, int64_t positions, int64_t* fed, void* embeddings,
                                      cpspec_stream) {
    constexpr const char* kName = "cpspec_build_tree_input";
    begin_operation();
    CPSPEC_CHECK(check_state(kName, state));
    CPSPEC_CHECK(check_tables(kName, tables));
    CPSPEC_CHECK(check_size(kName, "positions", positions, 1));
    CPSPEC_CHECK(check_trees(kName, trees));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"state->codes", state->codes}, {"embeddings", embeddings}}));

    const size_t bytes = size_t(tables->width) * element_bytes(tables->dtype);
    const size_t slots = size_t(state->batch * positions);
    std::memset(embeddings, 0, slots * bytes);
    if (fed) std::memset(fed, 0, slots * sizeof(int64_t));
    if (trees->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"trees->rows", trees->rows}, {"state->last", state->last}}));
    for (int64_t a = 0, first = 0; a < trees->sequences; ++a) {
        const Tree tree = tree_at(*trees, a, first);
        const int64_t row = trees->rows[a];
        CPSPEC_CHECK(check_index(kName, "trees->rows", row, state->batch));
        CPSPEC_CHECK(check_index(kName, "state->last", state->last[row], state->groups));
        CPSPEC_CHECK(check_size(kName, "positions", positions, tree.nodes));
        for (int64_t node = 0; node < tree.nodes; ++node) {
            const int64_t code = node ? tree.codes[node] : state->codes[row * state->groups + state->last[row]];
            if (node && code == -1) continue;
            const int64_t depth = state->last[row] + depth_of(tree, node), slot = row * positions + node;
            CPSPEC_CHECK(check_code(kName, *tables, depth, code));
            std::memcpy(static_cast<char*>(embeddings) + size_t(slot) * bytes, table_row(*tables, depth, code), bytes);
            if (fed) fed[slot] = code;
        }
        first += tree.nodes;
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_accept_tree(const float* target, int64_t vocabulary, const cpspec_trees* trees,
                                 const int64_t* last, const uint64_t* seeds, const uint32_t* frames,
                                 const float* margins, float tolerance, int64_t most, int64_t* path,
                                 int64_t* path_lengths, int64_t* codes, cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_tree";
    begin_operation();
    CPSPEC_CHECK(check_vocabulary(kName, vocabulary));
    CPSPEC_CHECK(check_tolerance(kName, tolerance));
    CPSPEC_CHECK(check_size(kName, "most", most, 1));
    CPSPEC_CHECK(check_trees(kName, trees));
    if (trees->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"target", target}, {"last", last}, {"seeds", seeds}, {"frames", frames}}));
    CPSPEC_CHECK(check_pointers(kName, {{"path", path}, {"path_lengths", path_lengths}, {"codes", codes}}));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    for (int64_t a = 0, first = 0; a < trees->sequences; ++a) {
        const Tree tree = tree_at(*trees, a, first);
        int64_t visited = 0;
        for (int64_t node = 0; visited < most;) {
            const Noise noise = target_noise(seeds[a], frames[a], last[a], visited);
            int64_t code = coupled_code(target + (first + node) * vocabulary, vocabulary, noise, tolerance, scratch);
            if (margins && code >= 0 && is_guarded(margins[first + node], tolerance)) code = kGuarded;
            path[a * most + visited] = node;
            codes[a * most + visited++] = code;
            node = code >= 0 ? child_with(tree, node, code) : 0;
            if (node == 0) break;
        }
        path_lengths[a] = visited;
        for (; visited < most; ++visited) path[a * most + visited] = codes[a * most + visited] = -1;
        first += tree.nodes;
    }
    return CPSPEC_OK;
}
