// SHA-256 (FIPS 180-4), for the proof of work: SubtleCrypto answers each call by a promise, which for a hundred
// thousand short texts takes longer than to compute them here.

const ROUND = new Uint32Array(64);
const START = new Uint32Array(8);

// The fractions of the roots of the first primes.
function fill() {
    let found = 0;
    for (let number = 2; found < 64; number++) {
        let prime = true;
        for (let by = 2; by * by <= number && prime; by++) {
            prime = number % by !== 0;
        }
        if (prime) {
            if (found < 8) {
                START[found] = fraction(Math.sqrt(number));
            }
            ROUND[found++] = fraction(Math.cbrt(number));
        }
    }
}

function fraction(root) {
    return (root - Math.floor(root)) * 2 ** 32;
}

fill();

const words = new Int32Array(64);

// Mixes the 64 bytes of `block` into `state`.
function mix(state, block) {
    for (let i = 0; i < 16; i++) {
        words[i] = (block[4 * i] << 24) | (block[4 * i + 1] << 16) | (block[4 * i + 2] << 8) | block[4 * i + 3];
    }
    for (let i = 16; i < 64; i++) {
        const x = words[i - 15];
        const y = words[i - 2];
        const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
        const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
        words[i] = words[i - 16] + s0 + words[i - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
        const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
        const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[i] + words[i]) | 0;
        const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
        const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        h = g;
        g = f;
        f = e;
        e = (d + t1) | 0;
        d = c;
        c = b;
        b = a;
        a = (t1 + t2) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

// Texts that all begin with `prefix`, whose length is a multiple of 64 bytes, and end with up to 55 bytes of their own.
// The prefix is mixed once.
export function createHasher(prefix) {
    const middle = Uint32Array.from(START);
    const state = new Uint32Array(8);
    const block = new Uint8Array(64);
    for (let at = 0; at < prefix.length; at += 64) {
        mix(middle, prefix.subarray(at, at + 64));
    }
    // The eight words of the digest, which the next call overwrites. `tail` is ASCII.
    return function digest(tail) {
        const bits = (prefix.length + tail.length) * 8;
        block.fill(0);
        for (let i = 0; i < tail.length; i++) {
            block[i] = tail.charCodeAt(i);
        }
        block[tail.length] = 0x80;
        block[61] = bits >>> 16;
        block[62] = bits >>> 8;
        block[63] = bits;
        state.set(middle);
        mix(state, block);
        return state;
    };
}
