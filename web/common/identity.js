// Who buys, as far as the page knows.
//
// Token mode: the login leads to /#token=<JWT>. The token leaves the address at once, so that it is neither kept in the
// history nor sent on, and lives as long as the tab. It never makes another user of one who is logged in: else a link
// with a token of its maker would let the reader buy in the maker's name without noticing. Gateway mode: the gateway says it, and the page sends nothing; in
// the demo there is no gateway, and the page sends a name that the reader chooses.

const USER_KEY = 'seckill.user';
const TOKEN_KEY = 'seckill.token';

export function isUserName(name) {
    return typeof name === 'string' && /^[A-Za-z0-9_.-]{1,64}$/.test(name);
}

// What a token says, which the service alone checks. {}: it cannot be read.
function claimsOf(token) {
    try {
        return JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))) ?? {};
    } catch {
        return {};
    }
}

// The subject of a token, to show whose it is. null: it cannot be read.
export function subjectOf(token) {
    const subject = claimsOf(token).sub;
    return isUserName(subject) ? subject : null;
}

// To be called before anything else of the page runs.
export function takeToken(place, history, session) {
    const token = new URLSearchParams(place.hash.slice(1)).get('token');
    if (token === null) {
        return;
    }
    history.replaceState(null, '', place.pathname + place.search);
    const kept = session.get(TOKEN_KEY);
    const hasExpired = kept !== null && !(claimsOf(kept).exp * 1000 > Date.now());
    if (kept === null || hasExpired || subjectOf(kept) === subjectOf(token)) {
        session.set(TOKEN_KEY, token);
    }
}

// `settings` are those of /web/settings.json.
export function createIdentity(settings, { local, session }) {
    const byToken = settings.auth === 'token';
    const byName = !byToken && settings.demo;

    const token = () => (byToken ? session.get(TOKEN_KEY) : null);
    const name = () => {
        const kept = byName ? local.get(USER_KEY) : null;
        return isUserName(kept) ? kept : null;
    };

    return {
        mode: byToken ? 'token' : byName ? 'name' : 'gateway',
        isNameKey: (key) => byName && (key === USER_KEY || key === null),

        // null: not known here
        user: () => (byToken ? token() && subjectOf(token()) : name()),

        // Whether asking for what is the buyer's own makes sense.
        isThere: () => (byToken ? token() !== null : byName ? name() !== null : true),

        headers() {
            if (byToken) {
                return token() === null ? {} : { Authorization: `Bearer ${token()}` };
            }
            return name() === null ? {} : { 'X-User-Id': name() };
        },

        logIn(chosen) {
            if (byName && isUserName(chosen)) {
                local.set(USER_KEY, chosen);
            }
        },

        logOut() {
            local.remove(USER_KEY);
            session.remove(TOKEN_KEY);
        },
    };
}
