// Elements without markup in strings, which the Content-Security-Policy forbids anyway.

// element('button', {type: 'button', onclick: f, data: {buy: ''}}, 'Buy'); attributes that are null or false are left
// out.
export function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (name === 'data') {
            Object.assign(made.dataset, value);
        } else if (name.startsWith('on')) {
            made.addEventListener(name.slice(2), value);
        } else {
            setAttribute(made, name, value);
        }
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
}

export function setAttribute(at, name, value) {
    if (value === null || value === undefined || value === false) {
        at.removeAttribute(name);
    } else if (at.getAttribute(name) !== String(value)) {
        at.setAttribute(name, value === true ? '' : value);
    }
}

// Only where it differs: a live region repeats what is written again, and a selection is lost.
export function setText(at, text) {
    if (at.textContent !== text) {
        at.textContent = text;
    }
}

// A button that cannot be used stays where it is, and in the order of the tab key; its listener asks isOff().
export function setOff(button, off) {
    setAttribute(button, 'aria-disabled', off ? 'true' : null);
}

export function isOff(button) {
    return button.getAttribute('aria-disabled') === 'true';
}
