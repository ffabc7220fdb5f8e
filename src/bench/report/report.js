'use strict';
// Every value reaches the page through textContent or the canvas: nothing is parsed as markup.
const data = JSON.parse(document.getElementById('data').textContent);
const rows = data.rows, timed = rows.filter(r => r.tokens > 0), good = timed.filter(r => r.status === 'ok');
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PARTS = [['matmul', 'matrix products', '#3b6fd4'], ['attention', 'attention', '#8e5bd0'],
  ['other', 'other compute', '#38a3a5'], ['optimizer', 'optimizer', '#57a639'], ['copy', 'copies', '#a3b18a'],
  ['comm_dp', 'waiting: dp', '#e07a1f'], ['comm_tp', 'waiting: tp', '#d64550'],
  ['comm_pp', 'waiting: pp (bubble)', '#f2b632'], ['data', 'data', '#9c6644'], ['host', 'host', '#8d99ae']];
const TERMS = ['#3b6fd4', '#e07a1f', '#57a639', '#8e5bd0', '#38a3a5', '#d64550', '#8d99ae'];
const COLORS = ['#3b6fd4', '#e07a1f', '#57a639', '#8e5bd0', '#d64550', '#38a3a5', '#f2b632', '#9c6644'];

function el(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}
function section(title, finding) {
  const node = el('section');
  node.append(el('h2', title), el('p', finding, 'soft'));
  document.getElementById('main').append(node);
  return node;
}
const count = x => x >= 1e9 ? (x / 1e9).toPrecision(3) + 'G' : x >= 1e6 ? (x / 1e6).toPrecision(3) + 'M'
  : x >= 1e3 ? (x / 1e3).toPrecision(3) + 'k' : Number(x.toPrecision(3)).toString();
const bytes = x => x >= 2 ** 30 ? (x / 2 ** 30).toFixed(2) + ' GiB' : (x / 2 ** 20).toFixed(2) + ' MiB';
const percent = x => x === null ? '–' : (100 * x).toFixed(2) + ' %';
const layout = r => `dp${r.dp} tp${r.tp} pp${r.pp}` + (r.zero ? ` zero${r.zero}` : '') +
  (r.checkpointing !== 'none' ? ` ${r.checkpointing}` : '');

// Charts -------------------------------------------------------------------------------------------
const intervals = {  // 95 % intervals as whiskers, for bar charts whose data sets carry `low`, `high`
  id: 'intervals',
  afterDatasetsDraw(chart) {
    const set = chart.data.datasets[0];
    if (!set || !set.low) return;
    const c = chart.ctx, x = chart.scales.x, y = chart.scales.y;
    c.save(); c.strokeStyle = css('--ink'); c.lineWidth = 1.5;
    chart.getDatasetMeta(0).data.forEach((bar, i) => {
      const a = x.getPixelForValue(set.low[i]), b = x.getPixelForValue(set.high[i]), at = bar.y;
      c.beginPath(); c.moveTo(a, at); c.lineTo(b, at);
      for (const e of [a, b]) { c.moveTo(e, at - 4); c.lineTo(e, at + 4); }
      c.stroke();
    });
    c.restore();
  }
};
function chart(parent, name, height, config) {
  if (typeof Chart === 'undefined') { parent.append(el('p', 'Charts need Chart.js at build time.', 'soft')); return; }
  const box = el('div', undefined, 'chart'), canvas = el('canvas');
  box.style.height = height + 'px';
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', name);
  box.append(canvas);
  const save = el('button', 'save as PNG', 'save');
  parent.append(box, save);
  config.options = Object.assign({ animation: false, responsive: true, maintainAspectRatio: false }, config.options);
  const made = new Chart(canvas, config);
  save.addEventListener('click', () => {
    const link = el('a');
    link.href = made.toBase64Image();
    link.download = name.replace(/[^a-z0-9]+/gi, '-') + '.png';
    link.click();
  });
}
function axes(x, y, extra) {
  const grid = { color: css('--line') };
  return Object.assign({ x: { title: { display: !!x, text: x }, grid, ticks: {} },
                         y: { title: { display: !!y, text: y }, grid, ticks: {} } }, extra);
}

