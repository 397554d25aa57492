// Makes the cluster that the other test programs copy, with the schema migrated by this build's service.
#include <stdlib.h>

#include "stack.h"

START_TEST(a_cluster_is_made)
{
    ck_assert_int_eq(unsetenv("TEST_SHARDS"), 0); // each copy may become one
    stack_start(STACK_POSTGRES);
    postgres_keep(CLUSTER);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("cluster");
    tcase_add_test(tcase, a_cluster_is_made);
    return harness_main(tcase, CK_NOFORK);
}
