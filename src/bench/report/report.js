'use strict';
// Every value reaches the page through textContent, attributes or the canvas: nothing is parsed as markup.
const data = JSON.parse(document.getElementById('data').textContent);
// Best first, everywhere; the parts of one training run in their order.
const rows = data.rows.sort((a, b) => data.continued ? (a.started < b.started ? -1 : 1) : b.tokens - a.tokens);
const good = rows.filter(r => r.tokens > 0), FINE = ['ok', 'stopped'];
const named = r => r.status === 'ok' ? r.label : `${r.label} (${r.status})`;
const printing = () => document.documentElement.dataset.theme === 'print';
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function el(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}
// `long`: may be parted between two printed pages.
function section(title, finding, long) {
  const node = el('section', undefined, long ? 'long' : 'whole'), id = title.toLowerCase().replace(/[^a-z]+/g, '-');
  node.id = id;
  node.append(el('h2', title), el('p', finding, 'soft'));
  document.getElementById('main').append(node);
  const link = el('a', title);
  link.href = '#' + id;
  document.getElementById('contents').append(link);
  return node;
}
// A frame in which something wide scrolls sideways, and which says so: a shadow at each side behind which there is more, and `words`.
const scrollers = [];
function scroller(parent, content, name, words) {
  const frame = el('div', undefined, 'frame'), box = el('div', undefined, 'scroll'), hint = el('p', words, 'soft hint');
  box.tabIndex = 0; box.setAttribute('role', 'region'); box.setAttribute('aria-label', name);
  box.append(content); frame.append(box); parent.append(hint, frame);
  const mark = () => {
    if (printing()) {  // paper does not scroll
      const room = box.clientWidth / content.scrollWidth;
      if (room < 1) content.style.zoom = room;
    }
    const before = box.scrollLeft > 1, after = box.scrollLeft + box.clientWidth < box.scrollWidth - 1;
    frame.classList.toggle('before', before); frame.classList.toggle('after', after);
    hint.hidden = !before && !after;
  };
  box.addEventListener('scroll', mark, { passive: true });
  scrollers.push(mark);
}
addEventListener('resize', () => scrollers.forEach(mark => mark()));
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
// The first of a sorted list among those that do its work, and whom of them its interval overlaps.
function standing(list) {
  const best = list[0], same = list.filter(r => work(r) === work(best)), close = same.filter(r => r !== best && r.high >= best.low);
  const names = close.length < 3 ? close.map(r => r.label).join(' and ') : `${close[0].label} and ${close.length - 1} others`;
  return { best, same, others: list.length - same.length, close: close.length ? `; it cannot be told apart from ${names}` : '' };
}
const median = list => { const s = list.slice().sort((a, b) => a - b), h = s.length >> 1; return s.length % 2 ? s[h] : (s[h - 1] + s[h]) / 2; };