// Header -------------------------------------------------------------------------------------------
function header() {
  const best = good.slice().sort((a, b) => b.tokens - a.tokens)[0];
  const failed = rows.length - good.length;
  document.getElementById('finding').textContent = best
    ? `${best.label} is the fastest of ${rows.length} configurations: ${count(best.tokens)} tokens/s.` +
      (failed ? ` ${failed} did not finish; their reasons are below.` : '')
    : `None of ${rows.length} configurations finished; the reasons are below.`;
  if (!best) return;
  const facts = [['tokens per second', count(best.tokens)],
    ['95 % interval', `${count(best.low)} – ${count(best.high)}`], ['per device', count(best.per_device)],
    ['MFU (mpt)', percent(best.mfu)], ['HFU (mpt)', percent(best.hfu)],
    ['of the GEMM rate', percent(best.gemm)], ['memory per rank', bytes(best.memory_rank)]];
  for (const [title, value] of facts) {
    const fact = el('div', undefined, 'fact');
    fact.append(el('span', title, 'soft'), el('b', value));
    document.getElementById('facts').append(fact);
  }
}

// Table --------------------------------------------------------------------------------------------
const COLUMNS = [['run', r => r.label, 'text'], ['status', r => r.status, 'text'], ['model', r => r.model, 'text'],
  ['T', r => r.seq], ['precision', r => r.precision, 'text'], ['dp', r => r.dp], ['tp', r => r.tp], ['pp', r => r.pp],
  ['ZeRO', r => r.zero], ['checkpointing', r => r.checkpointing, 'text'], ['micro', r => r.micro], ['accum', r => r.accum],
  ['global', r => r.global], ['tokens/s', r => r.tokens, '', x => count(x)],
  ['per device', r => r.per_device, '', x => count(x)], ['sec/it', r => r.seconds, '', x => x.toPrecision(4)],
  ['±', r => r.tokens ? (r.high_s - r.low_s) / 2 / r.seconds : 0, '', x => percent(x)],
  ['MFU', r => r.mfu ?? 0, '', x => percent(x)], ['HFU', r => r.hfu ?? 0, '', x => percent(x)],
  ['GEMM', r => r.gemm ?? 0, '', x => percent(x)], ['memory predicted', r => r.memory_total, '', x => bytes(x)],
  ['memory measured', r => r.memory_measured, '', x => bytes(x)], ['reason', r => r.reason, 'reason', x => x.length > 160 ? x.slice(0, 157) + '…' : x]];
