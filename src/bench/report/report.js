'use strict';
// Every value reaches the page through textContent, attributes or the canvas: nothing is parsed as markup.
const data = JSON.parse(document.getElementById('data').textContent);
// Best first, everywhere; the parts of one training run in their order.
const rows = data.rows.sort((a, b) => data.continued ? (a.started < b.started ? -1 : 1) : b.tokens - a.tokens);
const good = rows.filter(r => r.tokens > 0), FINE = ['ok', 'stopped'];
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
const work = r => JSON.stringify([r.model, r.seq, r.precision, r.global]);
// What is wrong first, and its fix; where in which file stands in "Run it again".
function firstProblem(reason) {
  const text = reason.match(/^(?:\S+:\d+:\d+ )?(.*?; +fix: [^;]*|.*)/s)[1];
  return text.length > 200 ? text.slice(0, 200).replace(/\s\S*$/, '') + '…' : text;
}
// The first of a sorted list among those that do its work, and whom of them its interval overlaps. `per`: what figures are divided by.
function standing(list, per) {
  const best = list[0], rivals = list.filter(r => work(r) === work(best));
  const close = rivals.filter(r => r !== best && r.high / per(r) >= best.low / per(best));
  const names = close.length < 3 ? close.map(r => r.label).join(' and ') : `${close[0].label} and ${close.length - 1} others`;
  return { best, rivals: rivals.length, others: list.length - rivals.length, close: close.length ? `; it cannot be told apart from ${names}` : '' };
}
const median = list => { const s = list.slice().sort((a, b) => a - b), h = s.length >> 1; return s.length % 2 ? s[h] : (s[h - 1] + s[h]) / 2; };

// Header -------------------------------------------------------------------------------------------
function finding() {
  const failed = rows.length - good.length, what = data.continued ? 'part' : 'run', why = failed === 1 ? 'its row says why.' : 'their rows say why.';
  if (!good.length) return `None of ${rows.length} ${what}${rows.length === 1 ? '' : 's'} has figures: ${why}`;
  const busy = good.filter(r => r.busy).length;
  const { best, rivals, others, close } = standing(good, () => 1), last = good.at(-1);
  return (data.continued ? `A training run in ${rows.length === 1 ? 'one part' : rows.length + ' parts'}; ${last.label} reached ${count(last.tokens)} tokens/s.`
    : rivals === 1 ? `${best.label}: ${count(best.tokens)} tokens/s.`
    : `${best.label} is the fastest of ${rivals} configurations ${others ? 'of the same work ' : ''}that ended well: ${count(best.tokens)} tokens/s${close}.`) +
    (others && !data.continued ? ` ${others} did other work (model, sequence, precision or batch) and ${others === 1 ? 'is' : 'are'} not compared.` : '') +
    (busy ? ` Other programs took cores from ${busy} of them: figures of a quiet machine would be better.` : '') +
    (failed ? ` ${failed} ${failed === 1 ? 'has' : 'have'} no figures: ${why}` : '');
}
function header() {
  document.getElementById('finding').textContent = finding();
  const shown = good.at(data.continued ? -1 : 0);
  if (!shown) return;
  const facts = [['tokens per second', count(shown.tokens)],
    ['95 % interval', `${count(shown.low)} – ${count(shown.high)}`], ['seconds per step', seconds(shown.seconds)],
    ['tokens/s per device', count(shown.per_device)], ['MFU (mpt)', percent(shown.mfu)], ['HFU (mpt)', percent(shown.hfu)],
    ['of the GEMM rate', percent(shown.gemm)], ['memory per rank (plan)', shown.memory_rank ? bytes(shown.memory_rank) : '–']];
  for (const [title, value] of facts.filter(([, value]) => value !== '–')) {
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
  ['measured', r => r.memory_grown, '', x => bytes(x)]];
function nameCell(r) {
  const cell = el('td'), why = [firstProblem(r.reason), r.apart, r.busy].filter(Boolean).join('; ');
  const name = el('div', undefined, 'name');
  for (const word of r.label.split(/(?<=[-_,])/)) name.append(word, el('wbr'));
  cell.append(name);
  if (why) cell.append(el('div', why, 'why'));
  return cell;
}
function table() {
  const s = section('All runs', 'Click a heading to sort; type to filter. Runs that failed keep their row, and the reason below their name. Error is predicted over measured, less one; a known run is what others of its kind are predicted from.');
  const filter = el('input');
  filter.type = 'search'; filter.placeholder = 'filter'; filter.id = 'filter'; filter.setAttribute('aria-label', 'filter rows');
  const box = el('div', undefined, 'scroll'), t = el('table'), head = el('tr'), body = el('tbody');
  t.id = 'runs';
  let sorted = -1, down = true;
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = rows.filter(r => { const all = JSON.stringify([r.label, r.status, r.model, r.precision, layout(r), r.launcher, r.reason, r.apart, r.busy]).toLowerCase();
                                   return words.every(w => all.includes(w)); });
    if (sorted >= 0) {
      const of = COLUMNS[sorted][1];
      shown = shown.slice().sort((a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0) * (down ? -1 : 1));
    }
    body.replaceChildren(...shown.map(r => {
      const line = el('tr', undefined, FINE.includes(r.status) ? (r.apart ? 'apart' : '') : 'failed');
      line.append(nameCell(r));
      for (const [, of, kind, format] of COLUMNS.slice(1)) {
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
    d.append(summary, r.command ? el('pre', r.command) : el('p', 'No command: what was asked for gives no configuration.'));
    if (r.reason) d.append(el('p', r.reason));
    if (r.log_tail) d.append(el('pre', r.log_tail));
    s.append(d);
  }
}
