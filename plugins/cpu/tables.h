// Rows of the codec embedding tables.
#pragma once

#include "arguments.h"
#include "sizes.h"

namespace cpspec {

inline const char* table_row(const cpspec_tables& tables, int64_t table, int64_t code) {
    const size_t bytes = size_t(tables.width) * element_bytes(tables.dtype);
    return static_cast<const char*>(tables.tables[table]) + size_t(code) * bytes;
}

inline cpspec_status check_code(const char* operation, const cpspec_tables& tables, int64_t table, int64_t code) {
    CPSPEC_CHECK(check_index(operation, "table_ids", table, tables.count));
    return check_index(operation, "codes", code, tables.rows[table]);
}

}  // namespace cpspec