function table() {
  const s = section('All runs', 'Click a heading to sort; type to filter. Runs that failed keep their row.');
  const filter = el('input');
  filter.type = 'search'; filter.placeholder = 'filter'; filter.id = 'filter'; filter.setAttribute('aria-label', 'filter rows');
  const box = el('div', undefined, 'scroll'), t = el('table'), head = el('tr'), body = el('tbody');
  t.id = 'runs';
  let sorted = -1, down = true;
  const draw = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = rows.filter(r => { const all = JSON.stringify([r.label, r.status, r.model, r.precision, layout(r), r.reason]).toLowerCase();
                                   return words.every(w => all.includes(w)); });
    if (sorted >= 0) {
      const of = COLUMNS[sorted][1];
      shown = shown.slice().sort((a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0) * (down ? -1 : 1));
    }
    body.replaceChildren(...shown.map(r => {
      const line = el('tr', undefined, r.status === 'ok' ? '' : 'failed');
      for (const [, of, kind, format] of COLUMNS) {
        const value = of(r), text = format ? (value ? format(value) : '–') : String(value ?? '');
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
  draw();
  // report.html#sort=tokens/s&filter=dp2 opens the table like that.
  const wanted = new URLSearchParams(location.hash.slice(1));
  filter.value = wanted.get('filter') || '';
  draw();
  const by = COLUMNS.findIndex(([name]) => name === wanted.get('sort'));
  if (by >= 0) buttons[by].click();
}

// Charts of the runs -------------------------------------------------------------------------------
const many = 40;  // bars that one chart can show
function throughput() {
  const list = timed.slice().sort((a, b) => b.per_device - a.per_device).slice(0, many);
  if (!list.length) return;
  const s = section('Throughput per device', `Bars are medians, whiskers the 95 % interval of the median. Fastest: ${list[0].label}.`);
  chart(s, 'throughput', 60 + 24 * list.length, { type: 'bar', plugins: [intervals],
    data: { labels: list.map(r => r.label), datasets: [{ data: list.map(r => r.per_device), backgroundColor: COLORS[0],
      low: list.map(r => r.low / r.devices), high: list.map(r => r.high / r.devices) }] },
    options: { indexAxis: 'y', plugins: { legend: { display: false } }, scales: axes('tokens/s per device') } });
}
function attribution() {
  const list = timed.slice().sort((a, b) => a.seconds - b.seconds).slice(0, many);
  if (!list.length) return;
  const total = r => PARTS.reduce((sum, [key]) => sum + r.parts[key], 0) || 1;
  const first = list[0], biggest = PARTS.slice().sort((a, b) => first.parts[b[0]] - first.parts[a[0]])[0];
  const s = section('Where the step time goes',
    `Share of wall time, mean over steps and ranks. In ${first.label}, ${biggest[1]} take ${percent(first.parts[biggest[0]] / total(first))}.`);
  chart(s, 'attribution', 90 + 24 * list.length, { type: 'bar',
    data: { labels: list.map(r => r.label), datasets: PARTS.map(([key, name, color]) =>
      ({ label: name, backgroundColor: color, data: list.map(r => 100 * r.parts[key] / total(r)) })) },
    options: { indexAxis: 'y', scales: { x: { stacked: true, max: 100, title: { display: true, text: '% of the step' } }, y: { stacked: true } } } });
}
function memory() {
  const list = rows.filter(r => r.memory_total > 0).slice(0, many);
  if (!list.length) return;
  const s = section('Memory', 'Predicted per term for all ranks of the run (stacked), and what the process grew by (measured).');
  const terms = data.terms.map((name, i) => ({ label: name, stack: 'predicted', backgroundColor: TERMS[i],
    data: list.map(r => r.terms[i] * r.memory_total / Math.max(1, r.memory_rank) / 2 ** 20) }));
  terms.push({ label: 'measured', stack: 'measured', backgroundColor: css('--soft'),
    data: list.map(r => r.memory_measured / 2 ** 20) });
  chart(s, 'memory', 90 + 34 * list.length, { type: 'bar', data: { labels: list.map(r => r.label), datasets: terms },
    options: { indexAxis: 'y', scales: { x: { stacked: true, title: { display: true, text: 'MiB' } }, y: { stacked: true } } } });
  const both = list.filter(r => r.memory_measured > 0);
  if (both.length < 2) return;
  const most = Math.max(...both.map(r => Math.max(r.memory_total, r.memory_measured))) / 2 ** 20;
  chart(s, 'predicted against measured memory', 320, { type: 'scatter',
    data: { datasets: [{ label: 'runs', backgroundColor: COLORS[0], data: both.map(r => ({ x: r.memory_total / 2 ** 20, y: r.memory_measured / 2 ** 20, name: r.label })) },
      { label: 'equal', type: 'line', borderColor: css('--soft'), borderWidth: 1, pointRadius: 0, data: [{ x: 0, y: 0 }, { x: most, y: most }] }] },
    options: { plugins: { tooltip: { callbacks: { label: c => c.raw.name || '' } } }, scales: axes('predicted MiB', 'measured MiB') } });
}
function heatmap() {
  const groups = new Map();
  for (const r of rows) {
    const key = JSON.stringify([r.model, r.seq, r.precision]);
    groups.set(key, (groups.get(key) || []).concat(r));
  }
  let s = null;
  for (const [key, list] of groups) {
    const tps = [...new Set(list.map(r => r.tp))].sort((a, b) => a - b), pps = [...new Set(list.map(r => r.pp))].sort((a, b) => a - b);
    if (tps.length * pps.length < 2) continue;
    s = s || section('Topologies', 'Best tokens/s of each tensor-parallel (across) and pipeline (down) size; where nothing ran, why.');
    const [model, seq, precision] = JSON.parse(key), most = Math.max(...list.map(r => r.tokens), 1);
    s.append(el('p', `${model}, sequence ${seq}, ${precision}`));
    const box = el('div', undefined, 'scroll'), t = el('table', undefined, 'heat'), head = el('tr');
    head.append(el('th', 'pp \\ tp'), ...tps.map(tp => el('th', String(tp))));
    t.append(head);
    for (const pp of pps) {
      const line = el('tr');
      line.append(el('th', String(pp)));
      for (const tp of tps) {
        const here = list.filter(r => r.tp === tp && r.pp === pp), best = here.slice().sort((a, b) => b.tokens - a.tokens)[0];
        if (!best) { line.append(el('td', '–', 'none')); continue; }
        if (!best.tokens) { line.append(el('td', `${best.status}: ${best.reason.slice(0, 140)}`, 'none')); continue; }
        const cell = el('td', `${count(best.tokens)} (${layout(best)})`);
        cell.style.backgroundColor = `rgba(59, 111, 212, ${0.1 + 0.6 * best.tokens / most})`;
        line.append(cell);
      }
      t.append(line);
    }
    box.append(t); s.append(box);
  }
}
function scaling() {
  const groups = new Map();
  for (const r of good) {
    const key = `${r.model} T=${r.seq} ${r.precision}, batch ${r.global}`;
    const best = groups.get(key) || new Map(), old = best.get(r.devices);
    if (!old || r.tokens > old.tokens) best.set(r.devices, r);
    groups.set(key, best);
  }
  const sets = [];
  for (const [key, best] of groups) {
    if (best.size < 2) continue;
    const points = [...best.values()].sort((a, b) => a.devices - b.devices), color = COLORS[sets.length / 2 % COLORS.length];
    sets.push({ label: key, borderColor: color, backgroundColor: color, data: points.map(r => ({ x: r.devices, y: r.tokens })) });
    const one = points[0].tokens / points[0].devices;
    sets.push({ label: 'ideal', borderColor: color, borderDash: [4, 4], borderWidth: 1, pointRadius: 0, data: points.map(r => ({ x: r.devices, y: one * r.devices })) });
  }
  if (!sets.length) return;
  const last = sets[0].data[sets[0].data.length - 1], ideal = sets[1].data[sets[1].data.length - 1];
  const s = section('Scaling', `Best run at each number of ranks; dashed is ideal. ${sets[0].label}: ${percent(last.y / ideal.y)} efficiency at ${last.x} ranks.`);
  chart(s, 'scaling', 320, { type: 'line', data: { datasets: sets },
    options: { scales: axes('ranks', 'tokens/s', { x: { type: 'linear', title: { display: true, text: 'ranks' }, ticks: { precision: 0 } } }) } });
}
function losses() {
  const list = timed.filter(r => r.losses.length > 1).slice(0, 16);
  if (!list.length) return;
  let apart = 0;
  const same = list.filter(r => r.model === list[0].model && r.seq === list[0].seq && r.global === list[0].global && r.precision === list[0].precision);
  for (const r of same) r.losses.forEach((x, i) => { if (x !== null && same[0].losses[i] != null) apart = Math.max(apart, Math.abs(x - same[0].losses[i])); });
  const s = section('Loss', same.length > 1
    ? `Runs of one model, batch and precision must coincide however they are cut: the largest difference among ${same.length} is ${apart.toExponential(1)}.`
    : 'Loss of each step, nats.');
  chart(s, 'loss', 340, { type: 'line', data: { labels: list.reduce((a, r) => r.losses.length > a.length ? r.losses.map((_, i) => i + 1) : a, []),
    datasets: list.map((r, i) => ({ label: r.label, data: r.losses, borderColor: COLORS[i % COLORS.length], borderWidth: 1.5, pointRadius: 0 })) },
    options: { scales: axes('step', 'loss') } });
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
if (typeof Chart !== 'undefined') { Chart.defaults.color = css('--ink'); Chart.defaults.borderColor = css('--line'); }
header(); table(); throughput(); attribution(); memory(); heatmap(); scaling(); losses(); reproduce();
document.documentElement.dataset.ready = 'yes';
