// SECKILL_TRUSTED_PROXIES. Each accepted network contains its first address, has the same meaning when written again,
// and is never the whole address space. A rejection points at a word of the input.
#include <arpa/inet.h>
#include <stdio.h>

#include "address.h"
#include "fuzz.h"

enum { PIECE = INET6_ADDRSTRLEN + 8 };

static void must_make_sense(const struct sk_networks *networks)
{
    struct sk_networks again;
    size_t len;
    char *list = calloc(SK_NETWORKS_MAX + 1, PIECE);
    MUST(list != NULL && networks->count <= SK_NETWORKS_MAX);
    for (size_t i = 0; i < networks->count; i++) {
        const struct sk_network *network = &networks->all[i];
        char text[INET6_ADDRSTRLEN];
        MUST(network->bits >= 1 && network->bits <= 128);
        MUST(sk_networks_have(networks, &network->first));
        MUST(inet_ntop(AF_INET6, network->first.bytes, text, sizeof text) != NULL);
        (void)snprintf(list + strlen(list), PIECE, "%s/%u,", text, network->bits);
    }
    MUST(sk_networks_parse(list, &again, &len) == NULL && again.count == networks->count);
    for (size_t i = 0; i < again.count; i++)
        MUST(again.all[i].bits == networks->all[i].bits &&
             memcmp(&again.all[i].first, &networks->all[i].first, sizeof again.all[i].first) == 0);
    free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_networks networks;
    char *text = fuzz_text(data, size);
    size_t len = 0;
    const char *bad = sk_networks_parse(text, &networks, &len);
    if (bad == NULL)
        must_make_sense(&networks);
    else
        MUST(bad >= text && len > 0 && bad + len <= text + strlen(text) && strcspn(bad, ", \t\r\n") == len);
    free(text);
    return 0;
}
