// The table of contents, in the order in which the story is told.
#include <stddef.h>

#include "approach.h"

extern const struct approach approach_no_lock, approach_process_mutex, approach_setnx, approach_setnx_expire,
    approach_set_nx_ex, approach_owner_get_del, approach_owner_lua, approach_getset, approach_getset_unexpired,
    approach_getset_watch, approach_redisson, approach_redlock, approach_zookeeper, approach_watch_multi,
    approach_sql_compare_and_set, approach_sql_version, approach_sql_conditional, approach_sql_for_update,
    approach_advisory_lock, approach_lua, approach_lua_batch, approach_segments, approach_count_then_insert,
    approach_process_lock_per_user, approach_released_before_commit, approach_released_after_commit,
    approach_unique_index, approach_lua_set, approach_service, approach_stamp_and_counter, approach_uuid_v7,
    approach_owner_lua_notified;

const struct approach *const approaches[] = {
    &approach_no_lock,
    &approach_process_mutex,
    &approach_setnx,
    &approach_setnx_expire,
    &approach_set_nx_ex,
    &approach_owner_get_del,
    &approach_owner_lua,
    &approach_getset,
    &approach_getset_unexpired,
    &approach_getset_watch,
    &approach_owner_lua_notified,
    &approach_redisson,
    &approach_redlock,
    &approach_zookeeper,
    &approach_watch_multi,
    &approach_sql_compare_and_set,
    &approach_sql_version,
    &approach_sql_conditional,
    &approach_sql_for_update,
    &approach_advisory_lock,
    &approach_lua,
    &approach_lua_batch,
    &approach_segments,
    &approach_count_then_insert,
    &approach_process_lock_per_user,
    &approach_released_before_commit,
    &approach_released_after_commit,
    &approach_unique_index,
    &approach_lua_set,
    &approach_service,
    &approach_stamp_and_counter,
    &approach_uuid_v7,
    NULL,
};
