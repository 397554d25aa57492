// The browser's storage. It may be switched off, full, or hold what another version wrote: then a page works without.

// `area` is 'localStorage' or 'sessionStorage'.
export function createStorage(area, from = globalThis) {
    const attempt = (action) => {
        try {
            return action(from[area]) ?? null;
        } catch {
            return null;
        }
    };
    const storage = {
        get: (key) => attempt((items) => items.getItem(key)),
        set: (key, value) => attempt((items) => items.setItem(key, value)),
        remove: (key) => attempt((items) => items.removeItem(key)),
        getJson: (key) => attempt((items) => JSON.parse(items.getItem(key))),
        setJson: (key, value) => storage.set(key, JSON.stringify(value)),
    };
    return storage;
}
