'use strict';
// Every value reaches the page through textContent, attributes or the canvas: nothing is parsed as markup.
const data = JSON.parse(document.getElementById('data').textContent);
const rows = data.rows, good = rows.filter(r => r.tokens > 0), FINE = ['ok', 'stopped'];
const named = r => r.status === 'ok' ? r.label : `${r.label} (${r.status})`;
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function el(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}
function section(title, finding) {
  const node = el('section'), id = title.toLowerCase().replace(/[^a-z]+/g, '-');
  node.id = id;
  node.append(el('h2', title), el('p', finding, 'soft'));
  document.getElementById('main').append(node);
  const link = el('a', title);
  link.href = '#' + id;
  document.getElementById('contents').append(link);
  return node;
}
const count = x => x >= 1e12 ? (x / 1e12).toPrecision(3) + 'T' : x >= 1e9 ? (x / 1e9).toPrecision(3) + 'G'
  : x >= 1e6 ? (x / 1e6).toPrecision(3) + 'M' : x >= 1e3 ? (x / 1e3).toPrecision(3) + 'k' : Number(x.toPrecision(3)).toString();
const bytes = x => x >= 2 ** 30 ? (x / 2 ** 30).toFixed(2) + ' GiB' : (x / 2 ** 20).toFixed(2) + ' MiB';
const seconds = x => x >= 100 ? x.toFixed(0) + ' s' : x >= 1 ? x.toPrecision(3) + ' s' : (1e3 * x).toPrecision(3) + ' ms';
const percent = x => x === null || x === undefined ? '–' : (100 * x).toFixed(2) + ' %';
const signed = x => (x > 0 ? '+' : x < 0 ? '−' : '±') + Math.abs(100 * x).toFixed(1) + ' %';
const layout = r => `dp${r.dp} tp${r.tp} pp${r.pp}` + (r.zero ? ` zero${r.zero}` : '') +
  (r.checkpointing !== 'none' ? ` ${r.checkpointing}` : '');
const median = list => { const s = list.slice().sort((a, b) => a - b), h = s.length >> 1; return s.length % 2 ? s[h] : (s[h - 1] + s[h]) / 2; };

// Header -------------------------------------------------------------------------------------------
function header() {
  const best = good.slice().sort((a, b) => b.tokens - a.tokens)[0];
  const failed = rows.length - good.length;
  const few = rows.length === 1 ? '1 configuration' : `${rows.length} configurations`;
  document.getElementById('finding').textContent = best
    ? (rows.length === 1 ? `${best.label}: ${count(best.tokens)} tokens/s.`
       : `${best.label} is the fastest of ${good.length} configurations that ended well: ${count(best.tokens)} tokens/s.`) +
      (failed ? ` ${failed} ${failed === 1 ? 'has' : 'have'} no figures; the reasons are below.` : '')
    : `None of ${few} has figures; the reasons are below.`;
  if (!best) return;
  const facts = [['tokens per second', count(best.tokens)],
    ['95 % interval', `${count(best.low)} – ${count(best.high)}`], ['seconds per step', seconds(best.seconds)],
    ['tokens/s per device', count(best.per_device)], ['MFU (mpt)', percent(best.mfu)], ['HFU (mpt)', percent(best.hfu)],
    ['of the GEMM rate', percent(best.gemm)], ['memory per rank (plan)', bytes(best.memory_rank)]];
  for (const [title, value] of facts) {
    const fact = el('div', undefined, 'fact');
    fact.append(el('span', title, 'soft'), el('b', value));
    document.getElementById('facts').append(fact);
  }
}

