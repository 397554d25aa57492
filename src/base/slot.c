// CRC-16/XMODEM: polynomial 0x1021, start 0, no reflection. Computed bit by bit: a tag is hashed once, when it becomes
// known.
#include "slot.h"

uint16_t sk_slot(const char *tag, size_t len)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint16_t)((unsigned char)tag[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc % SK_SLOTS;
}
