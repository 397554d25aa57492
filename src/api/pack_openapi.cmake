# Packs the OpenAPI document that PROGRAM prints, as C.
#   cmake -DPROGRAM=.../seckill-unpacked -DOUT=....c -DGZIP=... -P pack_openapi.cmake
execute_process(COMMAND "${PROGRAM}" --openapi OUTPUT_FILE "${OUT}.json" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${GZIP}" -9nc "${OUT}.json" OUTPUT_FILE "${OUT}.gz" COMMAND_ERROR_IS_FATAL ANY)
file(READ "${OUT}.gz" hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
file(WRITE "${OUT}" "#include \"about.h\"\n\nconst unsigned char sk_openapi_packed[] = {${bytes}};\n"
     "const size_t sk_openapi_packed_len = sizeof sk_openapi_packed;\n")
file(REMOVE "${OUT}.json" "${OUT}.gz")