// Header -------------------------------------------------------------------------------------------
const perplexity = loss => loss < 20 ? Math.exp(loss).toPrecision(4) : Math.exp(loss).toExponential(2);
const learned = data.training && { steps: data.training.steps.at(-1), evaluation: data.training.evaluations.at(-1) };
function trained() {
  const several = rows.length > 1, last = good.at(-1), [step, loss] = learned ? learned.steps : [];
  return 'A training run' + (several ? ` in ${rows.length} parts` : '') + (learned ? `: loss ${loss === null ? 'not finite' : loss.toFixed(4)} at step ${step}` : '') +
    (learned && learned.evaluation && learned.evaluation[1] !== null ? `, evaluation loss ${learned.evaluation[1].toFixed(4)} at step ${learned.evaluation[0]}` : '') +
    (last ? `; ${count(last.tokens)} tokens/s${several ? ` in part ${rows.indexOf(last) + 1}` : ''}.` : '.');
}
function ranked() {
  const { best, same, others, close } = standing(good), rate = `${count(best.tokens)} tokens/s`;
  return (same.length === 1 ? `${best.label}: ${rate}.`
    : `${best.label} is the fastest of ${same.length} configurations ${others ? 'of the same work ' : ''}that ended well: ${rate}${close}.`) +
    (others ? ` ${others} did other work (model, sequence, precision or batch) and ${others === 1 ? 'is' : 'are'} not compared.` : '');
}
function finding() {
  const failed = rows.length - good.length, what = data.continued ? 'part' : 'run', why = failed === 1 ? 'its row says why.' : 'their rows say why.';
  const first = data.continued && (good.length || learned) ? trained() : good.length ? ranked() : '', busy = good.filter(r => r.busy).length;
  if (!good.length) return `${first} None of ${rows.length} ${what}${rows.length === 1 ? '' : 's'} has figures of speed: ${why}`.trim();
  return first + (busy ? ` Other programs took cores from ${busy} of them: a quiet machine would give better figures.` : '') +
    (failed ? ` ${failed} ${failed === 1 ? 'has' : 'have'} no figures: ${why}` : '');
}
// [title, value, note] of each tile.
function facts(r) {
  const all = [];
  if (learned && learned.steps[1] !== null) all.push([`loss at step ${learned.steps[0]}`, learned.steps[1].toFixed(4), 'nats per token']);
  if (learned && learned.evaluation && learned.evaluation[1] !== null) {
    all.push(['evaluation loss', learned.evaluation[1].toFixed(4), `perplexity ${perplexity(learned.evaluation[1])}`]);
  }
  if (!r) return all;
  all.push(['tokens per second', count(r.tokens), `95 %: ${count(r.low)} – ${count(r.high)}`],
    ['time of a step', seconds(r.seconds), `± ${percent((r.high_s - r.low_s) / 2 / r.seconds)}`]);
  if (r.devices > 1) all.push(['tokens/s per device', count(r.per_device), `on each of ${r.devices}`]);
  if (r.mfu !== null) all.push(['MFU (mpt)', percent(r.mfu), `HFU ${percent(r.hfu)}`]);
  if (r.gemm !== null) all.push(['of the GEMM rate', percent(r.gemm), 'measured on this machine']);
  if (r.memory_rank) all.push(['memory per rank', bytes(r.memory_rank), r.memory_grown ? `planned; measured ${bytes(r.memory_grown)}` : 'planned']);
  return all;
}
function header() {
  document.getElementById('finding').textContent = finding();
  const box = document.getElementById('facts'), all = facts(good.at(data.continued ? -1 : 0));
  for (const [title, value, note] of all) {
    const fact = el('div', undefined, 'fact');
    fact.append(el('span', title, 'soft'), el('b', value), el('span', note, 'soft'));
    box.append(fact);
  }
  // One row, or two that are as long.
  const n = all.length, half = Math.ceil(n / 2);
  box.style.setProperty('--columns', n > 6 ? half : n);
  box.style.setProperty('--half', Math.min(half, 4));
}

// Table --------------------------------------------------------------------------------------------
// `of` gives nothing (null or '') where a run has no such value. Settings that are the same in all runs need no column.
const words = (name, of, more) => ({ name, of, text: true, show: x => x, ...more });
const figure = (name, of, show, more) => ({ name, of: r => of(r) || null, show, ...more });
const setting = (name, title, of) => ({ name, title, of, show: String, setting: true, text: typeof of(rows[0] || {}) === 'string' });
const COLUMNS = [words('run', r => r.label), words('status', r => r.status),
  figure('tokens/s', r => r.tokens, count, { title: 'tokens per second, all devices together' }),
  figure('sec/it', r => r.seconds, x => x.toPrecision(4), { title: 'median time of a step, in seconds' }),
  figure('±', r => r.tokens && (r.high_s - r.low_s) / 2 / r.seconds, percent, { title: 'half of the 95 % interval of the median' }),
  figure('predicted', r => r.predicted, (x, r) => x.toPrecision(4) + (r.known ? ' (known)' : ''), { title: 'predicted time of a step, in seconds', minor: true }),
  { name: 'error', of: r => r.predicted && r.tokens && !r.known ? r.predicted / r.seconds - 1 : null, show: x => signed(x), title: 'predicted over measured time, less one' },
  figure('per device', r => r.devices > 1 && r.per_device, count, { title: 'tokens per second and device', minor: true }),
  figure('MFU', r => r.mfu, percent, { title: 'model FLOPs, mpt convention, of the peak' }),
  figure('HFU', r => r.hfu, percent, { title: 'as MFU, with recomputation', minor: true }),
  figure('GEMM', r => r.gemm, percent, { title: 'executed FLOPs, of the measured rate of matrix products', minor: true }),
  setting('model', 'model', r => r.model), setting('T', 'sequence length', r => r.seq), setting('precision', 'precision', r => r.precision),
  setting('dp', 'dp', r => r.dp), setting('tp', 'tp', r => r.tp), setting('pp', 'pp', r => r.pp), setting('ZeRO', 'ZeRO', r => r.zero),
  setting('checkpointing', 'activation checkpointing', r => r.checkpointing), setting('micro', 'micro-batch', r => r.micro),
  setting('accum', 'micro-batches per step', r => r.accum), setting('global', 'global batch', r => r.global),
  setting('ranks by', 'ranks started by', r => r.launcher),
  figure('memory/rank', r => r.memory_rank, bytes, { title: 'planned memory of the largest rank' }),
  figure('measured', r => r.memory_grown, bytes, { title: 'by how much the process grew, per rank' })];
