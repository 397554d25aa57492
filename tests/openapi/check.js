#!/usr/bin/env node
// Whether tools can use the service's OpenAPI document (./dev openapi installs what it needs):
//
//     tests/openapi/check.js [--binary FILE]
//
// 1. A linter, Redocly's with its recommended rules, finds nothing, not even a warning.
// 2. The types of openapi-typescript and the client of @hey-api/openapi-ts compile under `tsc --strict`, as does
//    uses.ts, which uses both as a client would.
// 3. Both steps notice a document that is wrong: the negative control.

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { createClient } from '@hey-api/openapi-ts';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import openapiTS, { astToString } from 'openapi-typescript';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const TSC = join(FOLDER, 'node_modules/typescript/bin/tsc');

const clone = (tree) => JSON.parse(JSON.stringify(tree));

async function lint(tree) {
    const config = await createConfig({ extends: ['recommended'] });
    const problems = await lintFromString({ source: JSON.stringify(tree), absoluteRef: '/openapi.json', config });
    return problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer ?? ''})`);
}

// What the compiler says of both generators' output and of uses.ts.
async function compile(tree) {
    const scratch = mkdtempSync(join(tmpdir(), 'seckill-openapi-'));
    try {
        mkdirSync(join(scratch, 'types'));
        writeFileSync(join(scratch, 'types/openapi.ts'), astToString(await openapiTS(tree)));
        await createClient({ input: tree, output: join(scratch, 'client'), logs: { level: 'silent' } });
        cpSync(join(FOLDER, 'uses.ts'), join(scratch, 'uses.ts'));
        const options = '--strict --noEmit --target es2022 --module esnext --moduleResolution bundler --lib es2022,dom,dom.iterable';
        const done = spawnSync(process.execPath, [TSC, ...options.split(' '), join(scratch, 'uses.ts'),
            join(scratch, 'client/index.ts'), join(scratch, 'client/sdk.gen.ts')], { encoding: 'utf8' });
        return done.status === 0 ? [] : (done.stdout + done.stderr).trim().split('\n');
    } finally {
        rmSync(scratch, { recursive: true });
    }
}

// Each change must be noticed by the step.
const CONTROLS = [
    ['no servers', lint, (tree) => delete tree.servers],
    ['a schema that nothing uses', lint, (tree) => (tree.components.schemas.Unused = { type: 'string' })],
    ['an operation without a summary', lint, (tree) => delete tree.paths['/vouchers'].get.summary],
    ['codes without an enum', compile, (tree) => (tree.components.schemas.ProblemCode = { type: 'string' })],
    ["a status without its own codes", compile, (tree) => {
        tree.components.responses.NotSold.content['application/problem+json'].schema.allOf.pop();
    }],
    ['events without a schema', compile, (tree) => {
        tree.components.responses.SaleEvents.content['text/event-stream'].schema = { type: 'string' };
    }],
    ['no phase', compile, (tree) => delete tree.components.schemas.Voucher.properties.phase],
];

async function main() {
    const at = process.argv.indexOf('--binary');
    const binary = resolve(at < 0 ? join(FOLDER, '../../build/seckill') : process.argv[at + 1]);
    const tree = JSON.parse(execFileSync(binary, ['--openapi'], { encoding: 'utf8', maxBuffer: 2 ** 24 }));
    const faults = [...(await lint(tree)), ...(await compile(clone(tree)))];
    for (const [what, step, change] of faults.length > 0 ? [] : CONTROLS) {
        const other = clone(tree);
        change(other);
        if ((await step(other)).length === 0) {
            faults.push(`not noticed: ${what}`);
        }
    }
    faults.forEach((fault) => console.error(`openapi: ${fault}`));
    console.log(`openapi: ${faults.length} faults; ${CONTROLS.length} wrong documents tried`);
    process.exitCode = faults.length > 0 ? 1 : 0;
}

await main();
