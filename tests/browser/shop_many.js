// Many sales on the shop page: searching, ordering, compact cards, pictures and descriptions.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';

import { appears, card, hasText, priceBesideState, shows } from './scene.js';
import { Api, moment, until } from './site.js';

const PHONE = { width: 390, height: 700 };
const COMPACT_PX = 300; // so that two cards are on a phone's screen
const MANY = 22;
const TITLE_BYTES = 200;

async function searchAndOrder(scene) {
    const word = scene.user('cup');
    const terms = (i) => ({ title: `${word} no ${i + 100}`, description: 'Thin porcelain', end_at: moment(7200 - i * 60) });
    const ids = await Promise.all(Array.from({ length: MANY }, (_, i) => scene.voucher(terms(i))));
    const page = await scene.shop(scene.user(), { viewport: PHONE });
    const search = page.getByRole('searchbox');
    const ours = async () => {
        const shown = await page.locator('article[data-voucher]:visible').evaluateAll((all) => all.map(({ dataset }) => dataset.voucher));
        return shown.filter((id) => ids.includes(id));
    };
    await appears(search, 'the search');
    await until('all cards', async () => (await ours()).length === MANY);
    for (const id of ids.slice(0, 3)) {
        const { height } = await card(page, id).boundingBox();
        assert.ok(height <= COMPACT_PX, `a card is ${height} px high`);
    }
    await page.getByRole('combobox', { name: 'Order' }).selectOption('end');
    assert.deepEqual(await ours(), [...ids].reverse(), 'the order by end');
    await search.focus();
    await page.keyboard.type(`PORCELAIN 107 ${word}`);
    await until('the card that was searched', async () => (await page.locator('article:visible').count()) === 1);
    assert.deepEqual(await ours(), [ids[7]], 'what was searched');
    await shows(page, ids[7], 'on_sale');
    await until('the search in the history', () => page.evaluate(() => (history.state?.search ?? '') !== ''));
    await page.reload();
    await until('the search after a reload', async () => (await page.locator('article:visible').count()) === 1);
    assert.equal(await search.inputValue(), `PORCELAIN 107 ${word}`);
    await search.fill(`${word} saucer`);
    await hasText(page.locator('#none:visible'), /No sale has .* saucer/, 'a search without a result');
    await search.fill('');
    await until('all cards again', async () => (await ours()).length === MANY);
}

async function longTitle(scene) {
    const long = await scene.voucher({ title: 'Unbreakable porcelain '.repeat(20).slice(0, TITLE_BYTES - 4).trim() + ' end' });
    const short = await scene.voucher({ title: 'A cup' });
    const page = await scene.shop(scene.user(), { viewport: { width: 320, height: 640 } });
    await shows(page, long, 'on_sale');
    await shows(page, short, 'on_sale');
    const height = async (id) => (await card(page, id).boundingBox()).height;
    const keepsShape = async () => (await height(long)) <= (await height(short)) + 60;
    await until(`the shape: a long title makes a card of ${await height(long)} px`, keepsShape, 3000);
    const more = card(page, long).getByRole('button', { name: /^More/ });
    await more.focus();
    await page.keyboard.press('Enter');
    const isWhole = (heading) => heading.scrollHeight <= heading.clientHeight + 1;
    assert.ok(await card(page, long).locator('h3').evaluate(isWhole), 'the end of a long title cannot be read');
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the screen');
}

const PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="96" height="96"><rect width="96" height="96" fill="teal"/></svg>';

async function pictureAndDescription(scene) {
    const pictures = createServer((request, response) => {
        response.writeHead(request.url === '/cup.svg' ? 200 : 404, { 'Content-Type': 'image/svg+xml' });
        response.end(request.url === '/cup.svg' ? PICTURE : '');
    });
    pictures.listen(0, '127.0.0.1');
    await once(pictures, 'listening');
    try {
        const origin = `http://127.0.0.1:${pictures.address().port}`;
        const own = await scene.instance({ SECKILL_PICTURE_ORIGINS: origin });
        const api = new Api(own.url);
        const terms = { title: 'A cup', description: 'Thin porcelain', picture: `${origin}/cup.svg`, price_cents: 123456789, limit: 2 };
        const voucher = await api.voucher(terms);
        scene.vouchers.push(voucher);
        const elsewhere = { picture: 'https://elsewhere.example/cup.svg' };
        const { status } = await api.ask('PATCH', `/admin/vouchers/${voucher}`, { admin: true, body: elsewhere });
        assert.equal(status, 422, 'a picture from elsewhere');
        const page = await scene.shop(scene.user(), { at: own.url });
        await shows(page, voucher, 'on_sale');
        await hasText(card(page, voucher), /Thin porcelain/, 'the description');
        const picture = card(page, voucher).locator('img');
        await picture.scrollIntoViewIfNeeded();
        await until('the picture', () => picture.evaluate(({ complete, naturalWidth }) => complete && naturalWidth > 0), 5000);
        await priceBesideState(page, voucher, 'On sale now');
        await page.locator('button[lang="zh-CN"]').click();
        await priceBesideState(page, voucher, '正在抢购');
        const unlisted = await scene.shop(scene.user()); // of the stack's instance, which lists no origin
        await shows(unlisted, voucher, 'on_sale');
        assert.equal(await card(unlisted, voucher).locator('img').getAttribute('src'), null, 'of an origin that is not listed');
        await api.admin('PATCH', `/admin/vouchers/${voucher}`, { picture: '' });
        await until('a picture that was removed', async () => { // a list may be a second old
            await page.reload();
            await shows(page, voucher, 'on_sale');
            return picture.isHidden();
        });
    } finally {
        pictures.close();
    }
}

export const tests = [
    { name: 'many sales are searched and ordered', run: searchAndOrder },
    { name: "a long title keeps its card's shape", run: longTitle },
    { name: 'a picture and a description', run: pictureAndDescription },
];
