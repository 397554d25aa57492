// What an answer means to an operator. Pure.

const WORDS = {
    FORBIDDEN: 'forbidden',
    VERSION_CHANGED: 'changed',
    UNAUTHENTICATED: 'unauthenticated',
    WRONG_STATE: 'wrong_state',
    BELOW_SOLD: 'below_sold',
    LOADING: 'loading',
    UNAVAILABLE: 'unavailable',
    OVERLOADED: 'overloaded',
    SHUTTING_DOWN: 'unavailable',
    UNREADABLE: 'unreadable',
    ARCHIVED: 'archived',
    UNKNOWN_VOUCHER: 'gone',
    NOT_FOUND: 'gone',
    STARTED: 'started',
    UNKNOWN_PAYMENT: 'unknown_payment',
    PENDING: 'pending',
    SCOPES_OFF: 'scopes_off',
    BAD_ORDER_ID: 'gone',
};

export function isGood(answer) {
    return answer.status >= 200 && answer.status < 300;
}

// Nothing came, or something else than the service answered, or it is about to end.
export function isAway(answer) {
    return answer.status === 0 || (answer.status >= 500 && answer.code === null) || answer.code === 'SHUTTING_DOWN';
}

// Whether the same request may be sent again as it is: it is not known, or not yet, what became of it.
export function mayRepeat(answer) {
    return isAway(answer) || answer.status === 503 || answer.status === 429;
}

// Of a question: nothing is unknown but the answer. As wordsFor().
export function wordsForRead(answer) {
    return isAway(answer) || answer.code === 'UNAVAILABLE' ? ['unread', {}] : wordsFor(answer);
}

// [key of words.js, values].
export function wordsFor(answer) {
    if (answer.status === 0 || isAway(answer)) {
        return ['no_answer', {}];
    }
    const word = WORDS[answer.code];
    if (word !== undefined) {
        return [word, { left: answer.body.left }];
    }
    if (Array.isArray(answer.body?.errors)) {
        return ['form_refused', { errors: answer.body.errors.map((e) => `${e.pointer} ${e.detail}`).join('; ') }];
    }
    return ['refusal', { code: answer.code ?? answer.status }];
}
