// The cluster that the programs beside this one copy: with the schema as this build's service migrates it.
#include <stdlib.h>

#include "stack.h"

START_TEST(a_cluster_is_made)
{
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
