// Who buys, as far as the page knows.
//
// Token mode: the login leads to /#token=<JWT>. The token leaves the address at once, so that it is neither kept in the
// history nor sent on, and lives as long as the tab. While somebody else is logged in, here or in another tab, such a
// link only offers its login: else one with a token of its maker would let the reader buy in the maker's name without
// noticing. Gateway mode: the gateway names the buyer, and the page sends nothing. In the demo there is no gateway, and
// the page sends a name that the reader chooses.

const USER_KEY = 'seckill.user';
const TOKEN_KEY = 'seckill.token';
const OFFERED_KEY = 'seckill.offered'; // a token that waits for the reader's word
const LOGIN_KEY = 'seckill.login'; // {user, until}: the last login in this browser, of whichever tab

export function isUserName(name) {
    return typeof name === 'string' && /^[A-Za-z0-9_.-]{1,64}$/.test(name);
}

// What a token says, which the service alone checks. {}: it cannot be read.
function claimsOf(token) {
    try {
        return JSON.parse(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/'))) ?? {};
    } catch {
        return {};
    }
}

// The subject of a token, to show whose it is. null: it cannot be read.
export function subjectOf(token) {
    const subject = claimsOf(token).sub;
    return isUserName(subject) ? subject : null;
}

const loginOf = (token) => ({ user: subjectOf(token), until: claimsOf(token).exp * 1000 });

// {user}: it is null if the token does not name one. undefined: nobody is logged in, in no tab.
function currentLogin({ local, session }) {
    const logins = [loginOf(session.get(TOKEN_KEY) ?? ''), local.getJson(LOGIN_KEY)];
    return logins.find((login) => login?.until > Date.now());
}

function keepToken(token, { local, session }) {
    session.set(TOKEN_KEY, token);
    session.remove(OFFERED_KEY);
    local.setJson(LOGIN_KEY, loginOf(token));
}

// To be called before anything else of the page runs.
export function takeToken(place, history, storages) {
    const token = new URLSearchParams(place.hash.slice(1)).get('token');
    if (token === null) {
        return;
    }
    history.replaceState(null, '', place.pathname + place.search);
    const login = currentLogin(storages);
    const isSame = login !== undefined && login.user !== null && login.user === subjectOf(token);
    if (login === undefined || isSame || token === storages.session.get(TOKEN_KEY)) {
        keepToken(token, storages);
    } else {
        storages.session.set(OFFERED_KEY, token);
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

        // The login that a link has offered: {user, instead}. null: none waits.
        offered() {
            const token = byToken ? session.get(OFFERED_KEY) : null;
            return token && { user: subjectOf(token), instead: currentLogin({ local, session })?.user ?? null };
        },

        takeOffered: () => keepToken(session.get(OFFERED_KEY), { local, session }),

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

        // Of the name; a token ends by itself.
        logOut: () => local.remove(USER_KEY),
    };
}
