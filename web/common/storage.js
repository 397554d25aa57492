// The browser's storage. It may be switched off (in Android's WebView until the app turns it on), blocked, full, or hold
// what another version wrote. What it does not take is kept as long as the page lives.

// `area` is 'localStorage' or 'sessionStorage'.
export function createStorage(area, from = globalThis) {
    const here = new Map();
    const attempt = (action, failed = () => null) => {
        try {
            return action(from[area]) ?? null;
        } catch {
            return failed();
        }
    };
    const storage = {
        get: (key) => here.get(key) ?? attempt((items) => items.getItem(key)),
        set(key, value) {
            here.delete(key);
            attempt((items) => items.setItem(key, value), () => here.set(key, String(value)));
        },
        remove(key) {
            here.delete(key);
            attempt((items) => items.removeItem(key));
        },
        getJson(key) {
            try {
                return JSON.parse(storage.get(key));
            } catch {
                return null;
            }
        },
        setJson: (key, value) => storage.set(key, JSON.stringify(value)),
    };
    return storage;
}
