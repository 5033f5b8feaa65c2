// Generated results and a scripted `lro_page` over them, for the test of the table view.
// It runs in the host page (MCP App) and in Node (browser transport).

const MAX_CELL_LENGTH = 300;
const MAX_ROWS = 200;
const MAX_RECORDS_LENGTH = 20_000;

/** A pseudo-random generator with a fixed seed, so that every run shows the same rows. */
function random(seed) {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}

const WORDS = 'proxy cache session timeout upstream header token schema window panic retry stream index cursor lease spool'.split(' ');
const AUTHORS = ['octocat', 'mhenrik', 'sara-lind', 'dependabot[bot]', 'kwame', 'yuki.tanaka', 'a.moreau', 'ümit'];
const LABELS = ['bug', 'enhancement', 'docs', 'good first issue', 'performance'];

function issues(count) {
  const pick = random(7);
  const word = () => WORDS[pick(WORDS.length)];
  return Array.from({ length: count }, (_, i) => {
    const created = new Date(Date.UTC(2026, 9, 1) - i * 3_700_000 - pick(3_000_000)).toISOString().slice(0, 19) + 'Z';
    const state = pick(10) < 7 ? 'open' : 'closed';
    const record = {
      number: 4_812_000 - i * 3 - pick(3),
      title: `${word()} ${['fails after', 'drops the', 'leaks a', 'ignores the', 'is slow with a large'][pick(5)]} ${word()} when the ${word()} ${['restarts', 'is empty', 'exceeds 64 KiB', 'reconnects'][pick(4)]}`,
      state,
      author: AUTHORS[pick(AUTHORS.length)],
      comments: pick(4) ? pick(40) : 0,
      labels: pick(3) ? [LABELS[pick(LABELS.length)]] : [],
      created_at: created,
      closed_at: state === 'closed' ? created.replace('2026', '2027') : null,
      draft: pick(9) === 0,
    };
    if (pick(5)) record.milestone = `0.${pick(9)}.0`;
    return record;
  });
}

const HOSTILE_RECORDS = [
  { id: 1, value: '<b>bold</b><script>window.pwned = 1</script>' },
  { id: 2, value: '<img src=x onerror="window.pwned = 2">' },
  { id: 3, value: '"><svg onload=alert(1)><iframe src="javascript:alert(1)">' },
  { id: 4, value: 'javascript:alert(document.domain)' },
  { id: 5, value: 'invoice\u202Efdp.exe \u2066\u2067 \u202B never closed' },
  { id: 6, value: 'x'.repeat(1_000_000), uncut: true },
  { id: 7, value: 'null\u0000byte, bell\u0007, escape\u001b[31m, line\nbreak\r\nand\u2028separator, tab\there' },
  { id: 8, value: 'lone \ud800 surrogate \udc00 twice' },
  { id: 9, value: `zalgo ${'Z\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308'.repeat(20)} ﷽` },
  { id: 10, value: '{{constructor.constructor("window.pwned=3")()}} ${window.pwned=4}' },
  { id: 11, value: '</td></tr></table></script><a href="javascript:window.pwned=5">click</a>' },
  { id: 12, value: 'שלום עולם and مرحبا' },
];
const HOSTILE_COLUMNS = ['value', '__proto__', 'constructor', 'value', '<img src=x onerror=window.pwned=6>', `long${'-name'.repeat(2_000)}`, 'a\u202Eb\u0000c\nd', '', 'toString', 'hasOwnProperty'];

const days = (count, value) => Array.from({ length: count }, (_, i) => [new Date(Date.UTC(2026, 8, 1) + i * 86_400_000).toISOString().slice(0, 10), value(i)]);

/** Tables by reference: {title, columns, rows: arrays of cells, records?, notes?}. */
const tables = new Map();

function define(ref, title, table) {
  tables.set(ref, { ref, title, notes: [], ...table });
}

const cell = (value) => {
  if (value === undefined) return null;
  if (value === null || typeof value === 'boolean') return ['word', String(value)];
  if (typeof value === 'number') return ['number', String(value)];
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const kind = typeof value === 'string' ? 'text' : 'nested';
  return [kind, text.length > MAX_CELL_LENGTH ? `${text.slice(0, MAX_CELL_LENGTH)}…` : text];
};

function ofRecords(records, names) {
  const columns = names.map((name) => ({ name, kind: records.every((record) => [undefined, 'number'].includes(typeof record[name])) ? 'number' : 'text' }));
  return { columns, records, rows: records.map((record) => names.map((name) => cell(record[name]))) };
}