const missing = x => x === null || x === undefined || x === '';
const same = c => c.setting && rows.every(r => c.of(r) === c.of(rows[0]));
// Runs without a value come last, whichever way the others are sorted.
const ordered = ({ of, text }, down) => (a, b) => {
  const x = of(a), y = of(b);
  if (missing(x) || missing(y)) return missing(x) - missing(y);
  return (text ? x.localeCompare(y, 'en', { numeric: true }) : x - y) * (down ? -1 : 1);
};
const cell = (tag, c, text) => el(tag, text, [c.text ? 'text' : '', c.minor ? 'minor' : ''].join(' ').trim());
function nameCell(r) {
  const cell = el('td'), why = [firstProblem(r.reason), r.apart, r.busy].filter(Boolean).join('; ');
  const name = el('div', undefined, 'name');
  for (const word of r.label.split(/(?<=[-_,])/)) name.append(word, el('wbr'));
  cell.append(name);
  if (why) cell.append(el('div', why, 'why'));
  return cell;
}
// What the reader has chosen, kept when the page is drawn again.
const view = { filter: '', sorted: null, down: true, run: {} };
function table() {
  const columns = COLUMNS.filter(c => !same(c) && !rows.every(r => missing(c.of(r)))), alike = COLUMNS.filter(same);
  const several = rows.length > 1;
  const s = section(data.continued ? 'Parts of the run' : 'All runs', (several && !printing() ? 'Click a heading to sort; type to filter. ' : '') +
    'A run that failed keeps its row, with the reason below its name.' + (columns.some(c => c.name === 'error') ? ' The error is predicted over measured time, less one; a known run is the one that others are predicted from.' : ''), true);
  if (alike.length) s.append(el('p', `${several ? 'The same in all' : 'Settings'}: ${alike.map(c => `${c.title} ${missing(c.of(rows[0])) ? '–' : c.of(rows[0])}`).join(', ')}.`, 'alike'));
  const filter = el('input');
  filter.type = 'search'; filter.placeholder = 'filter'; filter.id = 'filter'; filter.value = view.filter; filter.setAttribute('aria-label', 'filter rows');
  const t = el('table'), head = el('tr'), body = el('tbody'), thead = el('thead');
  t.id = 'runs';
  const fill = () => {
    const wanted = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter(r => {
      const all = JSON.stringify([r.label, r.status, r.model, r.precision, layout(r), r.launcher, r.reason, r.apart, r.busy]).toLowerCase();
      return wanted.every(w => all.includes(w));
    });
    if (view.sorted) shown.sort(ordered(view.sorted, view.down));
    body.replaceChildren(...shown.map(r => {
      const line = el('tr', undefined, FINE.includes(r.status) ? (r.apart ? 'apart' : '') : 'failed');
      line.append(nameCell(r), ...columns.slice(1).map(c => cell('td', c, missing(c.of(r)) ? '–' : c.show(c.of(r), r))));
      return line;
    }));
    columns.forEach((c, i) => {
      if (c === view.sorted) head.children[i].setAttribute('aria-sort', view.down ? 'descending' : 'ascending');
      else head.children[i].removeAttribute('aria-sort');
    });
  };
  const sort = c => {
    view.down = view.sorted === c ? !view.down : !c.text;
    view.sorted = c;
    fill();
  };
  for (const c of columns) {
    const th = cell('th', c), button = el('button', c.name);
    if (c.title) button.title = c.title;
    button.addEventListener('click', () => sort(c));
    th.append(button); head.append(th);
  }
  filter.addEventListener('input', () => { view.filter = filter.value; fill(); });
  thead.append(head); t.append(thead, body);
  if (several) s.append(filter);
  scroller(s, t, 'all runs', `${columns.length} columns: scroll sideways for all of them.`);
  fill();
}
// report.html#sort=tokens/s&filter=dp2 opens the table like that.
function openAsAsked() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  view.filter = wanted.get('filter') || '';
  view.sorted = COLUMNS.find(c => c.name === wanted.get('sort')) || null;
  view.down = !view.sorted || !view.sorted.text;
}

function reproduce() {
  const most = 12;  // of more, a printed page shows none
  if (printing() && rows.length > most) return;
  const s = section('Run it again', 'The exact command of each row, and the last lines that failed runs printed.', true);
  for (const r of rows) {
    const d = el('details'), summary = el('summary', `${r.label} — ${r.status}`);
    d.open = printing();
    d.append(summary, r.command ? el('pre', r.command) : el('p', 'No command: what was asked for gives no configuration.'));
    if (r.reason) d.append(el('p', r.reason));
    if (r.log_tail) d.append(el('pre', r.log_tail));
    s.append(d);
  }
}
