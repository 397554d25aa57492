// Makes the cluster that the other test programs copy, with the schema migrated by this build's service.
#include <stdlib.h>

#include "stack.h"
#include "test.h"

TEST(a_cluster_is_made)
{
    ck_assert_int_eq(unsetenv("TEST_SHARDS"), 0); // each copy may become one
    stack_start(STACK_POSTGRES);
    postgres_keep(CLUSTER);
}

SUITE(.in_one_process = true);