const ISSUE_COLUMNS = ['number', 'title', 'state', 'author', 'comments', 'labels', 'created_at', 'closed_at', 'draft', 'milestone'];

function ofPairs(first, second, pairs, kinds = ['text', 'number']) {
  return {
    columns: [{ name: first, kind: kinds[0] }, { name: second, kind: kinds[1] }],
    rows: pairs.map((pair) => pair.map(cell)),
    records: pairs.map(([a, b]) => ({ [first]: a, [second]: b })),
  };
}

export function defineTables({ large = 100_000 } = {}) {
  define('lro:01ISSUES', 'github, list_issues', ofRecords(issues(439), ISSUE_COLUMNS));
  define('lro:01LARGE', 'github, search_issues', {
    ...ofRecords(issues(large), ISSUE_COLUMNS),
    notes: [`The first ${large.toLocaleString('en')} of 240,000 rows.`],
  });
  define('lro:01GROUPS', 'github, list_issues', {
    ...ofPairs('author', 'count', AUTHORS.map((name, i) => [name, [987, 412, 305, 221, 98, 54, 12, 3][i]])),
    sql: 'SELECT author, count(*) AS count FROM result GROUP BY author ORDER BY count DESC',
  });
  define('lro:01BALANCE', 'bank, list_accounts', ofPairs('account', 'change', [
    ['Rent', -1250.5], ['Salary', 4200], ['Groceries', -386.12], ['Refund', 45], ['A name that is much longer than the space for labels allows', -12], ['Interest', 0.35], ['Empty', null],
  ]));
  define('lro:01SERIES', 'metrics, requests', {
    ...ofPairs('day', 'requests', days(61, (i) => Math.round(1200 + 500 * Math.sin(i / 6) + (i % 7 > 4 ? -420 : 0) + i * 9))),
    sql: "SELECT date_trunc('day', time) AS day, count(*) AS requests FROM result GROUP BY 1 ORDER BY 1",
  });
  define('lro:01SEVEN', 'metrics, change', ofPairs('day', 'change', days(7, (i) => [3, -2, 5, -7, 1, 0, 4][i])));
  define('lro:01LINES', 'shell, journalctl', {
    columns: [{ name: 'text', kind: 'text' }],
    rows: Array.from({ length: 120 }, (_, i) => [['text', `2026-10-01T08:${String(i % 60).padStart(2, '0')}:12Z ${i % 9 ? 'INFO ' : 'ERROR'} http:\tGET /v1/results/${i * 7919} status=${i % 9 ? 200 : 503} duration_ms=${(i * 37) % 900}`]]),
  });
  define('lro:01GROW', 'logs, events', {
    columns: ['time', 'level', 'trace'].map((name) => ({ name, kind: 'text' })),
    rows: Array.from({ length: 80 }, (_, i) => [`08:${i}`, 'info', ...(i < 60 ? [] : ['0af7'])].map(cell)),
    firstPageColumns: 2,
  });
  const VALUES = ['1.5', '[a]', '(none)', '$5', 'a+b', `${'long '.repeat(80)}`, '105', 'a', 'none'];
  define('lro:01VALUES', 'shop, list_prices', {
    ...ofRecords([...VALUES, ...VALUES.slice(0, 6)].map((value) => ({ value })), ['value']),
    partial: true,
  });
  define('lro:01EMPTY', 'github, list_issues', { columns: [], rows: [] });
  const hostileCell = ({ value, uncut }) => (uncut ? ['text', value] : cell(value));
  define('lro:01HOSTILE', '<img src=x onerror=window.pwned=7>\u202E title', {
    columns: HOSTILE_COLUMNS.map((name) => ({ name, kind: 'text' })),
    rows: HOSTILE_RECORDS.map((record, i) => [hostileCell(record), ...HOSTILE_COLUMNS.slice(1, 1 + (i % HOSTILE_COLUMNS.length)).map((_, j) => (j % 3 === 2 ? null : [j === 1 ? '<i>kind</i>' : 'text', HOSTILE_RECORDS[(i + j) % 5].value]))]),
    records: HOSTILE_RECORDS,
    sql: `SELECT '<script>window.pwned=8</script>', "\u202E" FROM result -- ${'very long '.repeat(60)}`,
    notes: ['<b onmouseover=window.pwned=9>note</b>\u202E'],
  });
}

