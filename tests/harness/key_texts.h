// Keys of each algorithm, as base64url, and the JSON Web Keys of them.
#ifndef HARNESS_KEY_TEXTS_H
#define HARNESS_KEY_TEXTS_H

// RFC 7515, A.1 to A.3, and RFC 8037, A.1; the others are made for the tests.
#define SECRET_A   "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
#define SECRET_B   "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
#define ED_PRIVATE "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
#define ED_PUBLIC  "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
#define EC_X       "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
#define EC_Y       "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
#define EC_PRIVATE "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"
#define EC_OTHER_X "oc6Y4bDVshvuErTwCl_qBMCMLvwTQccrdalUAvGD6Tk"
#define EC_OTHER_Y "pI1rY91IXg1K8CPmc5m3VwPD8p9rsE755WH_Tl-GtvM"
#define RSA_E      "AQAB"
#define RSA_N                                                                                              \
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yR" \
    "T-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXB" \
    "dQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9ia" \
    "GNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
#define RSA_PRIVATE                                                                                        \
    "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46su" \
    "i395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4" \
    "qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB" \
    "4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ"
#define RSA_OTHER_N                                                                                        \
    "v4KE_OH04PGnBqHxObiDFf5ZTNCNNcPlpALZsPQKfQLpUiMevQgfeAvfO107fTQxybKcsZfTTfu6eAJreNPfJwuvg_f1rXHlHY7E" \
    "HEBB617k6GIa_z7ZqxRccRWuR0SlN_EfQzkx4GG8jjlKynKkUBAeuAEp4UvNm5Uro4MK-BAhRNgx_3jfIF8djtvHPmjiUwjSkurb" \
    "uubGsKFIRCOOFMJExN207M7P85VK01rH1kJCo68rmzGS9mqqDk1O779oGM4h72Y1YzyyC4x4cYuxaij3owc0k6mPjva8ZZpssjqL" \
    "PcEqn8I4DW7ylg4QGhfTqYaqqtES-ZOinapJBztQqw"
#define RSA_N_2047_BITS                                                                                    \
    "Zqh0dgUe_M6SBY9ylxdDZPmzP_Jon-hSpqU8otBW_Y28_DVIuDZq5cehs74PmDlSzvQm9ew4ux0YwDql0s_twlUU5sifPfChY6-U" \
    "a91NtMZqy4UXDDBviNg5ECBjnBam0oL0ADA26CyPnmnxQkf9wDy1l_KxazE_gVArJeBtWVo-qiK1p2_zwgOiaEeoo2vqPgjtFOv1" \
    "kwilZBlaqOoW9muBK_IgOxofo5EVvVnZbmfVTJY-eLUZICX1iU3QZAxrr74DgJJ0A_JHreX2X6Zq9dkEP1mo4u2tywi5AUFaEl_i" \
    "A0avKrHe364A--f0N1pS4UGKk5t5CdZbwptbrL4H3w"

#define JWK_OCT(kid, k)    "{\"kty\":\"oct\",\"kid\":\"" kid "\",\"alg\":\"HS256\",\"k\":\"" k "\"}"
#define JWK_OKP(kid, x)    "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"" kid "\",\"alg\":\"EdDSA\",\"x\":\"" x "\"}"
#define JWK_RSA(kid, n, e) "{\"kty\":\"RSA\",\"kid\":\"" kid "\",\"alg\":\"RS256\",\"n\":\"" n "\",\"e\":\"" e "\"}"
#define JWK_EC(kid, x, y) \
    "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"" kid "\",\"alg\":\"ES256\",\"x\":\"" x "\",\"y\":\"" y "\"}"
#define JWK_SET(list) "{\"keys\":[" list "]}"

#endif