// Table --------------------------------------------------------------------------------------------
const COLUMNS = [['run', r => r.label, 'text'], ['status', r => r.status, 'text'], ['tokens/s', r => r.tokens, '', x => count(x)],
  ['sec/it', r => r.seconds, '', x => x.toPrecision(4)],
  ['±', r => r.tokens ? (r.high_s - r.low_s) / 2 / r.seconds : 0, '', x => percent(x)],
  ['predicted', r => r.predicted, '', (x, r) => x.toPrecision(4) + (r.known ? ' (known)' : '')],
  ['error', r => r.predicted && r.tokens && !r.known ? r.predicted / r.seconds - 1 : 0, '', x => signed(x)],
  ['per device', r => r.per_device, '', x => count(x)],
  ['MFU', r => r.mfu ?? 0, '', x => percent(x)], ['HFU', r => r.hfu ?? 0, '', x => percent(x)],
  ['GEMM', r => r.gemm ?? 0, '', x => percent(x)], ['model', r => r.model, 'text'],
  ['T', r => r.seq], ['precision', r => r.precision, 'text'], ['dp', r => r.dp], ['tp', r => r.tp], ['pp', r => r.pp],
  ['ZeRO', r => r.zero], ['checkpointing', r => r.checkpointing, 'text'], ['micro', r => r.micro], ['accum', r => r.accum],
  ['global', r => r.global], ['ranks by', r => r.launcher, 'text'], ['memory/rank', r => r.memory_rank, '', x => bytes(x)],
  ['measured', r => r.memory_grown, '', x => bytes(x)],
  ['reason', r => [r.reason, r.apart].filter(Boolean).join('; '), 'reason', x => x.length > 160 ? x.slice(0, 157) + '…' : x]];
function table() {
  const s = section('All runs', 'Click a heading to sort; type to filter. Runs that failed keep their row. Error is predicted over measured, less one; a known run is what others of its kind are predicted from.');
  const filter = el('input');
  filter.type = 'search'; filter.placeholder = 'filter'; filter.id = 'filter'; filter.setAttribute('aria-label', 'filter rows');
  const box = el('div', undefined, 'scroll'), t = el('table'), head = el('tr'), body = el('tbody');
  t.id = 'runs';
  let sorted = -1, down = true;
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = rows.filter(r => { const all = JSON.stringify([r.label, r.status, r.model, r.precision, layout(r), r.launcher, r.reason, r.apart]).toLowerCase();
                                   return words.every(w => all.includes(w)); });
    if (sorted >= 0) {
      const of = COLUMNS[sorted][1];
      shown = shown.slice().sort((a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0) * (down ? -1 : 1));
    }
    body.replaceChildren(...shown.map(r => {
      const line = el('tr', undefined, FINE.includes(r.status) ? (r.apart ? 'apart' : '') : 'failed');
      for (const [, of, kind, format] of COLUMNS) {
        const value = of(r), text = format ? (value ? format(value, r) : '–') : String(value ?? '');
        line.append(el('td', text, kind || ''));
      }
      return line;
    }));
  };
  const buttons = COLUMNS.map(([name, , kind], i) => {
    const th = el('th', undefined, kind || ''), button = el('button', name);
    button.addEventListener('click', () => {
      down = sorted === i ? !down : true; sorted = i;
      head.querySelectorAll('th').forEach(h => h.removeAttribute('aria-sort'));
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      draw();
    });
    th.append(button); head.append(th);
    return button;
  });
  filter.addEventListener('input', draw);
  const thead = el('thead'); thead.append(head); t.append(thead, body); box.append(t); s.append(filter, box);
  // report.html#sort=tokens/s&filter=dp2 opens the table like that.
  const wanted = new URLSearchParams(location.hash.slice(1));
  filter.value = wanted.get('filter') || '';
  draw();
  const by = COLUMNS.findIndex(([name]) => name === wanted.get('sort'));
  if (by >= 0) buttons[by].click();
}

function reproduce() {
  const s = section('Run it again', 'The exact command of each row; log tails of those that failed.');
  for (const r of rows) {
    const d = el('details'), summary = el('summary', `${r.label} — ${r.status}`);
    d.append(summary, el('pre', r.command));
    if (r.reason) d.append(el('p', r.reason));
    if (r.log_tail) d.append(el('pre', r.log_tail));
    s.append(d);
  }
}