function compare(a, b) {
  const [x, y] = [Number(a?.[1]), Number(b?.[1])];
  if (!a || !b) return a ? -1 : b ? 1 : 0;
  if (a[0] === 'number' && b[0] === 'number') return x - y;
  return a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0;
}

/** A regular expression, or a text if it is not a valid one. */
function patternOf(search) {
  try {
    return new RegExp(search, 'i');
  } catch {
    return new RegExp(search.replace(/[^\w\s]/g, '\\$&'), 'i');
  }
}

/** The structured content of `lro_page`, or an Error. */
export function lroPage({ ref, sql, offset = 0, limit = 50, order, search, record, counts, records }) {
  const table = tables.get(ref);
  if (!table) throw new Error(`no stored result ${ref}`);
  const { columns } = table;
  const text = (n) => (table.records ? JSON.stringify(table.records[n - 1], null, 2) : table.rows[n - 1][0][1]);
  if (record !== undefined) {
    const whole = text(record);
    return { record, text: whole.slice(0, 100_000), cut: whole.length > 100_000 };
  }
  if (records) {
    const lines = [];
    let length = 0;
    for (const n of records) {
      const line = table.records ? JSON.stringify(table.records[n - 1]) : text(n);
      length += line.length + 1;
      if (length > MAX_RECORDS_LENGTH) break;
      lines.push(line);
    }
    return { text: lines.join('\n'), given: lines.length, wanted: records.length };
  }
  let rows = table.rows.map((cells, i) => ({ n: i + 1, cells }));
  if (search) {
    const pattern = patternOf(search);
    rows = rows.filter(({ cells }) => cells.some((cell) => cell && pattern.test(cell[1])));
  }
  if (counts !== undefined) {
    const index = columns.findIndex(({ name }) => name === counts);
    const tally = new Map();
    let missing = 0;
    for (const { cells } of rows) {
      if (cells[index]) tally.set(cells[index][1], (tally.get(cells[index][1]) ?? 0) + 1);
      else missing += 1;
    }
    return { counts: [...tally].sort((a, b) => b[1] - a[1]).slice(0, 100), distinct: tally.size, missing, partial: Boolean(table.partial) };
  }
  if (order) {
    const index = columns.findIndex(({ name }) => name === order.column);
    if (index < 0) throw new Error(`no column ${order.column}`);
    rows = [...rows].sort((a, b) => (order.descending ? -1 : 1) * compare(a.cells[index], b.cells[index]) || a.n - b.n);
  }
  const size = Math.min(limit, MAX_ROWS);
  const pageColumns = offset === 0 ? columns.slice(0, table.firstPageColumns) : columns;
  return {
    ref, sql: sql ?? table.sql ?? null, title: table.title, columns: pageColumns, total: table.rows.length, matched: rows.length, offset,
    order: order ?? null, search: search || null, rows: rows.slice(offset, offset + size),
    ...(table.notes.length && { notes: table.notes }),
  };
}

/** What is wrong with the arguments of a call, by the contract of `lro_page`; null if nothing. */
export function argumentFault(args) {
  const members = ['ref', 'sql', 'offset', 'limit', 'order', 'search', 'record', 'counts', 'records'];
  const foreign = Object.keys(args).filter((key) => !members.includes(key));
  if (foreign.length) return `unknown member ${foreign}`;
  if (typeof args.ref !== 'string') return 'ref is not a text';
  if ('sql' in args && typeof args.sql !== 'string') return 'sql is not a text';
  if ('offset' in args && !(Number.isInteger(args.offset) && args.offset >= 0)) return 'offset is not a count';
  if ('limit' in args && !(Number.isInteger(args.limit) && args.limit >= 1 && args.limit <= MAX_ROWS)) return 'limit is out of range';
  if ('search' in args && typeof args.search !== 'string') return 'search is not a text';
  if ('order' in args && !(typeof args.order.column === 'string' && typeof args.order.descending === 'boolean' && Object.keys(args.order).length === 2)) return 'order is not {column, descending}';
  if ('record' in args && !(Number.isInteger(args.record) && args.record >= 1)) return 'record is not a row number';
  if ('counts' in args && typeof args.counts !== 'string') return 'counts is not a column';
  if ('records' in args && !(Array.isArray(args.records) && args.records.every((n) => Number.isInteger(n) && n >= 1))) return 'records are not row numbers';
  return null;
}
