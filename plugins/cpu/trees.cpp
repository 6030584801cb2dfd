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
    const int64_t* places;  // into `codes`, or NULL
    int64_t nodes;

    int64_t code(int64_t node) const {
        if (!places) return codes[node];
        return places[node] < 0 ? -1 : codes[places[node]];
    }
};

Tree tree_at(const cpspec_trees& trees, int64_t a, int64_t first) {
    const bool shared = trees.places != nullptr;
    return {trees.parents + first, trees.codes + (shared ? 0 : first), shared ? trees.places + first : nullptr,
            trees.nodes[a]};
}

int64_t depth_of(const Tree& tree, int64_t node) {
    int64_t depth = 0;
    for (; node > 0; node = tree.parents[node]) ++depth;
    return depth;
}

// The child that holds a code, 0 where there is none.
int64_t child_with(const Tree& tree, int64_t node, int64_t code) {
    for (int64_t child = node + 1; child < tree.nodes; ++child) {
        if (tree.parents[child] == node && tree.code(child) == code) return child;
    }
    return 0;
}

// What decides along a walk.
struct Law {
    const float* target;  // [nodes, vocabulary]
    int64_t vocabulary;
    const float* margins;  // [nodes] or NULL
    float tolerance;
};

// Writes the visited nodes and what each decided; returns how many, at least one.
int64_t walk(const Tree& tree, const Law& law, uint64_t seed, uint32_t frame, int64_t last, int64_t most,
             const RowScratch& scratch, int64_t* path, int64_t* codes) {
    int64_t visited = 0;
    for (int64_t node = 0; visited < most;) {
        const Noise noise = target_noise(seed, frame, last, visited);
        int64_t code =
            coupled_code(law.target + node * law.vocabulary, law.vocabulary, noise, law.tolerance, scratch);
        if (law.margins && code >= 0 && is_guarded(law.margins[node], law.tolerance)) code = kGuarded;
        path[visited] = node;
        codes[visited++] = code;
        node = code >= 0 ? child_with(tree, node, code) : 0;
        if (node == 0) break;
    }
    return visited;
}

void commit(const cpspec_frame_state& state, int64_t row, const int64_t* codes, int64_t committed, const void* hidden,
            int64_t source) {
    if (committed == 0) return;
    int64_t* own = state.codes + row * state.groups + state.last[row] + 1;
    for (int64_t i = 0; i < committed; ++i) own[i] = codes[i];
    state.last[row] += committed;
    const size_t bytes = size_t(state.width) * element_bytes(state.dtype);
    std::memcpy(static_cast<char*>(state.context) + size_t(row) * bytes,
                static_cast<const char*>(hidden) + size_t(source) * bytes, bytes);
}

cpspec_status check_walk(const char* operation, int64_t vocabulary, const cpspec_trees* trees, const float* tolerances,
                         int64_t most) {
    CPSPEC_CHECK(check_vocabulary(operation, vocabulary));
    CPSPEC_CHECK(check_size(operation, "most", most, 1));
    CPSPEC_CHECK(check_trees(operation, trees));
    return check_tolerances(operation, tolerances, trees->sequences);
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
            const int64_t code = node ? tree.code(node) : state->codes[row * state->groups + state->last[row]];
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
                                 const float* margins, const float* tolerances, int64_t most, int64_t* path,
                                 int64_t* path_lengths, int64_t* codes, cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_tree";
    begin_operation();
    CPSPEC_CHECK(check_walk(kName, vocabulary, trees, tolerances, most));
    if (trees->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"target", target}, {"last", last}, {"seeds", seeds}, {"frames", frames}}));
    CPSPEC_CHECK(check_pointers(kName, {{"path", path}, {"path_lengths", path_lengths}, {"codes", codes}}));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    for (int64_t a = 0, first = 0; a < trees->sequences; ++a) {
        const Tree tree = tree_at(*trees, a, first);
        const Law law{target + first * vocabulary, vocabulary, margins ? margins + first : nullptr,
                      tolerance_of(tolerances, a)};
        int64_t *own_path = path + a * most, *own_codes = codes + a * most;
        int64_t visited = walk(tree, law, seeds[a], frames[a], last[a], most, scratch, own_path, own_codes);
        path_lengths[a] = visited;
        for (; visited < most; ++visited) own_path[visited] = own_codes[visited] = -1;
        first += tree.nodes;
    }
    return CPSPEC_OK;
}

cpspec_status cpspec_accept_commit_tree(const float* target, int64_t vocabulary, const cpspec_trees* trees,
                                        const uint64_t* seeds, const uint32_t* frames, const void* hidden,
                                        int64_t hidden_count, const int64_t* first_hidden,
                                        const cpspec_frame_state* state, const float* margins, const float* tolerances,
                                        const int64_t* first, int64_t most, int64_t* accepted, int64_t* commits,
                                        int64_t* sources, cpspec_stream) {
    constexpr const char* kName = "cpspec_accept_commit_tree";
    begin_operation();
    CPSPEC_CHECK(check_walk(kName, vocabulary, trees, tolerances, most));
    CPSPEC_CHECK(check_index(kName, "most", most, CPSPEC_MAX_GROUPS + 1));
    CPSPEC_CHECK(check_state(kName, state));
    if (state->batch == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"commits", commits}}));
    std::memset(commits, 0, size_t(state->batch) * sizeof(int64_t));
    if (trees->sequences == 0) return CPSPEC_OK;
    CPSPEC_CHECK(check_pointers(kName, {{"target", target}, {"seeds", seeds}, {"frames", frames}, {"hidden", hidden}}));
    CPSPEC_CHECK(check_pointers(kName, {{"trees->rows", trees->rows}, {"first_hidden", first_hidden}}));
    CPSPEC_CHECK(check_pointers(kName, {{"first", first}, {"accepted", accepted}, {"sources", sources}}));
    CPSPEC_CHECK(check_pointers(kName, {{"state->codes", state->codes}, {"state->last", state->last}}));
    CPSPEC_CHECK(check_pointers(kName, {{"state->context", state->context}}));
    StackScratch stack;
    const RowScratch scratch = stack.row();
    int64_t codes[CPSPEC_MAX_GROUPS];
    for (int64_t a = 0, node = 0; a < trees->sequences; ++a) {
        const Tree tree = tree_at(*trees, a, node);
        const int64_t row = trees->rows[a];
        CPSPEC_CHECK(check_index(kName, "trees->rows", row, state->batch));
        CPSPEC_CHECK(check_index(kName, "first_hidden", first_hidden[a], hidden_count - tree.nodes + 1));
        CPSPEC_CHECK(check_size(kName, "first", first[a], 0));
        const Law law{target + node * vocabulary, vocabulary, margins ? margins + node : nullptr,
                      tolerance_of(tolerances, a)};
        int64_t* path = sources + a * most;
        const int64_t last = state->last[row];
        const int64_t visited = walk(tree, law, seeds[a], frames[a], last, most, scratch, path, codes);
        const bool has_mass = codes[visited - 1] != kWithoutMass;
        const int64_t committed = !has_mass ? 0 : codes[visited - 1] == kGuarded ? visited - 1 : visited;
        CPSPEC_CHECK(check_index(kName, "state->last", last, state->groups - committed));
        accepted[a] = has_mass ? visited - 1 : -1;
        commits[row] = committed;
        commit(*state, row, codes, committed, hidden, first_hidden[a] + (committed ? path[committed - 1] : 0));
        for (int64_t i = 0; i < most; ++i) path[i] = i < committed ? first[a] + path[i] : -1;
        node += tree.nodes;
    }
    return CPSPEC_OK;
}
