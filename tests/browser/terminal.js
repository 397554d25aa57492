// A terminal's picture: keeps a program's output as lines of cells, and renders them as an HTML page. It supports what
// loadtest/report/watch.py uses: lines, moving up, erasing, and colours.

const COLOURS = { 2: 'faint', 1: 'bold', 31: 'red', 32: 'green', 34: 'blue' };
const PARTS = /\x1b\[([0-9;?]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+/g;

export class Terminal {
    constructor() {
        this.lines = [[]];
        this.row = 0;
        this.column = 0;
        this.colour = '';
    }

    write(text) {
        for (const [part, number, command] of text.matchAll(PARTS)) {
            if (command) {
                this.obey(command, number);
            } else if (part === '\r') {
                this.column = 0;
            } else if (part === '\n') {
                this.row += 1;
                this.lines[this.row] ??= [];
            } else {
                this.put(part);
            }
        }
    }

    put(text) {
        for (const sign of text) {
            this.lines[this.row][this.column] = { sign, colour: this.colour };
            this.column += 1;
        }
    }

    obey(command, number) {
        if (command === 'A') {
            this.row = Math.max(0, this.row - Number(number || 1));
        } else if (command === 'K') {
            this.lines[this.row].length = Math.min(this.lines[this.row].length, this.column);
        } else if (command === 'J') {
            this.lines.length = this.row + 1;
            this.lines[this.row].length = Math.min(this.lines[this.row].length, this.column);
        } else if (command === 'm') {
            this.colour = COLOURS[Number(number)] ?? '';
        }
    }

    /** The lines as [text, colour] runs. */
    runs() {
        return this.lines.map((cells) => {
            const runs = [];
            for (const { sign, colour } of Array.from(cells, (cell) => cell ?? { sign: ' ', colour: '' })) {
                if (runs.at(-1)?.[1] === colour) {
                    runs.at(-1)[0] += sign;
                } else {
                    runs.push([sign, colour]);
                }
            }
            return runs;
        });
    }

    html() {
        const escaped = (text) => text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
        const spans = (runs) => runs.map(([text, colour]) => `<span class="${colour}">${escaped(text)}</span>`).join('');
        return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Terminal</title><style>
            body { margin: 0; background: #14161a; color: #e6e6e6; }
            pre { margin: 0; padding: 18px 22px; font: 15px/1.35 "DejaVu Sans Mono", monospace; width: max-content; }
            .faint { color: #8b939e } .bold { font-weight: bold } .red { color: #ff7b72 }
            .green { color: #6fd38a } .blue { color: #7ab7ff }
            </style><pre>${this.runs().map(spans).join('\n')}</pre></html>`;
    }
}
